"""``lab campaign``: one scenario, or drawn schedules, over many seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Define the command."""
    app.command()(campaign)


def campaign(
    seeds: Annotated[str, typer.Option(help="FIRST:END without END, single seeds, or several with commas.")],
    scenario: Annotated[
        str | None, typer.Argument(help="A scenario; without one, schedules are drawn against --lock.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key, as in lab run. Repeatable.")
    ] = None,
    lock: Annotated[
        str | None,
        typer.Option(help="The lock under test: a name, package.module:Class, or a driver."),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(help="For drawn schedules: all, safe (within Redlock's assumptions), or a list."),
    ] = None,
    wire: Annotated[str | None, typer.Option(help="For drawn schedules: direct or resp.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many processes at once; all cores if absent.")
    ] = None,
    dask: Annotated[
        str | None, typer.Option(help="The scheduler of a Dask cluster to run on, like tcp://host:8786.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the file of results is kept.")] = Path("reports"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the seeds that are missing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")] = False,
) -> int:
    """Simulate a scenario, or a drawn schedule, for each of many seeds, and count what is found."""
    from lab.batch.campaign import known_results, open_results, parse_seeds, run_campaign, runner
    from lab.batch.tally_table import print_tally, tally_progress
    from lab.errors import ExitCode
    from lab.report.consoles import consoles
    from lab.search.tasks import task_for
    from lab.substrates.execute import execute
    from lab.substrates.interruption import Interrupted

    task = task_for(scenario, overrides=settings or [], lock=lock, faults=faults, wire=wire)
    data, talk = consoles()
    wanted, run = parse_seeds(seeds), runner(jobs, dask)
    path = out / f"campaign-{task.name}.jsonl"
    with open_results(path, task, resume=resume) as journal:
        before = known_results(journal)
        kept = sum(seed in before for seed in wanted)
        known = f", {kept} of them known already" if kept else ""
        talk.print(f"{task.name}: {len(wanted)} seeds{known} · {path}", markup=False)
        try:
            with tally_progress(talk, len(wanted)) as on_result:
                tally = execute(run_campaign(task, wanted, journal, run, on_result))
        except Interrupted:
            talk.print(f"interrupted: {journal.kept} results are kept, --resume goes on", style="yellow")
            return ExitCode.INTERRUPTED
    if as_json:
        data.print_json(data=tally.to_dict())
    else:
        print_tally(data, tally, task.repeat)
    return tally.exit_code
