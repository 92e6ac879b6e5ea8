"""Virtual time: one heap of what happens next, and the hosts that it happens to.

Nothing here knows real time. Events of one instant happen in the order in which they were arranged, so a
world with the same seed always does the same.
"""

from __future__ import annotations

from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from threading import get_ident
from typing import Any, Final, Protocol

from lab.substrates.sim.clock import S_NS, Clock
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.running import RUNNING

LIMIT_NS: Final = 7 * 24 * 3600 * S_NS
"""A week of virtual time: no scenario takes that long, so something waits for what never comes."""

Event = tuple[int, int, Callable[..., object], tuple[Any, ...]]


class Draws(Protocol):
    """Where a part of the simulation draws from."""

    def random(self) -> float:
        """Draw a share of 1."""
        ...

    def randint(self, a: int, b: int) -> int:
        """Draw a whole number from ``a`` to ``b``, both included."""
        ...


class World:
    """The time of one simulation, its events, and the randomness that all else is drawn from."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_ns = 0
        self.numbers = 0
        """How many objects were given a number instead of an address to be hashed by."""
        self.violations: list[SimulationError] = []
        """What simulated code did that it must not do, in order."""
        self.on_violation: Callable[[SimulationError], None] | None = None
        self._phase_ns = self.random("phase").randrange(S_NS)
        self.heap: list[Event] = []
        """What is to happen."""
        self.arranged = 0
        """How many events were arranged so far: those of one instant happen in the order of their numbers."""

    def random(self, name: str) -> Random:
        """Return a source of randomness of its own, so that one part's draws do not move another's."""
        return Random(f"{self.seed}/{name}")

    def shares(self, name: str) -> Draws:
        """Return where a pipe draws from what it adds to each packet's way."""
        return self.random(f"pipe/{name}")

    def clock(self) -> Clock:
        """Return the clocks of a new host."""
        return Clock(self, self._phase_ns)

    def at(self, time_ns: int, happens: Callable[..., object], *arguments: Any) -> None:
        """Arrange that something happens at a time of the world; what is past happens now."""
        self.arrange(time_ns, happens, arguments)

    def arrange(self, time_ns: int, happens: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """The same, with the arguments as they are kept."""
        self.arranged += 1
        if time_ns < self.now_ns:
            time_ns = self.now_ns
        heappush(self.heap, (time_ns, self.arranged, happens, arguments))

    def after(self, delay_ns: int, happens: Callable[..., object], *arguments: Any) -> None:
        """Arrange that something happens after so long."""
        self.at(self.now_ns + delay_ns, happens, *arguments)

    def violate(self, error: SimulationError) -> None:
        """Remember what must not go unnoticed, even if simulated code swallows the exception."""
        self.violations.append(error)
        if self.on_violation is not None:
            self.on_violation(error)

    def run_until(self, done: Callable[[], object], end_ns: int = 2 * LIMIT_NS) -> None:
        """Let things happen until ``done``, or until something has happened at ``end_ns`` or later.

        Raises:
            SimulationError: nothing is left to happen, or it goes on for ever.
        """
        loop_before, RUNNING.loop, RUNNING.thread = _get_running_loop(), None, get_ident()
        try:
            self._go_on(done, end_ns)
        finally:
            RUNNING.loop = None
            _set_running_loop(loop_before)

    def _go_on(self, done: Callable[[], object], end_ns: int) -> None:
        heap, now_ns, limit_ns = self.heap, self.now_ns, LIMIT_NS
        while not done() and now_ns < end_ns:
            if not heap:
                raise SimulationError("nothing is left to happen, and somebody still waits")
            now_ns, _, happens, arguments = heappop(heap)
            if now_ns > limit_ns:
                raise SimulationError("a week has passed in the simulation, and somebody still waits")
            self.now_ns = now_ns
            try:
                happens(*arguments)
            except Exception as cause:
                error = SimulationError(f"the simulation itself failed: {type(cause).__name__}: {cause}")
                error.__cause__ = cause
                if self.on_violation is None:
                    raise error from cause
                self.violate(error)

    def end(self) -> None:
        """Forget all that was still to happen."""
        self.heap.clear()
