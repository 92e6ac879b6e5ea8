"""``lab suite``: many runs, and a table of what came out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.options import Dask, Json, exclude

if TYPE_CHECKING:
    from lab.api.suites import Reports, Selection, SelftestOptions, Suite
    from lab.batch.item import Item
    from lab.batch.row import Row

MANY = 100
"""If an item has more runs than this, only unexpected results have a line."""

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
Libraries = Annotated[bool, typer.Option("--libraries", help="Those about installed libraries.")]
Matrix = Annotated[
    bool, typer.Option("--matrix", help="A survey: locks × scenarios, and nothing is expected of a lock.")
]
SelftestFlag = Annotated[
    bool, typer.Option("--selftest", help="Find the defects of the broken locks, and none in a real one.")
]
Changes = Annotated[
    bool, typer.Option("--scenarios", help="With --selftest: leave out each step; is that noticed?")
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
For = Annotated[
    str | None,
    typer.Option("--for", help="The scenarios that apply to this lock, with what is expected of its kind."),
]
Like = Annotated[
    str | None,
    typer.Option(help="With --for: its kind: single, redlock or redlock-fenced; found by asking the lock."),
]
Only = Annotated[
    list[str] | None, typer.Option(help="Scenarios, locks, labels or ids; * and ? are wild. Repeatable.")
]
Shard = Annotated[str | None, typer.Option(help="A part of it: 2/5 is the second of five.")]
Servers = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        help="Which server nodes are: redis@8.2, valkey@8.1; real ones also a path, or image:NAME on docker. "
        "Several times: everything on each of them.",
    ),
]
Since = Annotated[
    bool,
    typer.Option("--since-failure", help="Only what failed last time or was never run; else all."),
]
Resume = Annotated[
    Path | None, typer.Option(help="Continue in this directory of a suite: run what is missing.")
]
Repeat = Annotated[int, typer.Option(min=1, help="How many times as often everything is run.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="How many real runs at once; one for each core if absent.")
]
On = Annotated[
    str | None,
    typer.Option(help="The substrate, in place of what a file says; several: sim,virtual,local."),
]
Seed = Annotated[int | None, typer.Option(help="The seed of all seeds; drawn if absent.")]
Out = Annotated[Path, typer.Option(help="Where the directory of these runs is made.")]
JUnit = Annotated[Path | None, typer.Option(help="Also write JUnit XML to this file.")]
Markdown = Annotated[Path | None, typer.Option(help="Also write the tables to this file.")]
Csv = Annotated[Path | None, typer.Option(help="Also write a line per item to this file.")]
Html = Annotated[Path | None, typer.Option(help="Also write a page with a link to each run.")]
Keep = Annotated[
    Path | None,
    typer.Option(help="Also write a form to keep: tables, and a small history per item."),
]
Show = Annotated[bool, typer.Option("--show", help="Print the file that comes with the lab.")]


app = typer.Typer()


@app.command()
def suite(
    what: Scenarios = None,
    library: Library = False,
    claims: Claims = False,
    libraries: Libraries = False,
    for_lock: For = None,
    like: Like = None,
    server: Servers = None,
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
    dask: Dask = None,
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
    """Run many scenarios, with many locks, and show which results are as expected."""
    from lab.api.suites import Reports, Selection, SelftestOptions, begin, shipped_file

    sets = {"library": library, "claims": claims, "libraries": libraries}
    exclude({"a file or a scenario": what, **{f"--{name}": given for name, given in sets.items()}})
    choice: Any = next((name for name, given in sets.items() if given), None)
    earlier = out if since_failure else None
    of = (tuple(only or ()), shard, earlier, repeat, for_lock)
    selection = Selection(tuple(what or ()), choice, matrix, on, *of)
    test = SelftestOptions(scenarios, full, simulated, real)
    reports = Reports(junit, markdown, csv, html, keep)
    if show:
        sys.stdout.write(shipped_file(matrix=matrix))
        return 0
    _refuse(selection, test, resume, keep, selftest=selftest)
    exclude({"--selftest": selftest, "--dask": dask})
    reports.check()
    asked_for = test if selftest else None
    begun = begin(
        selection,
        out,
        selftest=asked_for,
        resume=resume,
        jobs=jobs,
        seed=seed,
        like=like,
        servers=tuple(dict.fromkeys(server or ())),
        dask=dask,
    )
    try:
        return _run(begun, reports, as_json=as_json)
    finally:
        begun.batch.close()


def _refuse(
    selection: Selection, test: SelftestOptions, resume: Path | None, keep: Path | None, *, selftest: bool
) -> None:
    """Refuse options that do not go together. Raises ``LabError``."""
    from lab.errors import LabError

    chosen = {
        "a file or a scenario": selection.what,
        f"--{selection.choice}": selection.choice,
        "--for": selection.for_lock,
        "--matrix": selection.survey and resume is None,
    }
    part = {"--shard": selection.shard, "--since-failure": selection.since_failure}
    more = {"--scenarios": test.scenarios, "--full": test.full}
    more |= {"--simulated": test.simulated is not None, "--real": test.real is not None}
    wrong: dict[str, dict[str, Any]] = {}
    if selection.choice is not None:
        wrong[f"--{selection.choice}"] = {"--matrix": selection.survey}
    if resume is not None:
        wrong["--resume"] = {**chosen, "--on": selection.on, **part}
    if selftest:
        others = {"--resume": resume, "--keep": keep, "--repeat": selection.repeat > 1}
        wrong["--selftest"] = {**chosen, **part, **others}
    elif any(more.values()):
        there = next(name for name, value in more.items() if value)
        raise LabError(f"{there} without --selftest", expected=f"--selftest {there}")
    for option, others in wrong.items():
        for name, value in others.items():
            exclude({option: True, name: value})


def _run(begun: Suite, reports: Reports, *, as_json: bool) -> int:
    from lab.api.suites import Interrupted, print_servers, tables, worst
    from lab.errors import ExitCode, UnknownOutcome
    from lab.report.consoles import consoles
    from lab.report.progress import progress

    data, talk = consoles()
    batch, plan = begun.batch, begun.batch.plan
    runs = sum(item.repeat for item in batch.missing)
    for one in plan.skipped:
        talk.print(f"skipped: {one.lock}: {one.reason}", style="yellow", markup=False)
    talk.print(f"{plan.name}: {plan.title}", style="bold", markup=False)
    about = [f"{len(plan.items)} items, {runs} runs to go", begun.servers, str(batch.directory)]
    talk.print(" · ".join(filter(None, about)), style="dim", markup=False, soft_wrap=True)
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
                line = None if quiet else tables.row_line(item, row, survey=plan.survey)
                advance(line, ", ".join(running) or item.id)

            begun.run(on_start=on_start, on_row=on_row)
    except Interrupted:
        code = ExitCode.INTERRUPTED
        talk.print("interrupted: running scenarios were stopped, results are kept", style="yellow")
        if not plan.by_task:
            talk.print(f"to continue: lab suite --resume {batch.directory}", markup=False)
    except UnknownOutcome as error:
        code = worst([batch.result.exit_code, error.exit_code])
        talk.print(error.render(), style="yellow", markup=False)
    result = batch.result
    if as_json:
        sys.stdout.buffer.write(tables.to_json(result.to_dict()))
        sys.stdout.buffer.flush()
    elif plan.servers:
        print_servers(data, result)
    else:
        tables.print_result(data, result)
    for command in tables.to_repeat(result):
        talk.print(f"repeat: {command}", markup=False, soft_wrap=True)
    page = begun.page
    reports.write(result, None if page is None else lambda: page(result))
    return int(result.exit_code if code is None else code)
