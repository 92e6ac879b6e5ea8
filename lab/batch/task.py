"""What a campaign does with each seed, and what its results depend on besides the seed."""

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
    """What a campaign does with each seed. It is pickled, so its class must not be in ``__main__``."""

    @property
    def name(self) -> str:
        """Its name in reports, and of its file of results."""
        ...

    def session(self) -> AbstractContextManager[None]:
        """The context in which all seeds of a process run."""
        ...

    def __call__(self, seed: int) -> Row:
        """Run one seed, inside ``session``. If it raises, the result is unknown."""
        ...

    def identity(self) -> dict[str, Any]:
        """What its results depend on besides the seed, as JSON: only equal tasks share a file."""
        ...

    def repeat(self, seed: int) -> str:
        """The command that repeats this seed."""
        ...


OnResult = Callable[[Row], None]
Runner = Callable[[Task, Sequence[int], OnResult], Awaitable[None]]
"""Runs a task over seeds and reports each result once, in any order: ``run_seeds``, ``on_cluster``."""


@functools.cache
def code_digest() -> str:
    """A hash of the sources of lab and checker."""
    digest = hashlib.sha256()
    for home in (Path(__file__).parents[1], Path(str(checker.__file__)).parent):
        for path in sorted(home.rglob("*.py")):
            digest.update(f"{home.name}/{path.relative_to(home)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
