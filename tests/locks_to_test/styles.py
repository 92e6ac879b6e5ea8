"""Ten correct locks in styles that people write, all of them below ``BaseLock``; none may be accused."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import zlib
from typing import Any, ClassVar

import redis.asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from lab.locks.base import BaseLock, Indeterminate, Lease, LeaseLost, NotAcquired

MS_NS = 1_000_000
IF_OURS = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return "
DELETE = IF_OURS + "redis.call('del', KEYS[1])"
PROLONG = IF_OURS + "redis.call('pexpire', KEYS[1], ARGV[2])"


class OneNode(BaseLock):
    """SET NX PX on the first node, and scripts that compare."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, asked_ns = self.new_token(), self.clock_ns()
        try:
            granted = await self.ask("SET", key, token, "NX", "PX", ttl_ns // MS_NS)
        except BaseException:  # also if it is cancelled
            self.nodes[0].post("EVAL", DELETE, 1, key, token)
            raise
        if granted is None:
            raise NotAcquired("taken", [token])
        return self.lease(key, token, ttl_ns, asked_ns)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        asked_ns = self.clock_ns()
        if not await self.ask("EVAL", PROLONG, 1, lease.key, lease.token, ttl_ns // MS_NS):
            raise LeaseLost("not ours any more", no_effect=True)
        return self.lease(lease.key, lease.token, ttl_ns, asked_ns)

    async def release(self, lease: Lease) -> None:
        if not await self.ask("EVAL", DELETE, 1, lease.key, lease.token):
            raise LeaseLost("not ours any more")


class Blocking(OneNode):
    """An acquire waits until the lock is free."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        while True:
            with contextlib.suppress(NotAcquired):
                return await super().acquire(key, ttl_ns)
            await asyncio.sleep(0.05)


class Insisting(OneNode):
    """An acquire tries for three seconds."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        until_ns = self.clock_ns() + 3_000 * MS_NS
        while True:
            try:
                return await super().acquire(key, ttl_ns)
            except NotAcquired:
                if self.clock_ns() > until_ns:
                    raise
                await asyncio.sleep(0.05)


class Lazy(BaseLock):
    """redis-py, which connects when it is first used, and loads its script then; leases are not extended."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        where = self.addresses[0]
        self.redis = aioredis.Redis(
            host=where.host,
            port=where.port,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=0.5,
            socket_connect_timeout=0.5,
        )
        self.delete = self.redis.register_script(DELETE)
        self.undoing: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Nothing is connected yet."""

    async def close(self) -> None:
        await self.redis.aclose()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, asked_ns = self.new_token(), self.clock_ns()
        try:
            granted = await self.redis.set(key, token, nx=True, px=ttl_ns // MS_NS)
        except BaseException as error:
            task = asyncio.ensure_future(self.undo(key, token))
            self.undoing.add(task)
            task.add_done_callback(self.undoing.discard)
            if isinstance(error, RedisError):
                raise Indeterminate(str(error)) from error
            raise
        if not granted:
            raise NotAcquired("taken", [token])
        return self.lease(key, token, ttl_ns, asked_ns)

    async def undo(self, key: str, token: str) -> None:
        with contextlib.suppress(RedisError):
            await self.delete(keys=[key], args=[token])

    async def release(self, lease: Lease) -> None:
        try:
            deleted = await self.delete(keys=[lease.key], args=[lease.token])
        except RedisError as error:
            raise Indeterminate(str(error)) from error
        if not deleted:
            raise LeaseLost("not ours any more")


class Sharded(BaseLock):
    """A majority of three of the five nodes; which three, the key says."""

    def three(self, key: str) -> list[int]:
        at = zlib.crc32(key.encode()) % len(self.nodes)
        return sorted({(at + step) % len(self.nodes) for step in range(3)})

    async def all_of(self, key: str, *command: str | int) -> list[Any]:
        """The replies of the three; None: it gave none."""

        async def one(node: int) -> Any:
            try:
                return await self.ask(*command, node=node)
            except Indeterminate as silent:
                return silent

        return await asyncio.gather(*map(one, self.three(key)))

    def undo(self, key: str, token: str) -> None:
        for node in self.three(key):
            self.nodes[node].post("EVAL", DELETE, 1, key, token)

    def most(self, key: str) -> int:
        return len(self.three(key)) // 2 + 1

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, asked_ns = self.new_token(), self.clock_ns()
        try:
            replies = await self.all_of(key, "SET", key, token, "NX", "PX", ttl_ns // MS_NS)
            if sum(reply in ("OK", b"OK") for reply in replies) >= self.most(key):
                return self.lease(key, token, ttl_ns, asked_ns)
        except BaseException:
            self.undo(key, token)
            raise
        self.undo(key, token)
        refused = sum(reply is None for reply in replies)
        enough = refused > len(replies) - self.most(key)
        raise NotAcquired("no majority", [token], refused_by=refused if enough else 0)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        asked_ns = self.clock_ns()
        if not self.believes(lease):
            raise LeaseLost("its time was over", no_effect=True)
        replies = await self.all_of(lease.key, "EVAL", PROLONG, 1, lease.key, lease.token, ttl_ns // MS_NS)
        if replies.count(1) < self.most(lease.key) or not self.believes(lease):
            raise LeaseLost("no majority")
        return self.lease(lease.key, lease.token, ttl_ns, asked_ns)

    async def release(self, lease: Lease) -> None:
        replies = await self.all_of(lease.key, "EVAL", DELETE, 1, lease.key, lease.token)
        if replies.count(1) >= self.most(lease.key):
            return
        if replies.count(0) > len(replies) - self.most(lease.key):
            raise LeaseLost("not ours any more")
        raise Indeterminate("nodes did not reply")


class StandsIn(Sharded):
    """The next node stands in for one of the three that does not answer."""

    name = "stands-in"

    def three(self, key: str) -> list[int]:
        at = zlib.crc32(key.encode()) % len(self.nodes)
        return [(at + step) % len(self.nodes) for step in range(len(self.nodes))]

    async def all_of(self, key: str, *command: str | int) -> list[Any]:
        replies: list[Any] = []
        for node in self.three(key):
            try:
                replies.append(await self.ask(*command, node=node))
            except Indeterminate:
                continue
            if len(replies) == 3:
                break
        return replies

    def most(self, key: str) -> int:
        return 2


class WithKeyRules(OneNode):
    """Takes names of one form only, and raises for others."""

    key: ClassVar[str] = "order:{}"

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        if not re.fullmatch(r"order:[a-z0-9-]{1,64}", key):
            raise ValueError(f"{key!r} is no order")
        return await super().acquire(key, ttl_ns)


class ByDigest(OneNode):
    """Extends and releases with the conditional commands of Redis 8.4."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        asked_ns = self.clock_ns()
        if not await self.ask("SET", lease.key, lease.token, "IFEQ", lease.token, "PX", ttl_ns // MS_NS):
            raise LeaseLost("not ours any more", no_effect=True)
        return self.lease(lease.key, lease.token, ttl_ns, asked_ns)

    async def release(self, lease: Lease) -> None:
        if not await self.ask("DELEX", lease.key, "IFEQ", lease.token):
            raise LeaseLost("not ours any more")


class Cancelled(OneNode):
    """Waits for the undo of an attempt that was cancelled, so that nothing is left when the call is over."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, asked_ns = self.new_token(), self.clock_ns()
        asked = self.nodes[0].post("SET", key, token, "NX", "PX", ttl_ns // MS_NS)
        try:
            granted = await asyncio.wait_for(asked, self.ANSWER_WITHIN_S)
        except asyncio.CancelledError:
            with contextlib.suppress(Indeterminate):
                await self.ask("EVAL", DELETE, 1, key, token)
            raise
        except Exception as error:
            self.nodes[0].post("EVAL", DELETE, 1, key, token)
            raise Indeterminate(str(error)) from error
        if granted is None:
            raise NotAcquired("taken", [token])
        return self.lease(key, token, ttl_ns, asked_ns)


class WithoutExtension(OneNode):
    """Leases end when they end."""

    extends: ClassVar[bool] = False

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        raise LeaseLost("leases are not extended", no_effect=True)


DRIVER = f"{sys.executable} -m tests.locks_to_test.styles_driver"
"""A driver process in Python, without claims."""


class WaitsForAll(Sharded):
    """A majority of all nodes; it waits six seconds for each reply, and reads them when all have come."""

    ANSWER_WITHIN_S: ClassVar[float] = 6.0

    def three(self, key: str) -> list[int]:
        return list(range(len(self.nodes)))
