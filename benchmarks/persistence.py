"""What it costs to sync each write: `python -m benchmarks.persistence`.

Acquire and release of Redlock on five real nodes, and on one for comparison, side by side: all clusters are
up at once and take turns within each round, so that whatever else the machine does hits all alike.
Nodes sync through the real fsync of the file system that is named; `fsync alone` is one small append and
fsync there. All five nodes share one disk, which five machines would not: the price is told at its highest.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.nodes import machine_line, redis_nodes
from lab.locks.base import NotAcquired
from lab.locks.redlock import Redlock, RedlockOptions
from lab.redis_model.persistence import Persistence

NODES = 5
TTL_NS = 10_000_000_000
CLUSTERS: dict[str, tuple[int, Persistence]] = {
    "five, none": (NODES, "none"),
    "five, everysec": (NODES, "aof-everysec"),
    "five, always": (NODES, "aof-always"),
    "one, none": (1, "none"),
    "one, always": (1, "aof-always"),
}
BASE = "five, none"
SYNCS = 50


async def turn(locks: list[Redlock], pairs: int, prefix: str) -> float:
    """Let every client acquire and release its own key `pairs` times; return how long it took, in s."""

    async def one(lock: Redlock, key: str) -> None:
        for _ in range(pairs):
            await lock.release(await lock.acquire(key, TTL_NS))

    begin = time.perf_counter()
    await asyncio.gather(*(one(lock, f"{prefix}-{at}") for at, lock in enumerate(locks)))
    return time.perf_counter() - begin


async def measure(clients: int, rounds: int, pairs: int, parent: Path) -> dict[str, list[float]]:
    """Pairs of acquire and release per second, one number per round, for each cluster."""
    options = RedlockOptions(node_timeout_ns=TTL_NS // 2)
    rates: dict[str, list[float]] = {name: [] for name in CLUSTERS}
    async with AsyncExitStack() as stack:
        locks: dict[str, list[Redlock]] = {}
        for name, (count, persistence) in CLUSTERS.items():
            nodes = await stack.enter_async_context(redis_nodes(count, persistence, parent))
            locks[name] = [Redlock(nodes, options) for _ in range(clients)]
            for lock in locks[name]:
                await lock.open()
                stack.push_async_callback(lock.close)
            await turn(locks[name], 2, "warm")
        order = list(CLUSTERS)
        for number in range(rounds):
            order.append(order.pop(0))  # nobody is always the first
            for name in order:
                seconds = await turn(locks[name], pairs, f"key-{number}")
                rates[name].append(clients * pairs / seconds)
    return rates


def fsync_ms(parent: Path) -> float:
    """The median of one small append and fsync, in milliseconds."""
    times = []
    with tempfile.NamedTemporaryFile(dir=parent, prefix="lock-lab-bench-") as file:
        for _ in range(SYNCS):
            begin = time.perf_counter()
            file.write(b"x" * 128)
            file.flush()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def file_system(path: Path) -> str:
    """The device and the file system that a path lies on, as the kernel's list of mounts tells."""
    best, words = "", "unknown"
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        device, mount, kind = line.split()[:3]
        inside = path.resolve() == Path(mount) or Path(mount) in path.resolve().parents
        if inside and len(mount) >= len(best):
            best, words = mount, f"{kind} on {device}"
    return words + (
        " (in memory: a sync costs nothing here, so this tells nothing)" if "tmpfs" in words else ""
    )


def table(rates: dict[str, list[float]], clients: int) -> str:
    """One line per cluster; the ratio is the median of the rounds' own ratios to five nodes without files."""
    lines = [
        f"{clients} clients at once",
        f"{'nodes, fsync':<16}{'pairs/s (median, least, most)':<34}{'ratio':>8}",
    ]
    for name, found in rates.items():
        ratio = statistics.median(one / base for one, base in zip(found, rates[BASE], strict=True))
        spread = f"{statistics.median(found):,.0f}  ({min(found):,.0f} to {max(found):,.0f})"
        lines.append(f"{name:<16}{spread:<34}{ratio:>8.2f}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.persistence", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--rounds", type=int, default=15, help="how often each cluster has its turn (default 15)"
    )
    parser.add_argument(
        "--pairs", type=int, default=20, help="acquires and releases per client and turn (default 20)"
    )
    parser.add_argument(
        "--dir", type=Path, default=Path(tempfile.gettempdir()), help="where nodes keep their files"
    )
    chosen = parser.parse_args(arguments)
    if chosen.rounds < 1 or chosen.pairs < 1 or not chosen.dir.is_dir():
        parser.error("at least one round and one pair, and a directory that exists")
    print(f"files in {chosen.dir}: {file_system(chosen.dir)}; {machine_line()}")
    print(f"fsync alone: {fsync_ms(chosen.dir):.2f} ms (median of {SYNCS})")
    for clients in (1, 8):
        try:
            print(
                table(asyncio.run(measure(clients, chosen.rounds, chosen.pairs, chosen.dir)), clients),
                flush=True,
            )
        except NotAcquired as error:
            print(
                f"error: a lock was refused, so the machine was too busy to measure: {error}", file=sys.stderr
            )
            return 3
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
