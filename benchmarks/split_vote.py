"""What random retry and asking all nodes at once buy against split votes: `python -m benchmarks.split_vote`.

Clients, each a process of its own, ask five real nodes for the same lock at the same moment; whoever gets it
gives it back at once; a round is over when each has had it. The variants take turns, round by round. Every
request travels for a random time before it is sent (0 to twice the latency, in order per connection): on
loopback alone the moment in which votes can split is too short to be seen.

`nobody at once` is the share of rounds in which no first attempt was granted: the vote was split. `first
grant` is how long, and after how many attempts of the one who got it, somebody held the lock; `attempts` and
`time` are those of each client until its own grant, waiting for the others included. A client gives up after
10 s.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

from benchmarks.nodes import machine_line, redis_nodes
from lab.channel import Heard, settle
from lab.locks.base import NotAcquired, Surroundings, new_token
from lab.locks.redlock import Redlock, RedlockOptions, SequentialRedlock

NODES = 5
TTL_NS = 10_000_000_000
DELAY_NS = 40_000_000
ROUND_TIMEOUT_S = 120.0


class Far(Redlock):
    """Redlock whose requests take a while to arrive; those on one connection stay in order."""

    latency_s = 0.0

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._travelling: set[asyncio.Task[None]] = set()
        for channel in self._channels:
            late = partial(self._late, channel.send, asyncio.Lock())
            channel.send = partial(self._send, late)  # type: ignore[method-assign]
            channel.post = partial(self._post, channel.send)  # type: ignore[method-assign]

    def _send(self, late: Callable[..., Coroutine[Any, Any, None]], *call: Any) -> None:
        task = asyncio.ensure_future(late(*call))
        self._travelling.add(task)
        task.add_done_callback(self._travelling.discard)

    def _post(self, send: Callable[..., None], *command: str | int) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        send(partial(settle, reply), *command)
        return reply

    async def _late(
        self, send: Callable[..., None], road: asyncio.Lock, heard: Heard, *command: str | int
    ) -> None:
        async with road:
            await asyncio.sleep(random.uniform(0, 2 * self.latency_s))
        send(heard, *command)


class FarSequential(Far, SequentialRedlock):
    """The same, asking one node after the other."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to ask and to try again."""

    lock: type[Redlock]
    jitter_ns: int
    own_order: bool = False
    """Whether each client asks the nodes in an order of its own."""

    @property
    def name(self) -> str:
        """Its row in the table."""
        low, high = ((DELAY_NS + sign * self.jitter_ns) // 1_000_000 for sign in (-1, 1))
        order = " in any order" if self.own_order else ""
        return f"{self.lock.name}{order}, retry " + (f"{low}-{high} ms" if self.jitter_ns else f"{low} ms")

    def order(self, nodes: Sequence[str]) -> list[str]:
        """The nodes, in the order in which this client asks them."""
        return random.sample(list(nodes), len(nodes)) if self.own_order else list(nodes)

    def options(self) -> RedlockOptions:
        """The lock's options; the number of tries is not what ends an attempt here."""
        return RedlockOptions(
            retry_count=100_000,
            retry_delay_ns=DELAY_NS,
            retry_jitter_ns=self.jitter_ns,
            node_timeout_ns=TTL_NS // 2,
        )


VARIANTS = (
    Variant(Far, DELAY_NS),
    Variant(Far, 0),
    Variant(FarSequential, DELAY_NS),
    Variant(FarSequential, 0),
    Variant(FarSequential, DELAY_NS, own_order=True),
)


@dataclass(frozen=True, slots=True)
class Got:
    """How one client fared in one round: attempts, and the span on the common clock; None if it gave up."""

    round: int
    variant: int
    attempts: int
    start_ns: int
    granted_ns: int | None


class _Counted:
    """Draws tokens and counts them: one per attempt."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return new_token()


async def contend(nodes: Sequence[str], rounds: int, latency_s: float, barrier: Barrier) -> list[Got]:
    """Be one client: in each round, and with each variant, get the lock once."""
    Far.latency_s = latency_s
    counters = [_Counted() for _ in VARIANTS]
    locks = [
        variant.lock(variant.order(nodes), variant.options(), Surroundings(new_token=counter))
        for variant, counter in zip(VARIANTS, counters, strict=True)
    ]
    await asyncio.gather(*(lock.open() for lock in locks))
    found = []
    for number in range(rounds):
        for at, (lock, counter) in enumerate(zip(locks, counters, strict=True)):
            counter.count = 0
            barrier.wait(ROUND_TIMEOUT_S)
            start_ns = time.monotonic_ns()
            try:
                lease = await lock.acquire(f"round-{number}-{at}", TTL_NS)
            except NotAcquired:
                found.append(Got(number, at, counter.count, start_ns, None))
                continue
            found.append(Got(number, at, counter.count, start_ns, time.monotonic_ns()))
            await lock.release(lease)
    await asyncio.gather(*(lock.close() for lock in locks))
    return found


def client(
    nodes: Sequence[str], rounds: int, latency_s: float, barrier: Barrier, results: Queue[list[Got]]
) -> None:
    """The whole life of one client's process."""
    results.put(asyncio.run(contend(nodes, rounds, latency_s, barrier)))


async def run(clients: int, rounds: int, latency_s: float) -> list[Got]:
    """Start nodes and clients, and collect how each client fared in each round."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(clients), context.Queue()
    async with redis_nodes(NODES) as nodes:
        processes = [
            context.Process(target=client, args=(nodes, rounds, latency_s, barrier, results), daemon=True)
            for _ in range(clients)
        ]
        for process in processes:
            process.start()
        found = [got for _ in processes for got in await asyncio.to_thread(_next, results, processes)]
        for process in processes:
            await asyncio.to_thread(process.join)
    return found


def _next(results: Queue[list[Got]], processes: Sequence[multiprocessing.process.BaseProcess]) -> list[Got]:
    """One client's results. Raises ``RuntimeError`` if a client died instead."""
    while True:
        try:
            return results.get(timeout=1.0)
        except Exception as error:
            if any(process.exitcode for process in processes):
                raise RuntimeError("a client died: its error stands above") from error


def table(found: Iterable[Got]) -> str:
    """The distributions, one line per variant."""
    rounds: dict[int, dict[int, list[Got]]] = defaultdict(lambda: defaultdict(list))
    for got in found:
        rounds[got.variant][got.round].append(got)
    head = f"{'':<50}{'nobody':>8}  {'first grant':<28}{'attempts':<18}{'time':<22}gave"
    first, units = "ms, attempts (median)", "median / p90 / max"
    units = f"{units:<50}{'at once':>8}  {first:<28}{'per client':<18}{'ms':<22}up"
    return "\n".join(
        [head, units, *(_line(VARIANTS[at], list(rounds[at].values())) for at in sorted(rounds))]
    )


def _line(variant: Variant, rounds: list[list[Got]]) -> str:
    split, first_ms, first_attempts = 0, [], []
    for one in rounds:
        granted = [(got.granted_ns, got.attempts) for got in one if got.granted_ns is not None]
        split += all(got.attempts > 1 for got in one)
        if granted:
            at_ns, attempts = min(granted)
            first_ms.append((at_ns - min(got.start_ns for got in one)) / 1e6)
            first_attempts.append(attempts)
    every = [got for one in rounds for got in one]
    times = [(got.granted_ns - got.start_ns) / 1e6 for got in every if got.granted_ns is not None]
    gave_up = sum(got.granted_ns is None for got in every)
    first = f"{_spread(first_ms, 1)}, {statistics.median(first_attempts or [0]):.0f}"
    return (
        f"{variant.name:<50}{split / len(rounds):>8.0%}  {first:<28}"
        f"{_spread([got.attempts for got in every]):<18}{_spread(times):<22}{gave_up}"
    )


def _spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, 90th percentile and largest."""
    if not values:
        return "-"
    ordered = sorted(values)
    p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return " / ".join(f"{value:.{digits}f}" for value in (statistics.median(ordered), p90, ordered[-1]))


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.split_vote", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--clients", type=int, default=5, help="how many clients contend (default 5)")
    parser.add_argument("--rounds", type=int, default=40, help="rounds per variant (default 40)")
    parser.add_argument("--latency", type=float, default=5.0, help="mean latency in ms (default 5)")
    chosen = parser.parse_args(arguments)
    if chosen.clients < 1 or chosen.rounds < 1 or chosen.latency < 0:
        parser.error("at least one client and one round, and no negative latency")
    print(
        f"{chosen.clients} clients, {NODES} nodes, {chosen.latency:g} ms mean latency, "
        f"{chosen.rounds} rounds per variant; {machine_line()}"
    )
    print(table(asyncio.run(run(chosen.clients, chosen.rounds, chosen.latency / 1e3))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
