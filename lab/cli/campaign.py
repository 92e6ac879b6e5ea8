"""``lab campaign``: one scenario, or drawn schedules, over many seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import (
    Clients,
    Dask,
    Faults,
    Jobs,
    Json,
    Nodes,
    Persistence,
    Server,
    Set,
    Strategy,
    Ttl,
    Wire,
)

Lock = Annotated[
    str | None, typer.Option(help="The lock under test: a name, package.module:name, or a driver.")
]


app = typer.Typer()


@app.command()
def campaign(
    seeds: Annotated[str, typer.Option(help="FIRST:END without END, single seeds, or several with commas.")],
    scenario: Annotated[
        str | None, typer.Argument(help="A scenario; without one, schedules are drawn against --lock.")
    ] = None,
    lock: Lock = None,
    settings: Set = None,
    ttl: Ttl = None,
    nodes: Nodes = None,
    clients: Clients = None,
    faults: Faults = None,
    persistence: Persistence = None,
    strategy: Strategy = None,
    wire: Wire = None,
    server: Server = None,
    jobs: Jobs = None,
    dask: Dask = None,
    out: Annotated[Path, typer.Option(help="Where the file of results is kept.")] = Path("reports"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the seeds that are missing.")] = False,
    as_json: Json = False,
) -> int:
    """Simulate a scenario, or a drawn schedule, for each of many seeds, and count what is found."""
    from lab.api.campaigns import Campaign, Drawn, Interrupted, tally_table
    from lab.errors import ExitCode
    from lab.report.consoles import consoles

    drawn = Drawn(tuple(settings or ()), ttl, nodes, clients, faults, persistence, strategy, wire, server)
    data, talk = consoles()
    with Campaign(scenario, seeds, lock, drawn, out, jobs=jobs, dask=dask, resume=resume) as begun:
        known = f", {begun.known} of them known already" if begun.known else ""
        talk.print(f"{begun.task.name}: {len(begun.seeds)} seeds{known} · {begun.path}", markup=False)
        try:
            with tally_table.tally_progress(talk, len(begun.seeds)) as on_result:
                tally = begun.run(on_result)
        except Interrupted:
            kept = begun.journal.kept
            talk.print(f"interrupted: {kept} results are kept, --resume goes on", style="yellow")
            return ExitCode.INTERRUPTED
    if as_json:
        data.print_json(data=tally.to_dict())
    else:
        tally_table.print_tally(data, tally, begun.task.repeat)
    return tally.exit_code
