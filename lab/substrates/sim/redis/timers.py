"""When a server has something to do by itself.

A real one makes a round ten times a second. Here a round is only made when it would do something: when a key
expires, the file is synced, somebody has waited long enough, or master and replica speak to each other.
What goes by the wall clock is foreseen from how fast that is said to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.substrates.sim.redis.model import RedisModel

ROUND_NS: Final = 100_000_000
NS_PER_MS: Final = 1_000_000


class Timers:
    """The rounds of one server, counted from its start."""

    def __init__(self, model: RedisModel) -> None:
        self._model = model

    def next_ns(self) -> int | None:
        """Return when the next round is that does something, in ns of the monotonic clock."""
        model = self._model
        wall_due_ns = self._wall_due_ns()
        due_ns = model.replication.next_ns()
        if wall_due_ns is not None:
            expected_ns = self._expected_ns(wall_due_ns)
            due_ns = expected_ns if due_ns is None else min(due_ns, expected_ns)
        if due_ns is None:
            return None
        rounds = -(-(due_ns - model.started_ns) // ROUND_NS)
        return model.started_ns + max(rounds, 1) * ROUND_NS

    def tick(self) -> None:
        """Make a round."""
        model = self._model
        if not model.keys.is_replica:
            model.keys.expire_due()
        model.blocking.expire(model.keys.now_ms)
        model.replication.tick()

    def _wall_due_ns(self) -> int | None:
        """When something is due that goes by the wall clock, in ns of Unix time."""
        model = self._model
        due: list[int] = []
        if model.keys.earliest_ms is not None and not model.keys.is_replica:
            due.append((model.keys.earliest_ms + 1) * NS_PER_MS)
        if model.aof is not None and not model.aof.is_synced:
            due.append(model.aof.next_sync_ns)
        if (deadline_ms := model.blocking.earliest_ms()) is not None:
            due.append(deadline_ms * NS_PER_MS)
        return min(due, default=None)

    def _expected_ns(self, wall_ns: int) -> int:
        """When the wall clock is expected to show that, in ns of the monotonic clock."""
        left_ns = max(wall_ns - self._model.wall_ns(), 0)
        rate_ppm = 1_000_000 + self._model.drift_ppm
        # A clock that stands still shows it never; look again now and then.
        needed_ns = -(-left_ns * 1_000_000 // rate_ppm) if rate_ppm > 0 else left_ns + ROUND_NS
        return self._model.monotonic_ns() + needed_ns
