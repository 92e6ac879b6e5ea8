"""``lab suite``: many runs, and a table of what came out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from lab.batch.engine import Batch
    from lab.batch.plan import Selection
    from lab.batch.reports import Reports
    from lab.batch.result import Result

    Work = Callable[..., Coroutine[Any, Any, Result]]
    Page = Callable[[Result], str]

MANY = 100
"""Of an item with more runs than this, only those have a line that did not come out as expected."""


Scenarios = Annotated[
    list[str] | None,
    typer.Argument(
        help="A suite's file, or scenarios, each run with its control; the lab's own suite if absent."
    ),
]
Library = Annotated[
    bool, typer.Option("--library", help="All scenarios that come with the lab, and controls.")
]
Claims = Annotated[bool, typer.Option("--claims", help="Those that test a claim about Redlock.")]
Libraries = Annotated[bool, typer.Option("--libraries", help="Those about libraries that are installed.")]
Matrix = Annotated[
    bool, typer.Option("--matrix", help="A survey: locks × scenarios, and nothing is expected of a lock.")
]
SelftestFlag = Annotated[
    bool, typer.Option("--selftest", help="Catch locks that are broken on purpose; accuse no real one.")
]
Changes = Annotated[
    bool, typer.Option("--scenarios", help="With --selftest: leave out each step; does anything notice?")
]
Full = Annotated[
    bool, typer.Option("--full", help="With --selftest: the real lock 10,000 times, and 200 for real.")
]
Simulated = Annotated[
    int | None, typer.Option(min=0, help="With --selftest: how many schedules the real lock is tried with.")
]
Real = Annotated[
    int | None, typer.Option(min=0, help="With --selftest: how many real runs it is tried with.")
]
Only = Annotated[
    list[str] | None, typer.Option(help="Scenarios, locks, labels or ids; * and ? are wild. Repeatable.")
]
Shard = Annotated[str | None, typer.Option(help="A part of it: 2/5 is the second of five.")]
Since = Annotated[
    bool, typer.Option("--since-failure", help="What failed last time, or was never run; else all.")
]
Resume = Annotated[
    Path | None, typer.Option(help="Go on in this directory of a suite: what is missing is run.")
]
Repeat = Annotated[int, typer.Option(min=1, help="How many times as often everything is run.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="How many real runs at once; one for each core if absent.")
]
On = Annotated[str | None, typer.Option(help="The substrate, in place of what a file says.")]
Seed = Annotated[int | None, typer.Option(help="The seed of all seeds; drawn if absent.")]
Out = Annotated[Path, typer.Option(help="Where the directory of these runs is made.")]
JUnit = Annotated[Path | None, typer.Option(help="Also write JUnit XML to this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write the tables to this file.")]
Csv = Annotated[Path | None, typer.Option(help="Also write a line per item to this file.")]
Html = Annotated[Path | None, typer.Option(help="Also write a page with a link to each run.")]
Keep = Annotated[
    Path | None, typer.Option(help="Also write a form to be kept: tables, and a small history per item.")
]
Show = Annotated[bool, typer.Option("--show", help="Print the file that comes with the lab.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def register(app: typer.Typer) -> None:
    """Define the command."""
    app.command()(suite)


def suite(
    what: Scenarios = None,
    library: Library = False,
    claims: Claims = False,
    libraries: Libraries = False,
    matrix: Matrix = False,
    selftest: SelftestFlag = False,
    scenarios: Changes = False,
    full: Full = False,
    simulated: Simulated = None,
    real: Real = None,
    only: Only = None,
    shard: Shard = None,
    since_failure: Since = False,
    resume: Resume = None,
    repeat: Repeat = 1,
    jobs: Jobs = None,
    on: On = None,
    seed: Seed = None,
    out: Out = Path("reports"),
    junit: JUnit = None,
    markdown: Markdown = None,
    csv: Csv = None,
    html: Html = None,
    keep: Keep = None,
    show: Show = False,
    as_json: Json = False,
) -> int:
    """Run many scenarios, with many locks, and show which came out as expected."""
    from lab.batch.plan import Selection
    from lab.batch.reports import Reports

    sets = {"library": library, "claims": claims, "libraries": libraries}
    choice: Any = _one_of({"a file or a scenario": what, **{f"--{name}": sets[name] for name in sets}})
    earlier = out if since_failure else None
    selection = Selection(tuple(what or ()), choice, matrix, on, tuple(only or ()), shard, earlier, repeat)
    asked = _Asked(selftest, scenarios, full, simulated, real)
    reports = Reports(junit, markdown, csv, html, keep)
    if show:
        return _show(matrix=matrix)
    _refuse(selection, asked, resume, keep)
    reports.check()
    batch, work, page = _begin(selection, asked, resume, out, jobs, seed)
    try:
        return _run(batch, work, reports, page, as_json=as_json)
    finally:
        batch.close()


class _Asked(NamedTuple):
    """What is asked of the self-tests."""

    selftest: bool
    scenarios: bool
    full: bool
    simulated: int | None
    real: int | None


def _one_of(given: dict[str, object]) -> str | None:
    """The name of the set of scenarios that is given, if one is. Raises ``LabError`` for several."""
    from lab.errors import LabError

    there = [name for name, value in given.items() if value]
    if len(there) > 1:
        raise LabError(f"{there[0]} together with {there[1]}", expected="either one or the other")
    return there[0].removeprefix("--") if there and there[0].startswith("--") else None


def _refuse(selection: Selection, asked: _Asked, resume: Path | None, keep: Path | None) -> None:
    """Refuse options that do not go together. Raises ``LabError``."""
    from lab.errors import LabError

    chosen = {
        "a file or a scenario": selection.what,
        f"--{selection.choice}": selection.choice,
        "--matrix": selection.survey and resume is None,
    }
    part = {"--shard": selection.shard, "--since-failure": selection.since_failure}
    more = {"--scenarios": asked.scenarios, "--full": asked.full}
    more |= {"--simulated": asked.simulated is not None, "--real": asked.real is not None}
    wrong: dict[str, dict[str, Any]] = {}
    if selection.choice is not None:
        wrong[f"--{selection.choice}"] = {"--matrix": selection.survey}
    if resume is not None:
        wrong["--resume"] = {**chosen, "--on": selection.on, **part}
    if asked.selftest:
        others = {"--resume": resume, "--keep": keep, "--repeat": selection.repeat > 1}
        wrong["--selftest"] = {**chosen, **part, **others}
    elif any(more.values()):
        there = next(name for name, value in more.items() if value)
        raise LabError(f"{there} without --selftest", expected=f"--selftest {there}")
    for option, others in wrong.items():
        for name, value in others.items():
            if value:
                raise LabError(f"{option} together with {name}", expected="either one or the other")


def _begin(
    selection: Selection, asked: _Asked, resume: Path | None, out: Path, jobs: int | None, seed: int | None
) -> tuple[Batch, Work, Page | None]:
    """The batch, how it is run, and what its Markdown is if not the tables. Raises ``LabError``."""
    from functools import partial

    from lab.batch.engine import Batch

    if asked.selftest:
        from lab.selftest.run import Trials, of_locks, of_scenarios

        trials = Trials(asked.full, asked.simulated, asked.real, selection.on or "auto", jobs)
        only = selection.only
        test = of_scenarios(only) if asked.scenarios else of_locks(only, trials, seed or 1)
        batch = Batch.begin(test.plan, out)
        return batch, partial(test.work, batch), test.page
    if resume is not None:
        batch = Batch.resume(resume, selection.only, selection.repeat)
    else:
        batch = Batch.begin(selection.plan(), out)
    return batch, partial(batch.run, jobs=jobs, seed=seed), None


def _show(*, matrix: bool) -> int:
    import sys

    from lab.batch import matrix_plan, suite_plan

    file = matrix_plan.DEFAULT if matrix else suite_plan.DEFAULT
    sys.stdout.write(file.read_text(encoding="utf-8"))
    return 0


def _run(
    batch: Batch,
    work: Work,
    reports: Reports,
    page: Page | None,
    *,
    as_json: bool,
) -> int:
    from lab.batch.exit_code import worst
    from lab.batch.item import Item
    from lab.batch.row import Row
    from lab.batch.tables import print_result, row_line, to_json, to_repeat
    from lab.errors import ExitCode, UnknownOutcome
    from lab.report.consoles import consoles
    from lab.report.progress import progress
    from lab.substrates.execute import execute
    from lab.substrates.interruption import Interrupted

    data, talk = consoles()
    plan, runs = batch.plan, sum(item.repeat for item in batch.missing)
    for one in plan.skipped:
        talk.print(f"skipped: {one.lock}: {one.reason}", style="yellow", markup=False)
    talk.print(f"{plan.name}: {plan.title}", style="bold", markup=False)
    talk.print(f"{len(plan.items)} items, {runs} runs to go · {batch.directory}", style="dim", markup=False)
    code: ExitCode | None = None
    running: list[str] = []
    try:
        with progress(talk, runs) as advance:

            def on_start(item: Item) -> None:
                running.append(item.id)
                advance(words=", ".join(running), by=0)

            def on_row(item: Item, row: Row) -> None:
                if item.id in running:
                    running.remove(item.id)
                quiet = item.repeat > MANY and row.as_expected
                line = None if quiet else row_line(item, row, survey=plan.survey)
                advance(line, ", ".join(running) or item.id)

            execute(work(on_start=on_start, on_row=on_row))
    except Interrupted:
        code = ExitCode.INTERRUPTED
        talk.print("interrupted: what was running was stopped, what had ended is kept", style="yellow")
        if not plan.by_task:
            talk.print(f"to go on: lab suite --resume {batch.directory}", markup=False)
    except UnknownOutcome as error:
        code = worst([batch.result.exit_code, error.exit_code])
        talk.print(error.render(), style="yellow", markup=False)
    result = batch.result
    if as_json:
        sys.stdout.buffer.write(to_json(result.to_dict()))
        sys.stdout.buffer.flush()
    else:
        print_result(data, result)
    for command in to_repeat(result):
        talk.print(f"repeat: {command}", markup=False, soft_wrap=True)
    reports.write(result, None if page is None else lambda: page(result))
    return int(result.exit_code if code is None else code)
