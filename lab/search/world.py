"""A trial's world, which is cheap to make: most of its randomness needs no generator of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain, cycle, repeat
from random import Random
from typing import Any, Final, cast
from zlib import crc32

from lab.substrates.sim.world import Draws, World

ORDERS: Final = 5
"""In how many orders the nodes answer, for negative seeds: each begins with another node."""
SHARES: Final = 1 << 16
"""How many numbers all pipes share."""


class TrialWorld(World):
    """A world whose hosts seed their entropy by small numbers, and whose pipes share one row of numbers.

    To seed a generator takes as long as to send twenty messages, and a trial has some thirty pipes over which
    it sends two hundred. So each pipe reads the same row, from a place that seed and name decide.
    """

    def random(self, name: str) -> Random:
        """Return a source of randomness of its own."""
        seed = self.seed << 32 | crc32(name.encode())
        return cast(Random, _Later(seed)) if name.startswith("host/") else Random(seed)

    def shares(self, name: str) -> Draws:
        """Return where a pipe draws from."""
        if self.seed < 0:
            return _Row(repeat(_turn(name, self.seed)).__next__)
        row: Any = iter(_row())
        row.__setstate__(crc32(b"%d/%b" % (self.seed, name.encode())) % SHARES)  # it goes on from there
        return _Row(chain(row, cycle(_row())).__next__)


class _Later:
    """What ``Random(seed)`` draws, made when it is first drawn from: nodes hardly ever do."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __getattr__(self, name: str) -> Any:
        if name == "_source":
            self._source = Random(self._seed)
            return self._source
        found = getattr(self._source, name)
        vars(self)[name] = found  # from now on without a detour
        return found


class _Row:
    """Draws shares of 1 from a row of them."""

    __slots__ = ("random",)

    def __init__(self, draw: Callable[[], float]) -> None:
        self.random = draw

    def randint(self, a: int, b: int) -> int:
        """Draw from ``a`` to ``b``, both included."""
        return a + int(self.random() * (b - a + 1))


@functools.cache
def _row() -> tuple[float, ...]:
    random = Random(SHARES)
    return tuple(random.random() for _ in range(SHARES))


def _turn(name: str, seed: int) -> float:
    """How long, in shares of 1, the way to a node takes: its place in a negative seed's order says so."""
    node = name.partition("-")[2].partition(":")[0]  # alice-C:6379/requests
    return (ord(node) + seed if len(node) == 1 else 0) % ORDERS / ORDERS
