"""``lab search``: its arguments."""

from __future__ import annotations

import shlex
import sys
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

app = typer.Typer()


@app.command()
def search(
    lock: Annotated[str, typer.Option(help="The lock under test: a name, package.module:name, or a driver.")],
    find: Annotated[str, typer.Option(help="The finding that is searched for.")] = "overlap",
    budget: Annotated[str, typer.Option(help="Processor time until something is found, like 60s.")] = "60s",
    schedules: Annotated[int | None, typer.Option(min=1, help="How many schedules at most.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything that is drawn.")] = 0,
    settings: Set = None,
    ttl: Ttl = None,
    nodes: Nodes = None,
    clients: Clients = None,
    faults: Faults = None,
    persistence: Persistence = None,
    strategy: Strategy = None,
    wire: Wire = None,
    jobs: Jobs = None,
    dask: Dask = None,
    server: Server = None,
    confirm: Annotated[
        str | None, typer.Option(help="Replay what was found on this substrate: local, docker or sim.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often it is replayed.")] = 5,
    out: Annotated[Path | None, typer.Option(help="The scenario's file, if one is found.")] = None,
    as_json: Json = False,
) -> int:
    """Search for a schedule that breaks a lock: 0 nothing found, 1 found, saved as a scenario."""
    from lab.api.searches import Asked, Drawn
    from lab.cli.search_output import search_command

    drawn = Drawn(tuple(settings or ()), ttl, nodes, clients, faults, persistence, strategy, wire, server)
    command = shlex.join(["lab", *sys.argv[1:]])
    asked = Asked(
        lock,
        find,
        budget,
        schedules,
        seed,
        drawn,
        confirm,
        repeat,
        out,
        command,
        jobs,
        dask or "",
    )
    return search_command(asked, as_json=as_json)
