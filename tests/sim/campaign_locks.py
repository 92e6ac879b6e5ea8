"""Locks for the tests of campaigns, in a module that workers can import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from lab.addresses import Address
from lab.channel import Channel
from lab.locks.base import Options, Surroundings
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


class OwnConnections(Redlock):
    """A Redlock that takes no connections from anybody: it speaks the protocol itself."""

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        """With channels of its own."""
        return super().build(nodes, options, replace(surroundings, channel=Channel), owner)
