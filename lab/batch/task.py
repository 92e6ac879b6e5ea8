"""What a campaign does with each seed, and what its results depend on besides."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import checker
from lab.batch.row import Row


class Task(Protocol):
    """What a campaign does with each seed: a value of a class that is not in ``__main__``: it is pickled."""

    @property
    def name(self) -> str:
        """What it is called in reports, and what its file of results is named after."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """What has to surround all seeds of a process."""
        ...

    def __call__(self, seed: int) -> Row:
        """Run one seed, inside ``session``. Whatever it raises becomes a result that is unknown."""
        ...

    def identity(self) -> dict[str, Any]:
        """All that its results depend on besides the seed, as JSON: only equal tasks share a file."""
        ...

    def repeat(self, seed: int) -> str:
        """The command that repeats this seed."""
        ...


OnResult = Callable[[Row], None]
Runner = Callable[[Task, Sequence[int], OnResult], Awaitable[None]]
"""Runs a task over seeds and tells each result once, in any order: ``on_cores``, ``on_cluster``."""


@functools.cache
def code_digest() -> str:
    """A hash of the sources of lab and checker."""
    digest = hashlib.sha256()
    for home in (Path(__file__).parents[1], Path(str(checker.__file__)).parent):
        for path in sorted(home.rglob("*.py")):
            digest.update(f"{home.name}/{path.relative_to(home)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
