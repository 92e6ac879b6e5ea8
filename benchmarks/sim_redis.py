"""How fast the simulated Redis node is, in calls per second: `python -m benchmarks.sim_redis`.

Best of many short rounds, in one process, for what a lock does most: direct, and over the wire.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from redis.asyncio.connection import Connection

from lab.locks.redlock import UNLOCK_SCRIPT
from lab.redis_model import RedisModel

ROUNDS = 200
CALLS = 100


def best_us(call: Callable[[], object]) -> float:
    """The least time of one call, in microseconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - begin) / CALLS)
    return best * 1e6


def main() -> int:
    """Print the table."""
    now_ns = 1_700_000_000_000_000_000
    model = RedisModel(
        "A",
        wall_ns=lambda: now_ns,
        monotonic_ns=lambda: now_ns,
        persistence="none",
        random=random.Random(1),
    )
    model.call("SET", "taken", "other")
    session = model.connect(lambda data: None)

    def packed(*words: str | int) -> bytes:
        return b"".join(Connection().pack_command(*words))

    def cycle() -> None:
        model.call("SET", "k", "token", "NX", "PX", 10_000)
        model.call("EVAL", UNLOCK_SCRIPT, 1, "k", "token")

    take = packed("SET", "k", "token", "NX", "PX", 10_000)
    release = packed("EVAL", UNLOCK_SCRIPT, 1, "k", "token")

    def wired() -> None:
        session.feed(take)
        session.feed(release)

    rows: list[tuple[str, int, Callable[[], object]]] = [
        ("GET", 1, lambda: model.call("GET", "taken")),
        ("SET NX PX, refused", 1, lambda: model.call("SET", "taken", "token", "NX", "PX", 10_000)),
        ("EVAL unlock, not ours", 1, lambda: model.call("EVAL", UNLOCK_SCRIPT, 1, "taken", "token")),
        ("SET NX PX and EVAL unlock", 2, cycle),
        ("the same over the wire", 2, wired),
    ]
    print(f"{'what':<28} {'µs per call':>12} {'calls/s':>10}")
    for name, calls, call in rows:
        each_us = best_us(call) / calls
        print(f"{name:<28} {each_us:>12.2f} {1e6 / each_us:>10,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
