"""Our Redlock against the Python libraries, and against the bare protocol: ``python -m benchmarks.peers``.

Five real nodes on loopback, no proxy. Each client is a process of its own with the library alone in it
(``benchmarks/contender.py``), which times its own acquires and releases. All are up at once and take turns
within each round, so that whatever else the machine does hits all alike:

- *alone*: one client, a key that nobody else wants;
- *contended*: several clients of one library, one key, each pausing 10 ms on average before it tries again
  (``--retry 0`` leaves each library its own pauses; pottery's cannot be told, python-redis-lock has none);
- *commands* are counted by MONITOR in a turn that is not timed: what the clients sent to all nodes.

The floor is SET NX PX and EVAL-delete as ready-made bytes on five open connections, waiting for as many
replies as Redlock must: three to acquire, all five to release. Locks on one node have a table of their own.
Libraries that are not installed are left out, and the reason is told: ``lab drivers install NAME``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from benchmarks.nodes import machine_line, redis_nodes
from lab.addresses import Address
from lab.channel import Channel
from lab.drivers.environment import directory, why_not

CONTENDER = Path(__file__).with_name("contender.py")
ROOT = CONTENDER.parent.parent
PATIENCE_S = 120.0
"""How long a turn may take beyond its time before the benchmark gives up."""
OURS = ("floor", "ours", "single")


@dataclass(frozen=True, slots=True)
class Table:
    """Locks that are compared with each other, on so many nodes; the first one is the floor."""

    title: str
    nodes: int
    rows: dict[str, str]
    """What each row is called, by the contender's name."""


TABLES = (
    Table(
        "five nodes",
        5,
        {
            "floor": "the floor",
            "ours": "lab.locks.redlock",
            "redlock-ng asyncio": "redlock-ng 2.0.4, asyncio",
            "redlock-ng": "redlock-ng 2.0.4",
            "aioredlock": "aioredlock 0.7.3",
            "pottery asyncio": "pottery 3.0.1, AIORedlock",
            "pottery": "pottery 3.0.1",
            "redlock-py": "redlock-py 1.0.8",
            "redlock": "redlock 1.2.0 (PyPI)",
        },
    ),
    Table(
        "one node",
        1,
        {
            "floor": "the floor",
            "single": "lab.locks.single",
            "redis-py": "redis-py 8.1.0 Lock",
            "python-redis-lock": "python-redis-lock 4.0.1",
        },
    ),
)


@dataclass(slots=True)
class Told:
    """What the clients of one lock told of one situation."""

    acquire_ns: list[int] = field(default_factory=list)
    pair_ns: list[int] = field(default_factory=list)
    p50_ns: list[float] = field(default_factory=list)
    """The median acquire and release of each round."""
    per_second: list[float] = field(default_factory=list)
    commands: str = "-"

    def take(self, answers: Sequence[dict[str, Any]]) -> None:
        """Add one turn of all its clients."""
        acquired = [ns for answer in answers for ns in answer["acquire_ns"]]
        released = [ns for answer in answers for ns in answer["release_ns"]]
        pairs = [a + r for a, r in zip(acquired, released, strict=True)]
        self.acquire_ns += acquired
        self.pair_ns += pairs
        self.p50_ns.append(statistics.median(pairs))
        self.per_second.append(len(pairs) / max(answer["seconds"] for answer in answers))


class Client:
    """One process with one lock in it."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name, self._process = name, process

    async def turn(self, key: str, seconds: float) -> dict[str, Any]:
        """Let it acquire and release for so long. Raises ``RuntimeError`` if it does not come back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(json.dumps({"key": key, "seconds": seconds}).encode() + b"\n")
            await self._process.stdin.drain()
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), seconds + PATIENCE_S)
        except TimeoutError:
            line = b""
        if not line:
            raise RuntimeError(f"a client of {self._name} has died or hangs; what it said stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def end(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 2.0)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def clients(name: str, count: int, retry_ms: int, nodes: Sequence[str]) -> AsyncIterator[list[Client]]:
    """Start the clients of one lock; they are ended when the block is left."""
    command = [sys.executable]
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT)}
    if name not in OURS:
        command = [str(directory(name.split()[0]) / "venv/bin/python"), "-E"]
    started: list[Client] = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *command,
                str(CONTENDER),
                name,
                str(retry_ms),
                *nodes,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
                limit=1 << 26,
            )
            started.append(Client(name, process))
        yield started
    finally:
        await asyncio.gather(*(client.end() for client in started))


async def counted(nodes: Sequence[str], among: Sequence[Client], key: str, seconds: float) -> str:
    """Let clients have a turn under MONITOR; tell what they sent for each lock that was granted."""
    ready = [asyncio.Event() for _ in nodes]
    watches = [asyncio.create_task(_watch(node, event)) for node, event in zip(nodes, ready, strict=True)]
    try:
        await asyncio.gather(*(event.wait() for event in ready))
        answers = await asyncio.gather(*(client.turn(key, seconds) for client in among))
        for node in nodes:
            await _say(node, "over")
        seen = sum(await asyncio.gather(*watches), Counter())
    finally:
        for watch in watches:
            watch.cancel()
    granted = sum(len(answer["acquire_ns"]) for answer in answers)
    words = ", ".join(f"{count / granted:.1f} {verb}" for verb, count in seen.most_common())
    return f"{sum(seen.values()) / granted:.1f} ({words})"


async def _watch(node: str, ready: asyncio.Event) -> Counter[str]:
    """The commands that came over connections, by their verbs, until somebody says that it is over."""
    host, _, port = node.rpartition(":")
    seen: Counter[str] = Counter()
    async with Redis(host=host, port=int(port)) as redis, redis.monitor() as monitor:
        ready.set()
        while True:
            shown = await monitor.next_command()
            verb = shown["command"].split(" ")[0].lower()
            if verb == "echo":
                return seen
            if shown["client_type"] != "lua":
                seen[verb] += 1


async def _say(node: str, word: str) -> None:
    host, _, port = node.rpartition(":")
    channel = Channel(
        Address("node", host, int(port)), connect_timeout_s=PATIENCE_S, stale_after_s=PATIENCE_S
    )
    await channel.call("ECHO", word)
    await channel.close()


async def measure(
    table: Table, names: Sequence[str], chosen: argparse.Namespace
) -> tuple[dict[str, Told], dict[str, Told]]:
    """All rounds of one table: what was told alone, and contended."""
    alone, contended = ({name: Told() for name in names} for _ in range(2))
    async with contextlib.AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(redis_nodes(table.nodes))
        started = {
            name: await stack.enter_async_context(clients(name, chosen.clients, chosen.retry, nodes))
            for name in names
        }
        for name, all_of_it in started.items():
            await asyncio.gather(
                *(c.turn(f"{name}-{at}", 0.0001) for at, c in enumerate(all_of_it))
            )  # warm up
            alone[name].commands = await counted(nodes, all_of_it[:1], f"{name}-alone", chosen.seconds / 2)
            contended[name].commands = await counted(nodes, all_of_it, f"{name}-all", chosen.seconds)
        order = list(names)
        for _ in range(chosen.rounds):
            order.append(order.pop(0))  # nobody is always the first
            for name in order:
                alone[name].take([await started[name][0].turn(f"{name}-alone", chosen.seconds)])
            for name in order:
                turns = (client.turn(f"{name}-all", chosen.seconds) for client in started[name])
                contended[name].take(await asyncio.gather(*turns))
    return alone, contended


def shown(
    table: Table, alone: dict[str, Told], contended: dict[str, Told], chosen: argparse.Namespace
) -> str:
    """The two halves of a table. The ratio is the median of the rounds' own ratios to the floor."""
    pause = f"pauses of {chosen.retry} ms on average" if chosen.retry else "each library's own pauses"
    lines = [
        f"\n{table.title}, alone: acquire and release",
        f"{'':<28}{'p50 ms':>8}{'p99 ms':>9}{'pairs/s':>9}{'× floor':>9}  commands per lock",
    ]
    floor = alone["floor"].p50_ns
    for name, told in alone.items():
        ratio = statistics.median(one / base for one, base in zip(told.p50_ns, floor, strict=True))
        rate = statistics.median(told.per_second)
        lines.append(
            f"{table.rows[name]:<28}{_ms(told.pair_ns, 50):>8}{_ms(told.pair_ns, 99):>9}{rate:>9,.0f}"
            f"{ratio:>9.2f}  {told.commands}"
        )
    lines += [
        f"{table.title}, contended: {chosen.clients} clients, one key, {pause}",
        f"{'':<28}{'p50 ms':>8}{'p99 ms':>9}{'locks/s':>9}{'':>9}  commands per lock (p50, p99: acquire)",
    ]
    for name, told in contended.items():
        rate = statistics.median(told.per_second)
        lines.append(
            f"{table.rows[name]:<28}{_ms(told.acquire_ns, 50):>8}{_ms(told.acquire_ns, 99):>9}{rate:>9,.0f}"
            f"{'':>9}  {told.commands}"
        )
    return "\n".join(lines)


def _ms(values_ns: Sequence[int], percent: int) -> str:
    ordered = sorted(values_ns)
    return f"{ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] / 1e6:.2f}"


def main(arguments: list[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=10, help="turns of each lock (default 10)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn (default 0.5)")
    parser.add_argument("--clients", type=int, default=3, help="how many contend (default 3)")
    parser.add_argument("--retry", type=int, default=10, help="mean pause between tries in ms (default 10)")
    parser.add_argument(
        "--only", nargs="*", default=[], help="of the libraries, only these (floor and ours stay)"
    )
    chosen = parser.parse_args(arguments)
    if chosen.rounds < 1 or chosen.seconds <= 0 or chosen.clients < 1 or chosen.retry < 0:
        parser.error("at least one round and one client, turns that take time, and no negative pause")
    print(f"{chosen.rounds} rounds, turns of {chosen.seconds:g} s, TTL 10 s; {machine_line()}")
    for table in TABLES:
        names = []
        for name in table.rows:
            reason = None if name in OURS else why_not(name.split()[0])
            if reason is not None:
                print(f"{table.rows[name]} left out: {reason}", file=sys.stderr)
            elif name in OURS or not chosen.only or name.split()[0] in chosen.only:
                names.append(name)
        alone, contended = asyncio.run(measure(table, names, chosen))
        print(shown(table, alone, contended, chosen), flush=True)
    print(f"\nafterwards: {machine_line()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
