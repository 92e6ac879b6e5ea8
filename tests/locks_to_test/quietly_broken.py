"""Locks on one node that are wrong in a way that a history alone does not prove."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, ClassVar

from lab.addresses import Address
from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Surroundings
from tests.locks_to_test.plain import GIVE_BACK, MS_NS, S_NS, Plain, PlainOptions
from tests.locks_to_test.unusual import FreshConnections, Numbered, Reentrant
from tests.locks_to_test.watchdog import Watchdog

TAKE_TURN = """
if redis.call('exists',KEYS[1])==1 or redis.call('lrange',KEYS[2],0,0)[1]~=ARGV[1] then return 0 end
redis.call('lpop',KEYS[2])
redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2])
return 1
"""
LEAVE_QUEUE = """
local all = redis.call('lrange',KEYS[1],0,-1)
redis.call('del',KEYS[1])
for _, each in ipairs(all) do if each ~= ARGV[1] then redis.call('rpush',KEYS[1],each) end end
"""


class LateSuccess(Plain):
    """Waits for an answer as long as it takes, looks at no clock then, and says nothing of its attempt."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, start_ns = self._around.new_token(), self._around.clock_ns()
        try:
            taken = await self._take(key, token, ttl_ns)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not taken:
            raise NotAcquired(f"{key}: taken", [token])
        return Lease(key, token, ttl_ns, start_ns + ttl_ns - self.margin_ns(ttl_ns, {}))

    async def _call(self, *command: str | int) -> object:
        return await self._channel.call(*command)


class LateExtension(LateSuccess):
    """The same of an extension: one that the node made is a success, whenever the answer comes."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._around.clock_ns()
        try:
            prolonged = await self._prolong(lease, ttl_ns)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not prolonged:
            raise LeaseLost(f"{lease.key}: lost", no_effect=True)
        return Lease(lease.key, lease.token, ttl_ns, start_ns + ttl_ns - self.margin_ns(ttl_ns, {}))


class OutlivesLostRelease(Watchdog):
    """Its watchdog ends when a release was answered, and goes on for ever after one that was not."""

    async def release(self, lease: Lease) -> None:
        await Plain.release(self, lease)
        await self._stop(lease.token)


class SleepsOn(Plain):
    """Who is refused sleeps for two leases before it asks once more, whatever happens meanwhile."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        try:
            return await super().acquire(key, ttl_ns)
        except NotAcquired:
            await asyncio.sleep(2 * ttl_ns / S_NS)
            return await super().acquire(key, ttl_ns)


class StaysInQueue(Plain):
    """Clients take turns by a list on the node, for three seconds; who was cancelled stays at its head."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, queue = self._around.new_token(), f"{key}:queue"
        give_up_ns = self._around.clock_ns() + 3 * S_NS
        try:
            await self._call("RPUSH", queue, token)
            while (start_ns := self._around.clock_ns()) < give_up_ns:
                if await self._call("EVAL", TAKE_TURN, 2, key, queue, token, ttl_ns // MS_NS):
                    return Lease(key, token, ttl_ns, start_ns + ttl_ns - self.margin_ns(ttl_ns, {}))
                await asyncio.sleep(0.05 + 0.05 * self._around.random.random())
            await self._call("EVAL", LEAVE_QUEUE, 1, queue, token)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        raise NotAcquired(f"{key}: not my turn", [token])


class ProlongsInAnyCase(Plain):
    """Sends PEXPIRE together with SETNX: an attempt that is refused prolongs the key that is there."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> object:
        taken, _ = await asyncio.gather(
            self._call("SETNX", key, token), self._call("PEXPIRE", key, ttl_ns // MS_NS)
        )
        return taken == 1


class GoesOnWhenCancelled(Plain):
    """Polls for three seconds in a task that no cancellation ends: it takes the lock for nobody."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        return await asyncio.shield(asyncio.create_task(self._poll(key, ttl_ns)))

    async def _poll(self, key: str, ttl_ns: int) -> Lease:
        give_up_ns = self._around.clock_ns() + 3 * S_NS
        while True:
            try:
                return await super().acquire(key, ttl_ns)
            except NotAcquired:
                if self._around.clock_ns() >= give_up_ns:
                    raise
                await self._pause()


class FenceDrawnFirst(Plain):
    """Draws its fence, and then asks for the lock: who is overtaken in between has the smaller number."""

    hands_out_fences = True

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        fence = int(str(await self._call("INCR", f"{key}:count")))
        lease = await super()._try(key, token, ttl_ns, start_ns)
        return None if lease is None else replace(lease, fence=fence)


class ForgetsItsFences(Numbered):
    """Lets its counter of fences expire when nobody has taken the lock for an hour: it begins at 1 again."""

    script: ClassVar[str] = """
        if not redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 0 end
        local fence = redis.call('incr',KEYS[1] .. ':count')
        redis.call('expire',KEYS[1] .. ':count',3600)
        return fence
    """


class ConfirmedLater(Plain):
    """Looks whether it has the lock if the answer was lost, and counts the lease from there."""

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        try:
            return await super()._try(key, token, ttl_ns, start_ns)
        except NodeError:
            start_ns = self._around.clock_ns()
            if await self._call("GET", key) != token.encode():
                raise
            over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
            return Lease(key, token, ttl_ns, over_ns, attempt_ns=start_ns)


class FreshLeaseAgain(Reentrant):
    """Who takes the lock again is promised a whole lease, and the key is not prolonged."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        start_ns = self._around.clock_ns()
        over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        return lease if self._held[key][1] == 1 else replace(lease, deadline_ns=over_ns, attempt_ns=start_ns)


class InnerReleaseInSeconds(Reentrant):
    """An inner release gives the key a new expiry: as many milliseconds as the lease has seconds."""

    async def release(self, lease: Lease) -> None:
        _, depth = self._held.get(lease.key, (lease, 1))
        await super().release(lease)
        if depth > 1:
            await self._call("PEXPIRE", lease.key, lease.ttl_ns // S_NS)


class LooksThenProlongs(Plain):
    """Compares the token in one request and prolongs the key in the next, whose ever it is by then."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> object:
        if await self._call("GET", lease.key) != lease.token.encode():
            return False
        return await self._call("PEXPIRE", lease.key, ttl_ns // MS_NS)


class LoadsItsScriptOnce(Plain):
    """Its release is a script that it loads when it is opened: no node that was restarted knows it."""

    async def open(self) -> None:
        await super().open()
        self._digest = (await self._call("SCRIPT", "LOAD", GIVE_BACK)).decode()

    async def _give_back(self, lease: Lease) -> object:
        return await self._call("EVALSHA", self._digest, 1, lease.key, lease.token)


class ReturnsOldLease(Reentrant):
    """Who has taken the lock and not given it back is handed the same lease again, also when it is over."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease, depth = self._held.get(key, (None, 0))
        if lease is not None:
            self._held[key] = lease, depth + 1
            return lease
        return await super().acquire(key, ttl_ns)


class OneTokenForAll(FreshConnections):
    """All grants of a client have one token, so a release that comes late is of the lease it has by then."""

    script: ClassVar[str] = """
        if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end
        return redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) and 1 or 0
    """
    token = ""

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        self.token = self.token or token
        taken = await self._call("EVAL", self.script, 1, key, self.token, ttl_ns // MS_NS)
        over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
        return Lease(key, self.token, ttl_ns, over_ns, attempt_ns=start_ns) if taken else None


class FewTokens(Plain):
    """Of each value of its own that an attempt draws only 50 different ones are left."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await super()._take(key, _few(token), ttl_ns)

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        return await super()._try(key, _few(token), ttl_ns, start_ns)

    async def _undo(self, key: str, token: str) -> None:
        await super()._undo(key, _few(token))


def _few(token: str) -> str:
    return token if len(token) < 3 else str(int(token, 16) % 50)


class NotesBeforeItAsks(Plain):
    """Extends once in a quarter of the TTL at most, and has noted an extension before it is answered."""

    name = "notes-before-it-asks"

    def __init__(self, node: Address, options: PlainOptions, around: Surroundings, owner: str) -> None:
        super().__init__(node, options, around, owner)
        self._noted_ns: dict[str, int] = {}

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns, noted_ns = self._around.clock_ns(), self._noted_ns.get(lease.token)
        if noted_ns is not None and start_ns - noted_ns < ttl_ns // 4:
            return replace(lease, deadline_ns=noted_ns + ttl_ns - self.margin_ns(ttl_ns, {}))
        self._noted_ns[lease.token] = start_ns
        return await super().extend(lease, ttl_ns)
