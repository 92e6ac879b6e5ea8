"""One client of one lock, in a process of its own, which `benchmarks.peers` starts in the library's Python.

``contender.py NAME RETRY_MS NODE…`` reads turns as lines of JSON, ``{"key": …, "seconds": …}``, and answers
each with a line: how long every acquire and every release took, in nanoseconds, and all of it, in seconds.
It acquires and releases until the time is over, without any work in between; an acquire that is refused is
asked again at once, and all of that is one acquire. RETRY_MS is the mean pause of the library before it tries
again, as far as it lets itself be told; 0 leaves its own.

Nothing but the standard library and the lock itself: each library has an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

TTL_S = 10
TRIES = 1_000_000
CALM_S = 5.0
"""A time-out per node that a busy machine does not reach: it is not what is measured."""
UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"


class Floor:
    """What cannot be undercut: SET NX PX and EVAL-delete as bytes on open connections, nothing checked."""

    def __init__(self, nodes: list[tuple[str, int]], retry_ms: int) -> None:
        self.retry_s, self.nodes = retry_ms / 1000, nodes
        self.quorum = len(nodes) // 2 + 1
        self.wires: list[Wire] = []
        self.asked = self.needed = 0
        self.over: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Connect."""
        loop = asyncio.get_running_loop()
        for host, port in self.nodes:
            _, wire = await loop.create_connection(lambda: Wire(self), host, port)
            self.wires.append(wire)
        self.token = f"{random.getrandbits(160):040x}"

    def hear(self) -> None:
        """See whether enough nodes have answered."""
        if self.over and sum(wire.answers >= self.asked for wire in self.wires) >= self.needed:
            self.over.set_result(None)
            self.over = None

    async def ask(self, command: bytes, needed: int) -> None:
        """Send it to all nodes, and wait for so many of them."""
        self.asked, self.needed = self.asked + 1, needed
        self.over = over = asyncio.get_running_loop().create_future()
        for wire in self.wires:
            wire.write(command)
        await over

    async def acquire(self, key: str) -> bytes:
        """Take the lock; return what gives it back."""
        unlock = packed("EVAL", UNLOCK, 1, key, self.token)
        take = packed("SET", key, self.token, "NX", "PX", TTL_S * 1000)
        while True:
            before = [wire.yes for wire in self.wires]
            await self.ask(take, self.quorum)
            if sum(wire.yes > yes for wire, yes in zip(self.wires, before, strict=True)) >= self.quorum:
                return unlock
            await self.ask(unlock, len(self.wires))
            await asyncio.sleep(random.uniform(0, 2 * self.retry_s))

    async def release(self, unlock: bytes) -> None:
        """Give it back."""
        await self.ask(unlock, len(self.wires))


class Wire(asyncio.Protocol):
    """Counts lines: each is a reply."""

    def __init__(self, floor: Floor) -> None:
        self.floor, self.answers, self.yes = floor, 0, 0

    def connection_made(self, transport: Any) -> None:
        """Take the way to send."""
        self.write: Callable[[bytes], None] = transport.write

    def data_received(self, data: bytes) -> None:
        """Count."""
        self.answers += data.count(b"\n")
        self.yes += data.count(b"+")
        self.floor.hear()


def packed(*words: str | int) -> bytes:
    """A command as bytes."""
    texts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in texts)


class Made:
    """A lock out of functions; ``open`` connects, ``acquire`` returns what ``release`` takes, or None."""

    def __init__(
        self, acquire: Callable[[str], Any], release: Callable[[Any], Any], open_: Any = None
    ) -> None:
        self.acquire, self.release, self.open = acquire, release, open_


def ours(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """Redlock of the lab, as a library."""
    from lab.locks.redlock import Redlock, RedlockOptions

    retry = {"retry_delay_ns": retry_ms * 10**6, "retry_jitter_ns": retry_ms * 10**6} if retry_ms else {}
    options = RedlockOptions(
        node_timeout_ns=int(CALM_S * 1e9), retry_count=TRIES, acquire_timeout_ns=10**12, **retry
    )
    lock = Redlock([f"{host}:{port}" for host, port in nodes], options)
    return Made(lambda key: lock.acquire(key, TTL_S * 10**9), lock.release, lock.open)


def single(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """The lab's lock on one node."""
    from lab.locks.single import Single, SingleOptions

    retry = {"retry_delay_ns": retry_ms * 10**6, "retry_jitter_ns": retry_ms * 10**6} if retry_ms else {}
    options = SingleOptions(
        node_timeout_ns=int(CALM_S * 1e9), retry_count=TRIES, acquire_timeout_ns=10**12, **retry
    )
    lock = Single([f"{host}:{port}" for host, port in nodes], options)
    return Made(lambda key: lock.acquire(key, TTL_S * 10**9), lock.release, lock.open)


def redlock_py(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """It counts the tries, and pauses for as long each time."""
    from redlock import Redlock  # type: ignore[import-not-found]

    more = {"retry_delay": retry_ms / 1000} if retry_ms else {}
    manager = Redlock([{"host": host, "port": port} for host, port in nodes], **more)
    return Made(lambda key: manager.lock(key, TTL_S * 1000) or None, manager.unlock)


def redlock(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """It counts the tries; pauses up to a limit, drawn."""
    from redlock import RedLockFactory

    more = {"retry_delay": 2 * retry_ms} if retry_ms else {}
    factory = RedLockFactory([{"host": host, "port": port} for host, port in nodes])

    def acquire(key: str) -> Any:
        lock = factory.create_lock(key, ttl=TTL_S * 1000, **more)
        return lock if lock.acquire() else None

    return Made(acquire, lambda lock: lock.release())


def redlock_ng(nodes: list[tuple[str, int]], retry_ms: int, kind: str = "Redlock") -> Made:
    """It counts the tries; pauses between two limits, drawn."""
    import redlock as library

    more = {"retry_delay_min": 0.0, "retry_delay_max": 2 * retry_ms / 1000} if retry_ms else {}
    config = library.RedlockConfig(
        masters=[f"redis://{host}:{port}/0" for host, port in nodes],
        socket_timeout=CALM_S,
        socket_connect_timeout=CALM_S,
    )
    manager = getattr(library, kind)(config, **more)
    return Made(lambda key: manager.acquire(key, TTL_S * 1000), manager.release)


def redlock_ng_async(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """The same for asyncio."""
    return redlock_ng(nodes, retry_ms, "AsyncRedlock")


def pottery(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """It tries until it is granted; its pauses, 0 to 200 ms, are its own affair."""
    from pottery import Redlock  # type: ignore[import-not-found]
    from redis import Redis

    masters = {Redis(host=host, port=port) for host, port in nodes}

    def acquire(key: str) -> Any:
        lock = Redlock(key=key, masters=masters, auto_release_time=TTL_S)
        return lock if lock.acquire() else None

    return Made(acquire, lambda lock: lock.release())


def pottery_async(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """The same for asyncio."""
    from pottery import AIORedlock
    from redis.asyncio import Redis

    masters = {Redis(host=host, port=port) for host, port in nodes}

    async def acquire(key: str) -> Any:
        lock = AIORedlock(key=key, masters=masters, auto_release_time=TTL_S)
        return lock if await lock.acquire() else None

    return Made(acquire, lambda lock: lock.release())


def aioredlock(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """It counts the tries; pauses between two limits, drawn."""
    from aioredlock import Aioredlock, LockError  # type: ignore[import-not-found]

    more = {"retry_delay_min": 0.001, "retry_delay_max": 2 * retry_ms / 1000} if retry_ms else {}
    made: list[Any] = []

    async def open_() -> None:
        made.append(Aioredlock([{"host": host, "port": port} for host, port in nodes], **more))

    async def acquire(key: str) -> Any:
        try:
            return await made[0].lock(key, TTL_S)
        except LockError:
            return None

    return Made(acquire, lambda lock: made[0].unlock(lock), open_)


def redis_py(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """It tries until it is granted, and pauses for as long each time."""
    from redis import Redis

    client = Redis(host=nodes[0][0], port=nodes[0][1])
    more: dict[str, Any] = {"sleep": retry_ms / 1000} if retry_ms else {}

    def acquire(key: str) -> Any:
        lock = client.lock(key, timeout=TTL_S, **more)
        return lock if lock.acquire() else None

    return Made(acquire, lambda lock: lock.release())


def python_redis_lock(nodes: list[tuple[str, int]], retry_ms: int) -> Made:
    """It waits for a signal of whoever releases, so it has no pauses."""
    import redis_lock  # type: ignore[import-not-found]
    from redis import Redis

    client = Redis(host=nodes[0][0], port=nodes[0][1])

    def acquire(key: str) -> Any:
        lock = redis_lock.Lock(client, key, expire=TTL_S)
        return lock if lock.acquire() else None

    return Made(acquire, lambda lock: lock.release())


MAKERS: dict[str, Callable[[list[tuple[str, int]], int], Any]] = {
    "floor": Floor,
    "ours": ours,
    "single": single,
    "redlock-py": redlock_py,
    "redlock": redlock,
    "redlock-ng": redlock_ng,
    "redlock-ng asyncio": redlock_ng_async,
    "pottery": pottery,
    "pottery asyncio": pottery_async,
    "aioredlock": aioredlock,
    "redis-py": redis_py,
    "python-redis-lock": python_redis_lock,
}
ASYNC = ("floor", "ours", "single", "redlock-ng asyncio", "pottery asyncio", "aioredlock")

Times = tuple[list[int], list[int]]


def turn(lock: Any, key: str, end_ns: int) -> Times:
    """Acquire and release until then."""
    acquired, released = [], []
    now_ns = time.perf_counter_ns
    while (began_ns := now_ns()) < end_ns:
        while (lease := lock.acquire(key)) is None:
            pass
        got_ns = now_ns()
        lock.release(lease)
        acquired.append(got_ns - began_ns)
        released.append(now_ns() - got_ns)
    return acquired, released


async def async_turn(lock: Any, key: str, end_ns: int) -> Times:
    """The same, in the same words."""
    acquired, released = [], []
    now_ns = time.perf_counter_ns
    while (began_ns := now_ns()) < end_ns:
        while (lease := await lock.acquire(key)) is None:
            pass
        got_ns = now_ns()
        await lock.release(lease)
        acquired.append(got_ns - began_ns)
        released.append(now_ns() - got_ns)
    return acquired, released


def main(arguments: list[str]) -> None:
    """Answer turns until the input ends."""
    name, retry_ms, *addresses = arguments
    nodes = [(host, int(port)) for host, _, port in (address.rpartition(":") for address in addresses)]
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    lock = MAKERS[name](nodes, int(retry_ms))
    if getattr(lock, "open", None) is not None:
        loop.run_until_complete(lock.open())
    for line in sys.stdin:
        asked = json.loads(line)
        began_ns = time.perf_counter_ns()
        end_ns = began_ns + int(asked["seconds"] * 1e9)
        if name in ASYNC:
            times = loop.run_until_complete(async_turn(lock, asked["key"], end_ns))
        else:
            times = turn(lock, asked["key"], end_ns)
        seconds = (time.perf_counter_ns() - began_ns) / 1e9
        print(json.dumps({"acquire_ns": times[0], "release_ns": times[1], "seconds": seconds}), flush=True)
    os._exit(0)  # without waiting for what libraries leave behind


if __name__ == "__main__":
    main(sys.argv[1:])
