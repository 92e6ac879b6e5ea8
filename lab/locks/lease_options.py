"""The options of every lock of the lab: time-outs, tries, and the margin for clock drift."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from lab.locks.base import Lease, LeaseLost

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The defaults are those of the literature.

    ``node_timeout_ns`` must be small compared with the TTL. ``retry_count`` is the total number of tries; the
    delay between two is ``retry_delay_ns`` ± ``retry_jitter_ns``, at random, so that clients that split the
    vote do not do so again. ``drift_factor``·TTL + ``drift_constant_ns`` is the margin for clocks that run at
    different rates. All durations are in nanoseconds.
    """

    node_timeout_ns: int = 50 * NS_PER_MS
    retry_count: int = 3
    retry_delay_ns: int = 200 * NS_PER_MS
    retry_jitter_ns: int = 100 * NS_PER_MS
    acquire_timeout_ns: int = 10 * NS_PER_S
    drift_factor: float = 0.01
    drift_constant_ns: int = 2 * NS_PER_MS
    max_extensions: int = 10

    def __post_init__(self) -> None:
        if self.retry_count < 1:
            raise ValueError("retry_count is the number of tries: at least 1")
        if self.retry_jitter_ns > self.retry_delay_ns:
            raise ValueError("retry_jitter cannot be larger than retry_delay")

    def drift_ns(self, ttl_ns: int) -> int:
        """The margin for clock drift, in nanoseconds."""
        return int(ttl_ns * self.drift_factor) + self.drift_constant_ns

    def pause_ns(self, random: Random) -> int:
        """Draw the delay before the next try, in nanoseconds."""
        return self.retry_delay_ns + round(random.uniform(-1, 1) * self.retry_jitter_ns)

    def check_extendable(self, lease: Lease, now_ns: int) -> None:
        """Raise ``LeaseLost`` (no effect) if a lease can't be extended any more: too late, or too often."""
        if now_ns >= lease.deadline_ns:
            raise LeaseLost(f"{lease.key}: its time was already over", no_effect=True)
        if lease.extensions >= self.max_extensions:
            raise LeaseLost(f"{lease.key}: extended {lease.extensions} times, the limit", no_effect=True)

    def extended(self, lease: Lease, ttl_ns: int, start_ns: int, now_ns: int) -> Lease:
        """The lease that nodes have extended; requests were sent at ``start_ns``, replies came at ``now_ns``.

        Raises:
            LeaseLost: the replies came after its end, or after that of the extension. The nodes may keep the
                key for the longer time.
        """
        deadline_ns = start_ns + ttl_ns - self.drift_ns(ttl_ns)
        if now_ns >= min(deadline_ns, lease.deadline_ns):
            raise LeaseLost(f"{lease.key}: the answer came after its time was over")
        return replace(
            lease,
            ttl_ns=ttl_ns,
            deadline_ns=deadline_ns,
            extensions=lease.extensions + 1,
            attempt_ns=start_ns,
        )
