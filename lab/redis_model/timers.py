"""When a server has something to do by itself.

A real one makes a round ten times a second. Here a round is only made when it would do something: when a key
expires, the file is synced, somebody has waited long enough, or master and replica speak to each other.
What goes by the wall clock is foreseen from how fast that is said to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel

ROUND_NS: Final = 100_000_000
NS_PER_MS: Final = 1_000_000
SECOND_NS: Final = 1_000_000_000
NEVER_NS: Final = 1 << 100


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
        model.snapshots.round()

    def _wall_due_ns(self) -> int | None:
        """When something is due that goes by the wall clock, in ns of Unix time."""
        keys, aof, blocking = self._model.keys, self._model.aof, self._model.blocking
        due_ns = NEVER_NS
        if keys.earliest_ms is not None and not keys.is_replica:
            due_ns = (keys.earliest_ms + 1) * NS_PER_MS
        if aof is not None and aof.syncs and not (aof.always or aof.stalled or aof.is_synced):
            due_ns = min(due_ns, aof.next_sync_ns)
        if (due_s := self._model.snapshots.due_s()) is not None:
            due_ns = min(due_ns, due_s * SECOND_NS)
        if blocking.anybody and (deadline_ms := blocking.earliest_ms()) is not None:
            due_ns = min(due_ns, deadline_ms * NS_PER_MS)
        return None if due_ns == NEVER_NS else due_ns

    def _expected_ns(self, wall_ns: int) -> int:
        """When the wall clock is expected to show that, in ns of the monotonic clock."""
        left_ns = max(wall_ns - self._model.wall_ns(), 0)
        rate_ppm = 1_000_000 + self._model.drift_ppm
        # A clock that stands still shows it never; look again now and then.
        needed_ns = -(-left_ns * 1_000_000 // rate_ppm) if rate_ppm > 0 else left_ns + ROUND_NS
        return self._model.monotonic_ns() + needed_ns
