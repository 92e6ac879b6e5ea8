"""``lab search``: its arguments."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(search)


def search(
    lock: Annotated[
        str, typer.Option(help="The lock under test: a name, package.module:Class, or a driver.")
    ],
    find: Annotated[str, typer.Option(help="The finding that is searched for.")] = "overlap",
    budget: Annotated[str, typer.Option(help="How long to search, like 60s.")] = "60s",
    schedules: Annotated[int | None, typer.Option(min=1, help="How many schedules at most.")] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything that is drawn.")] = 0,
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 5,
    clients: Annotated[int, typer.Option(help="How many clients.")] = 2,
    faults: Annotated[str | None, typer.Option(help="Kinds of faults, with commas; all if absent.")] = None,
    persistence: Annotated[str, typer.Option(help="What nodes keep; any: drawn as well.")] = "aof-always",
    ttl: Annotated[str, typer.Option(help="The lock's TTL.")] = "10s",
    strategy: Annotated[str, typer.Option(help="guided or random.")] = "guided",
    wire: Annotated[str, typer.Option(help="direct or resp.")] = "direct",
    confirm: Annotated[
        str | None, typer.Option(help="Replay what was found on this substrate: local, docker or sim.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often it is replayed.")] = 5,
    out: Annotated[Path | None, typer.Option(help="The scenario's file, if one is found.")] = None,
    as_json: Json = False,
) -> int:
    """Search for a schedule that breaks a lock: 0 nothing found, 1 found, saved as a scenario."""
    from lab.cli.search_output import search_command
    from lab.search.command import Asked

    asked = Asked(
        lock,
        find,
        budget,
        schedules,
        seed,
        nodes,
        clients,
        faults,
        persistence,
        ttl,
        strategy,
        wire,
        confirm,
        repeat,
        out,
        shlex.join(["lab", *sys.argv[1:]]),
    )
    return search_command(asked, as_json=as_json)
