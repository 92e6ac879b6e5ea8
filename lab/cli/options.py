"""Options of several commands, and the check for options that exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from lab.errors import LabError

Jobs = Annotated[int | None, typer.Option(min=1, help="How many processes at once; all cores if absent.")]
Dask = Annotated[
    str | None, typer.Option(help="The scheduler of a Dask cluster to run on, like tcp://host:8786.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
On = Annotated[str, typer.Option(help="The substrate: auto, or one that lab doctor shows.")]
Out = Annotated[Path, typer.Option(help="In which directory the run's directory is made.")]
Seed = Annotated[int | None, typer.Option(help="The seed of every random choice; drawn and shown if absent.")]
Server = Annotated[
    str | None,
    typer.Option(
        help="Which server nodes are: redis@8.2, valkey@8.1; real ones also PATH, or image:NAME on docker."
    ),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key: lock.ttl=2s, steps=[…]. Repeatable.")
]

Ttl = Annotated[str | None, typer.Option(help="The lock's TTL in drawn schedules, like 2s; 10s if absent.")]
Nodes = Annotated[int | None, typer.Option(help="How many nodes they have; 5 if absent.")]
Clients = Annotated[int | None, typer.Option(help="How many clients they have; 2 if absent.")]
Faults = Annotated[
    str | None,
    typer.Option(help="Their kinds of faults: all, safe (within Redlock's assumptions), or a list; all."),
]
Persistence = Annotated[
    str | None, typer.Option(help="What their nodes keep; any: drawn as well; aof-always if absent.")
]
Strategy = Annotated[str | None, typer.Option(help="How they are drawn: guided or random; guided if absent.")]
Wire = Annotated[str | None, typer.Option(help="How they are run: direct or resp; direct if absent.")]


def exclude(given: Mapping[str, object]) -> None:
    """Refuse two of these arguments or options at once. Raises ``LabError``."""
    there = [name for name, value in given.items() if value]
    if len(there) > 1:
        raise LabError(f"{there[0]} together with {there[1]}", expected="either one or the other")
