"""Locks on one node that do something differently, and are right, unless their docstring says: wrong."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Options, Surroundings
from tests.locks_to_test.plain import GIVE_BACK, MS_NS, S_NS, Plain, PlainOptions


class SetIfEqual(Plain):
    """Extends by SET, in a script that compares first, and only if that makes the key last longer."""

    name = "set-if-equal"
    script: ClassVar[str] = """
        if redis.call('get',KEYS[1]) ~= ARGV[1] then return 0 end
        if redis.call('pttl',KEYS[1]) < tonumber(ARGV[2]) then
          redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2])
        end
        return 1
    """

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await self._run(self.script, lease.key, lease.token, ttl_ns // MS_NS)


class WholeSeconds(Plain):
    """Nodes keep keys for whole seconds, rounded up; leases last as long as was asked for."""

    name = "whole-seconds"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._call("SET", key, token, "EX", -(-ttl_ns // S_NS), "NX")

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await super()._prolong(lease, -(-ttl_ns // S_NS) * S_NS)


class Cautious(Plain):
    """Believes in a lease for half of the time that the node keeps the key."""

    name = "cautious"

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        return ttl_ns // 2


class Capped(Plain):
    """Grants two seconds at most, and says so."""

    name = "capped"
    most_ns: ClassVar[int] = 2 * S_NS

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        return await super().acquire(key, min(ttl_ns, self.most_ns))

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        return await super().extend(lease, min(ttl_ns, self.most_ns))


class LooksFirst(Plain):
    """Asks with GET whether the key is free, to spare the node a write, and still sets it with NX."""

    name = "looks-first"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        if await self._call("GET", key) is not None:
            return None
        return await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)


class Blocking(Plain):
    """Waits: tries again, every now and then, until it gets the lock or a few seconds have passed."""

    name = "blocking"

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        give_up_ns = self._around.clock_ns() + self.options.wait_ns
        while True:
            try:
                return await super().acquire(key, ttl_ns)
            except NotAcquired:
                if self._around.clock_ns() >= give_up_ns:
                    raise
            await self._pause()


class Reentrant(Plain):
    """A second acquire of the same client counts, and only as many releases give the lock back."""

    name = "reentrant"

    def __init__(self, node: Address, options: PlainOptions, around: Surroundings, owner: str) -> None:
        super().__init__(node, options, around, owner)
        self._held: dict[str, tuple[Lease, int]] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease, depth = self._held.get(key, (None, 0))
        if lease is not None and self.believes(lease):
            self._held[key] = lease, depth + 1
            return lease
        lease = await super().acquire(key, ttl_ns)
        self._held[key] = lease, 1
        return lease

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        extended = await super().extend(lease, ttl_ns)
        held, depth = self._held.get(lease.key, (lease, 1))
        if held.token == lease.token:
            self._held[lease.key] = extended, depth
        return extended

    async def release(self, lease: Lease) -> None:
        held, depth = self._held.pop(lease.key, (lease, 1))
        if held.token == lease.token and depth > 1 and self.believes(held):
            self._held[lease.key] = held, depth - 1
            return
        await super().release(lease)


class AFieldEach(Plain):
    """A client takes it again while it has it: a field for each of its leases, whose value is the client."""

    name = "a-field-each"
    reentrant: ClassVar[bool] = True
    enter: ClassVar[str] = """
        local one = redis.call('hvals',KEYS[1])[1]
        if one and one ~= ARGV[3] then return 0 end
        redis.call('hset',KEYS[1],ARGV[1],ARGV[3])
        if redis.call('pttl',KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end
        return 1
    """
    stay: ClassVar[str] = """
        if redis.call('hexists',KEYS[1],ARGV[1]) == 0 then return 0 end
        if redis.call('pttl',KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end
        return 1
    """

    def __init__(self, node: Address, options: PlainOptions, around: Surroundings, owner: str) -> None:
        super().__init__(node, options, around, owner)
        self._me = self._new_token()

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(self.enter, key, token, ttl_ns // MS_NS, self._me)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await self._run(self.stay, lease.key, lease.token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run("return redis.call('hdel',KEYS[1],ARGV[1])", lease.key, lease.token)


class OfTheLastLength(AFieldEach):
    """A lease that is taken within another one sets the end of both, though it is the shorter one: wrong."""

    name = "of-the-last-length"
    enter = AFieldEach.enter.replace("if redis.call('pttl',KEYS[1]) < tonumber(ARGV[2]) then", "do")


class Numbered(Plain):
    """Fences from a counter beside the key, raised in the script that sets the key; it never expires."""

    name = "numbered"
    hands_out_fences = True
    script: ClassVar[str] = """
        if not redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 0 end
        return redis.call('incr',KEYS[1] .. ':count')
    """

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        fence = await self._run(self.script, key, token, ttl_ns // MS_NS)
        over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        return Lease(key, token, ttl_ns, over_ns, int(fence), attempt_ns=start_ns) if fence else None


class Hashed(Plain):
    """The key is a hash with one field, the token, as in Redisson."""

    name = "hashed"
    take: ClassVar[str] = """
        if redis.call('exists',KEYS[1]) == 1 then return 0 end
        redis.call('hset',KEYS[1],ARGV[1],1)
        redis.call('pexpire',KEYS[1],ARGV[2])
        return 1
    """
    prolong: ClassVar[str] = """
        if redis.call('hexists',KEYS[1],ARGV[1]) == 0 then return 0 end
        if redis.call('pttl',KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end
        return 1
    """
    give_back: ClassVar[str] = """
        if redis.call('hexists',KEYS[1],ARGV[1]) == 0 then return 0 end
        return redis.call('del',KEYS[1])
    """

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(self.take, key, token, ttl_ns // MS_NS)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await self._run(self.prolong, lease.key, lease.token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run(self.give_back, lease.key, lease.token)


class SameTokenAgain(Plain):
    """Tries again with the token of the first try, and takes a key that already has it for granted.

    Whichever of its requests set the key, that was not before the first was sent, and from then on the lease
    counts. It undoes nothing until it gives up, and never uses the token again.
    """

    name = "same-token-again"
    script: ClassVar[str] = """
        local held = redis.call('get',KEYS[1])
        if held then return held == ARGV[1] and 1 or 0 end
        redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2])
        return 1
    """

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, start_ns = self._around.new_token(), self._around.clock_ns()
        over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        silent = False
        try:
            for attempt in range(self.options.retry_count):
                if attempt:
                    await self._pause()
                try:
                    granted = await self._run(self.script, key, token, ttl_ns // MS_NS)
                except NodeError:
                    silent = True
                    continue
                lease = Lease(key, token, ttl_ns, over_ns, attempt_ns=start_ns)
                if granted and self.believes(lease):
                    return lease
        except asyncio.CancelledError:
            await self._undo(key, token)
            raise
        await self._undo(key, token)
        if silent:
            raise Indeterminate(f"{key}: a request was not answered")
        raise NotAcquired(f"{key}: taken", [token])


class FreshConnections(Plain):
    """Each command goes out on a connection of its own; only what undoes a request follows it on the same."""

    name = "fresh-connections"

    def __init__(self, node: Address, options: PlainOptions, around: Surroundings, owner: str) -> None:
        super().__init__(node, options, around, owner)
        self._asked: dict[str, Channel] = {}

    async def open(self) -> None:
        """There is nothing to open."""

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        self._asked[token] = channel = self._connection()
        reply = await self._on(channel, "SET", key, token, "NX", "PX", ttl_ns // MS_NS)
        await self._asked.pop(token).close()
        over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        return None if reply is None else Lease(key, token, ttl_ns, over_ns, attempt_ns=start_ns)

    async def _undo(self, key: str, token: str) -> None:
        channel = self._asked.pop(token, None) or self._connection()
        try:
            await self._on(channel, "EVAL", GIVE_BACK, 1, key, token)
        except NodeError:
            pass
        finally:
            await channel.close()

    async def _call(self, *command: str | int) -> Any:
        channel = self._connection()
        try:
            return await self._on(channel, *command)
        finally:
            await channel.close()

    async def _on(self, channel: Channel, *command: str | int) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await channel.call(*command)
        except TimeoutError as error:
            raise NodeError("no answer in time") from error


class BreaksOff(FreshConnections):
    """A connection without an answer in time is broken off, as client libraries do; another one undoes."""

    name = "breaks-off"

    async def _undo(self, key: str, token: str) -> None:
        if (unanswered := self._asked.pop(token, None)) is not None:
            await unanswered.close()
        await super()._undo(key, token)


class ThreeExtensions(Plain):
    """Counts leases in whole milliseconds, rounded down, and extends each of them three times at most."""

    name = "three-extensions"

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        lease = await super()._try(key, token, ttl_ns, start_ns)
        if lease is None:
            return None
        return replace(lease, deadline_ns=lease.deadline_ns // MS_NS * MS_NS)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        if lease.extensions >= 3:
            raise LeaseLost(f"{lease.key}: extended often enough", no_effect=True)
        return await super().extend(lease, ttl_ns)


class InTransaction(Plain):
    """Takes the lock in a transaction, for which the node must remember what this connection watches."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        await self._call("WATCH", key)
        if await self._call("EXISTS", key):
            await self._call("UNWATCH")
            return False
        *_, done = await asyncio.gather(
            self._call("MULTI"), self._call("SET", key, token, "PX", ttl_ns // MS_NS), self._call("EXEC")
        )
        return done is not None


class Endless(Plain):
    """Its release is a script that does not end: wrong."""

    name = "endless"

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run("while true do end", lease.key, lease.token)
