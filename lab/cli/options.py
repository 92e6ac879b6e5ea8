"""Options that several commands have, and options that do not go together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from lab.errors import LabError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
On = Annotated[str, typer.Option(help="The substrate: auto, or one that lab doctor shows.")]
Out = Annotated[Path, typer.Option(help="Where the run's directory is made.")]
Seed = Annotated[int | None, typer.Option(help="The seed of every random choice; drawn and shown if absent.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key: lock.ttl=2s, steps=[…]. Repeatable.")
]


def exclude(given: Mapping[str, object]) -> None:
    """Refuse two of these words or options at once. Raises ``LabError``."""
    there = [name for name, value in given.items() if value]
    if len(there) > 1:
        raise LabError(f"{there[0]} together with {there[1]}", expected="either one or the other")
