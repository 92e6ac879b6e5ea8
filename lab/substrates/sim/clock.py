"""The clocks of one simulated machine: a monotonic one, and a wall clock that faults may shift.

Everything is counted in whole nanoseconds. As on one real machine, the monotonic clocks of all hosts agree;
faults touch wall clocks only.
"""

from __future__ import annotations

from typing import Final, Protocol

S_NS: Final = 1_000_000_000
MILLION: Final = 1_000_000
MONOTONIC_START_NS: Final = 1_000 * S_NS
WALL_START_NS: Final = 1_767_225_600 * S_NS
"""Midnight at the beginning of 2026, UTC."""


class HasTime(Protocol):
    """Whatever time passes in: a world."""

    now_ns: int


class Clock:
    """What one host takes for the time.

    Args:
        world: whose time it is.
        phase_ns: how far into a second the wall clock is when the world begins.
    """

    def __init__(self, world: HasTime, phase_ns: int = 0) -> None:
        self._world = world
        self._true_start_ns = WALL_START_NS + phase_ns
        self._offset_ns = 0
        self._ppm = 0
        self._anchor_ns = world.now_ns

    def monotonic_ns(self) -> int:
        """What the monotonic clock shows."""
        return MONOTONIC_START_NS + self._world.now_ns

    def wall_ns(self) -> int:
        """What the wall clock shows, in nanoseconds of Unix time."""
        now_ns = self._true_start_ns + self._world.now_ns + self._offset_ns
        return now_ns + self._drifted_ns() if self._ppm else now_ns

    def shift_ns(self) -> int:
        """How far the wall clock is ahead of the true time."""
        return self._offset_ns + self._drifted_ns()

    def _drifted_ns(self) -> int:
        return (self._world.now_ns - self._anchor_ns) * self._ppm // MILLION

    @property
    def ppm(self) -> int:
        """How much too fast the wall clock runs."""
        return self._ppm

    def wall_ppm(self) -> int:
        """How much too fast ``wall_ns`` runs."""
        return self._ppm

    def world_ns(self, monotonic_ns: int) -> int:
        """When, in the time of the world, the monotonic clock shows ``monotonic_ns``."""
        return monotonic_ns - MONOTONIC_START_NS

    def jump(self, by_ns: int) -> None:
        """Step the wall clock; a drift goes on."""
        self._set(self.shift_ns() + by_ns, self._ppm)

    def drift(self, ppm: int) -> None:
        """Let the wall clock run so much too fast from now on, without a step."""
        self._set(self.shift_ns(), ppm)

    def correct(self) -> None:
        """Let the wall clock show the true time again."""
        self._set(0, 0)

    def _set(self, offset_ns: int, ppm: int) -> None:
        self._offset_ns, self._ppm, self._anchor_ns = offset_ns, ppm, self._world.now_ns
