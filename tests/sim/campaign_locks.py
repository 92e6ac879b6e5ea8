"""Locks for the tests of campaigns, in a module that workers can import."""

from __future__ import annotations

from typing import Any

from lab.locks.redlock import Redlock


class Hasty(Redlock):
    """A Redlock that is satisfied with two nodes of five."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.quorum = 2


class Faulty(Redlock):
    """A Redlock that cannot be opened."""

    async def open(self) -> None:
        raise RuntimeError("out of order")
