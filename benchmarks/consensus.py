"""What a lock costs on one node, on five, and by consensus: `python -m benchmarks.consensus`.

Acquire and release by one client, and by several with a key each, on servers of this machine: one Redis,
five Redis nodes, three etcd, three ZooKeeper, one Postgres. All are up at once and take turns within each
round, so that whatever else the machine does hits all alike. Redis has rows without files and rows with a
sync of each write, by the same code on one node and on five; the services are as they come, and sync each
change before they answer. A grant by etcd takes two requests and a release two more, by its JSON gateway.

All servers share one machine and one disk, and reach each other over loopback (those of etcd and ZooKeeper
through the lab's proxy), so the ratios say what the protocols and the programs cost, not what a network does.
Services that are not installed are left out, and the reason is told.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.nodes import machine_line, redis_nodes
from lab import tools
from lab.addresses import Address
from lab.errors import LabError
from lab.locks import lock_class
from lab.locks.base import Lock, NotAcquired, Options, Surroundings
from lab.redis_model.persistence import Persistence
from lab.substrates.base import Service
from lab.substrates.local import SUBSTRATE
from lab.substrates.plan import ClusterPlan
from lab.tools import Missing

TTL_NS = 10_000_000_000
OPTIONS: Options = {"node_timeout": "5s", "retry_count": 1}


@dataclass(frozen=True, slots=True)
class Row:
    """A lock, and the servers on which it is measured."""

    name: str
    lock: str
    nodes: int
    service: Service = "redis"
    persistence: Persistence = "none"


ROWS = (
    Row("one Redis, no files", "redlock", 1),
    Row("one Redis, synced", "redlock", 1, persistence="aof-always"),
    Row("five Redis, no files", "redlock", 5),
    Row("five Redis, synced", "redlock", 5, persistence="aof-always"),
    Row("five Redis, fenced", "redlock-fenced", 5),
    Row("three etcd", "etcd", 3, service="etcd"),
    Row("three ZooKeeper", "zookeeper", 3, service="zookeeper"),
    Row("one Postgres", "postgres", 1, service="postgres"),
)
BASE = ROWS[0]


@asynccontextmanager
async def servers(row: Row, parent: Path) -> AsyncIterator[list[Address]]:
    """Start what a row needs; ended when the block is left. Raises ``LabError``."""
    if row.service == "redis":
        async with redis_nodes(row.nodes, row.persistence, parent) as nodes:
            yield [Address.parse(node) for node in nodes]
        return
    names = tuple("ABCDE"[: row.nodes])
    plan = ClusterPlan(names, (), "aof-always", service=row.service)
    with tempfile.TemporaryDirectory(prefix="lock-lab-bench-", dir=parent) as logs:
        cluster = SUBSTRATE.cluster(plan, f"bench-{secrets.token_hex(6)}", Path(logs))
        try:
            await cluster.up()
            yield [node.address for node in cluster.nodes.values()]
        finally:
            await cluster.down()


async def turn(locks: Sequence[Lock], pairs: int, prefix: str) -> list[int]:
    """Let each client acquire and release its own key so often; how long each pair took, in ns."""

    async def one(lock: Lock, key: str) -> list[int]:
        took = []
        for _ in range(pairs):
            began_ns = time.perf_counter_ns()
            await lock.release(await lock.acquire(key, TTL_NS))
            took.append(time.perf_counter_ns() - began_ns)
        return took

    found = await asyncio.gather(*(one(lock, f"{prefix}-{at}") for at, lock in enumerate(locks)))
    return [took for client in found for took in client]


async def measure(rows: Sequence[Row], clients: int, rounds: int, pairs: int) -> dict[str, list[float]]:
    """The median time of a pair in each round, in ms, by row."""
    medians: dict[str, list[float]] = {row.name: [] for row in rows}
    async with AsyncExitStack() as stack:
        parent = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lock-lab-bench-")))
        locks: dict[str, list[Lock]] = {}
        for row in rows:
            nodes = await stack.enter_async_context(servers(row, parent))
            kind = lock_class(row.lock)
            made = [kind.build(nodes, OPTIONS, Surroundings(), f"client-{at}") for at in range(clients)]
            for lock in made:
                stack.push_async_callback(lock.close)
                await lock.open()
            locks[row.name] = made
            await turn(made, 3, "warm")
        order = [row.name for row in rows]
        for number in range(rounds):
            order.append(order.pop(0))  # nobody is always the first
            for name in order:
                took = await turn(locks[name], pairs, f"key-{number}")
                medians[name].append(statistics.median(took) / 1e6)
    return medians


def table(medians: dict[str, list[float]], clients: int) -> str:
    """One line per row, with two ratios to one Redis without files.

    They are the median of the rounds' own ratios, and that of each one's quickest round, which a busy machine
    disturbs least.
    """
    lines = [
        f"{clients} client{'s' if clients > 1 else ''} at once, each with a key of its own",
        f"{'lock on':<24}{'ms per acquire and release (median, least, most)':<52}{'× one Redis':>12}"
        f"{'quickest':>10}",
    ]
    for name, found in medians.items():
        ratio = statistics.median(one / base for one, base in zip(found, medians[BASE.name], strict=True))
        spread = f"{statistics.median(found):.2f}  ({min(found):.2f} to {max(found):.2f})"
        lines.append(f"{name:<24}{spread:<52}{ratio:>12.1f}{min(found) / min(medians[BASE.name]):>10.1f}")
    return "\n".join(lines)


def installed() -> list[Row]:
    """The rows whose servers are there; the others are named on stderr."""
    found = []
    for row in ROWS:
        if row.service != "redis":
            program = tools.find(row.service)
            if isinstance(program, Missing):
                print(f"{row.name} left out: {program.reason}", file=sys.stderr)
                continue
        found.append(row)
    return found


def main(arguments: list[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.consensus", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=10, help="how often each has its turn (default 10)")
    parser.add_argument("--pairs", type=int, default=10, help="pairs per client and turn (default 10)")
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 8], help="tables (default 1 8)")
    chosen = parser.parse_args(arguments)
    if chosen.rounds < 1 or chosen.pairs < 1 or not chosen.clients or min(chosen.clients) < 1:
        parser.error("at least one round, one pair and one client")
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    print(f"{chosen.rounds} rounds of {chosen.pairs} pairs; {machine_line()}")
    rows = installed()
    for clients in chosen.clients:
        try:
            medians = asyncio.run(measure(rows, clients, chosen.rounds, chosen.pairs))
        except NotAcquired as error:
            print(
                f"error: a lock was refused, so the machine is too busy to measure: {error}", file=sys.stderr
            )
            return 3
        except LabError as error:
            print(error.render(), file=sys.stderr)
            return 2
        print(table(medians, clients), flush=True)
    print(f"afterwards: {machine_line()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
