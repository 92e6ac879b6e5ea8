"""``lab suite``, ``lab verdicts``, ``lab matrix`` and ``lab selftest``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Json, On


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(suite)
    app.command()(verdicts)
    app.command()(matrix)
    app.command()(selftest)


def suite(
    file: Annotated[
        Path | None, typer.Argument(help="A suite's YAML file; the one that comes with the lab if absent.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Scenarios, locks or ids; * and ? are wild. Repeatable.")
    ] = None,
    shard: Annotated[str | None, typer.Option(help="A part of it: 2/5 is the second of five.")] = None,
    since_failure: Annotated[
        bool, typer.Option("--since-failure", help="What failed last time, or was never run; else all.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="How often everything is run.")] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many real runs at once; one for each core if absent.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the directory of these runs is made.")] = Path("reports"),
    junit: Annotated[Path | None, typer.Option(help="Also write JUnit XML to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write a summary to this file.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the suite that comes with the lab.")] = False,
    as_json: Json = False,
) -> int:
    """Run scenarios × locks × substrates against what is expected of each: for CI."""
    from lab.batch.suite.command import Asked, show_command, suite_command
    from lab.batch.suite.run import cores

    if show:
        return show_command()
    chosen = tuple(only or ())
    asked = Asked(file, chosen, shard, since_failure, repeat, jobs or cores(), out, junit, markdown)
    return suite_command(asked, as_json=as_json)


def verdicts(
    names: Annotated[
        list[str] | None, typer.Argument(help="Scenarios, each run with its control; all of them if absent.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often everything is run.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at once.")] = 1,
    out: Annotated[Path, typer.Option(help="Where the directory of these runs is made.")] = Path("reports"),
    on: On = "auto",
    markdown: Annotated[Path | None, typer.Option(help="Also write the table to this file.")] = None,
    libraries: Annotated[
        bool, typer.Option("--libraries", help="The stories about libraries whose driver is installed.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Run scenarios and their controls, and show which came out as expected."""
    return _verdicts(names or [], repeat, jobs, on, out, markdown, libraries=libraries, as_json=as_json)


def matrix(
    file: Annotated[
        Path | None,
        typer.Argument(help="A file like a suite's; the one that comes with the lab if absent."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Scenarios, locks, labels or ids; * and ? are wild. Repeatable.")
    ] = None,
    on: Annotated[str | None, typer.Option(help="The substrate, in place of what the file says.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How many times as often as the file says.")] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many real runs at once; one for each core if absent.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the directory of the matrix is made.")] = Path("reports"),
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the matrix in this directory: what is missing is run.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write a line per cell to this file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Also write the tables to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page with a link to each run.")] = None,
    keep: Annotated[
        Path | None, typer.Option(help="Also write a form to be kept: tables, and a small history per cell.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the matrix that comes with the lab.")] = False,
    as_json: Json = False,
) -> int:
    """Run locks × scenarios, and show what came out of each: a survey, which no lock can fail."""
    from lab.batch.matrix.command import Asked, matrix_command, show_command
    from lab.batch.suite.run import cores

    if show:
        return show_command()
    chosen = tuple(only or ())
    asked = Asked(file, chosen, on, repeat, jobs or cores(), out, resume, csv, markdown, html, keep)
    return matrix_command(asked, as_json=as_json)


def selftest(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A broken lock, or a scenario, by its name; all if absent. Repeatable."),
    ] = None,
    scenarios: Annotated[
        bool,
        typer.Option("--scenarios", help="Instead: leave out each step of each scenario; what notices it?"),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Try the real lock 10,000 times in simulation, and 200 for real.")
    ] = False,
    simulated: Annotated[
        int | None, typer.Option(min=0, help="How many simulated schedules the real lock is tried with.")
    ] = None,
    real: Annotated[int | None, typer.Option(min=0, help="How many real runs it is tried with.")] = None,
    seed: Annotated[int, typer.Option(min=1, help="The seed of everything that is drawn.")] = 1,
    on: On = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="How many real runs at once.")] = 2,
    out: Annotated[Path, typer.Option(help="Where the directory of real runs is made.")] = Path("reports"),
    markdown: Annotated[Path | None, typer.Option(help="Also write the table to this file.")] = None,
    as_json: Json = False,
) -> int:
    """Catch broken locks made for that, and accuse no real one: does the lab still do its work?"""
    if scenarios:
        from lab.batch.selftest.scenarios import scenarios_command

        return scenarios_command(tuple(only or ()), markdown=markdown, as_json=as_json)
    from lab.batch.selftest.command import Asked, selftest_command

    asked = Asked(tuple(only or ()), full, simulated, real, seed, on, jobs, out, markdown)
    return selftest_command(asked, as_json=as_json)


def _verdicts(
    names: list[str],
    repeat: int,
    jobs: int,
    on: str,
    out: Path,
    markdown: Path | None,
    *,
    libraries: bool,
    as_json: bool,
) -> int:
    """``lab verdicts``: 0 if everything came out as expected, 1 or 3 if not."""
    from lab.batch.verdicts import cases, exit_code, own_directory, run_all, to_json, usable
    from lab.report.consoles import consoles
    from lab.report.progress import ended_runs
    from lab.report.tables import print_table, verdict_markdown, verdict_table
    from lab.scenario.library import summaries
    from lab.scenario.load import load_scenario
    from lab.substrates import AUTO, choose
    from lab.substrates.execute import execute

    data, talk = consoles()
    for name in names:
        load_scenario(name)  # a misspelt name is told before anything is run
    if on != AUTO:
        choose(on)
    known = summaries(libraries=libraries)
    if libraries:
        known = usable(known, on, lambda line: talk.print(line, markup=False))
    if names and not libraries:
        known = (*known, *summaries(libraries=True), *summaries(consensus=True))
    lines = cases(names, known)
    reports = own_directory(out)
    with ended_runs(talk, repeat * sum(len(line.scenarios) for line in lines)) as on_end:
        rows = execute(run_all(lines, reports, repeat=repeat, jobs=jobs, on=on, on_end=on_end))
    if markdown is not None:
        markdown.write_text(verdict_markdown(rows), encoding="utf-8")
    if as_json:
        sys.stdout.buffer.write(to_json(rows))
    else:
        print_table(data, verdict_table(rows))
    for run in (run for row in rows for run in row.runs if not run.as_expected):
        talk.print(f"repeat: {run.repeat}", markup=False, soft_wrap=True)
    return exit_code(rows)
