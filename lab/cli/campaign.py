"""``lab campaign``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.options import Json

if TYPE_CHECKING:
    from lab.search.campaign import Task


def register(app: typer.Typer) -> None:
    """Add the command."""
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
    cluster: Annotated[
        str | None, typer.Option(help="The scheduler of a Dask cluster to run on, like tcp://host:8786.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the file of results is kept.")] = Path("reports"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the seeds that are missing.")] = False,
    as_json: Json = False,
) -> int:
    """Simulate a scenario, or a drawn schedule, for each of many seeds, and count what is found."""
    from lab.search.tasks import task_for

    task = task_for(scenario, overrides=settings or [], lock=lock, faults=faults, wire=wire)
    return _campaign(task, seeds, jobs, cluster, out, resume=resume, as_json=as_json)


def _campaign(
    task: Task,
    seeds: str,
    jobs: int | None,
    cluster: str | None,
    out: Path,
    *,
    resume: bool,
    as_json: bool,
) -> int:
    """``lab campaign``: 0 if every seed came out as expected, 1 or 3 if not."""
    from lab.errors import ExitCode
    from lab.report.campaign import campaign_progress, print_tally
    from lab.report.consoles import consoles
    from lab.search.campaign import exit_code, identity_bytes, parse_seeds, run_campaign, runner
    from lab.search.tally import ResultFile
    from lab.substrates.execute import Interrupted, execute

    data, talk = consoles()
    wanted = parse_seeds(seeds)
    run = runner(jobs, cluster)
    path = out / f"campaign-{task.name}.jsonl"
    with ResultFile(path, identity_bytes(task), resume=resume) as results:
        kept = sum(seed in results.results for seed in wanted)
        known = f", {kept} of them known already" if kept else ""
        talk.print(f"{task.name}: {len(wanted)} seeds{known} · {path}", markup=False)
        try:
            with campaign_progress(talk, len(wanted)) as on_result:
                tally = execute(run_campaign(task, wanted, results, run, on_result))
        except Interrupted:
            talk.print(
                f"interrupted: {len(results.results)} results are kept, --resume goes on", style="yellow"
            )
            return ExitCode.INTERRUPTED
    if as_json:
        data.print_json(data=tally.to_dict())
    else:
        print_tally(data, tally, task.repeat)
    return exit_code(tally)
