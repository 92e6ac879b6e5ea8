"""Read-write locks: in two keys, in a hash, in slots, with waiting writers first; and broken ones."""

from __future__ import annotations

import contextvars
from dataclasses import replace
from typing import Any, ClassVar

from lab.client_protocol import Mode
from lab.locks.base import Lease
from lab.locks.redlock import Redlock
from tests.locks_to_test.in_collections import NOW
from tests.locks_to_test.plain import MS_NS, Plain

LONGER = "if redis.call('pttl', {0}) < tonumber(ARGV[2]) then redis.call('pexpire', {0}, ARGV[2]) end"
MODE: contextvars.ContextVar[Mode] = contextvars.ContextVar("MODE")


class TwoKeys(Plain):
    """The writer's token as a key, and readers in a sorted set beside it, scored by when they end."""

    name = "two-keys"
    undoes_by_digest = False
    read_write: ClassVar[bool] = True
    WRITER = "local readers = KEYS[1] .. ':readers' local writes = string.sub(ARGV[1], 1, 1) == 'w' "
    DROP_OVER = f"{NOW} redis.call('zremrangebyscore', readers, '-inf', now)"
    TAKE = f"""{WRITER} {DROP_OVER}
        if redis.call('exists', KEYS[1]) == 1 then return 0 end
        if writes then
            if redis.call('zcard', readers) > 0 then return 0 end
            redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
        else
            redis.call('zadd', readers, now + ARGV[2], ARGV[1])
            {LONGER.format("readers")}
        end
        return 1"""
    PROLONG = f"""{WRITER} {DROP_OVER}
        if writes then
            if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
            {LONGER.format("KEYS[1]")}
        else
            if not redis.call('zscore', readers, ARGV[1]) then return 0 end
            redis.call('zadd', readers, 'XX', 'GT', now + ARGV[2], ARGV[1])
            {LONGER.format("readers")}
        end
        return 1"""
    GIVE_BACK = f"""{WRITER}
        if not writes then return redis.call('zrem', readers, ARGV[1]) end
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('del', KEYS[1])"""

    async def acquire(self, key: str, ttl_ns: int, mode: Mode = "write") -> Lease:
        MODE.set(mode)
        return await super().acquire(key, ttl_ns)

    def _new_token(self) -> str:
        return f"{MODE.get()[0]}-{super()._new_token()}"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(self.TAKE, key, token, ttl_ns // MS_NS)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await self._run(self.PROLONG, lease.key, lease.token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run(self.GIVE_BACK, lease.key, lease.token)


class WriterFirst(TwoKeys):
    """A writer that is refused keeps new readers out for a moment, in which it asks again."""

    name = "writer-first"
    WAITS_MS = 400
    TAKE = f"""{TwoKeys.WRITER} {TwoKeys.DROP_OVER}
        local waiting = KEYS[1] .. ':waiting'
        if redis.call('exists', KEYS[1]) == 1 or redis.call('zcard', readers) > 0 and writes then
            if writes then redis.call('set', waiting, ARGV[1], 'NX', 'PX', {WAITS_MS}) end
            return 0
        end
        if writes then
            redis.call('del', waiting)
            redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
        else
            if redis.call('exists', waiting) == 1 then return 0 end
            redis.call('zadd', readers, now + ARGV[2], ARGV[1])
            {LONGER.format("readers")}
        end
        return 1"""


class InAHash(TwoKeys):
    """A hash with the mode and a field for each holder, whose own key says for how long it counts."""

    name = "in-a-hash"
    PRUNE = """
        for _, each in ipairs(redis.call('hkeys', KEYS[1])) do
            if each ~= 'mode' and redis.call('exists', KEYS[1] .. ':' .. each) == 0 then
                redis.call('hdel', KEYS[1], each)
            end
        end
        if redis.call('hlen', KEYS[1]) == 1 then redis.call('del', KEYS[1]) end
        local mode = redis.call('hget', KEYS[1], 'mode')
        local own = KEYS[1] .. ':' .. ARGV[1]"""
    MAY_ENTER = "if mode and (mode == 'w' or string.sub(ARGV[1], 1, 1) == 'w') then return 0 end"
    TAKE = f"""{PRUNE}
        {MAY_ENTER}
        redis.call('hset', KEYS[1], 'mode', string.sub(ARGV[1], 1, 1), ARGV[1], '1')
        redis.call('set', own, '1', 'PX', ARGV[2])
        {LONGER.format("KEYS[1]")}
        return 1"""
    PROLONG = f"""{PRUNE}
        if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
        {LONGER.format("own")}
        {LONGER.format("KEYS[1]")}
        return 1"""
    GIVE_BACK = f"""{PRUNE}
        redis.call('del', own)
        if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return 0 end
        if redis.call('hlen', KEYS[1]) == 1 then redis.call('del', KEYS[1]) end
        return 1"""


class InSlots(TwoKeys):
    """Six keys: a reader takes one of them, a writer all."""

    name = "in-slots"
    TAKE = f"""{TwoKeys.WRITER}
        local free = {{}}
        for slot = 1, 6 do
            if redis.call('exists', KEYS[1] .. ':' .. slot) == 0 then table.insert(free, slot) end
        end
        if #free < (writes and 6 or 1) then return 0 end
        for at = 1, writes and 6 or 1 do
            redis.call('set', KEYS[1] .. ':' .. free[at], ARGV[1], 'PX', ARGV[2])
        end
        return 1"""
    PROLONG = f"""
        local found = 0
        for slot = 1, 6 do
            local key = KEYS[1] .. ':' .. slot
            if redis.call('get', key) == ARGV[1] then
                {LONGER.format("key")}
                found = 1
            end
        end
        return found"""
    GIVE_BACK = """
        local found = 0
        for slot = 1, 6 do
            local key = KEYS[1] .. ':' .. slot
            if redis.call('get', key) == ARGV[1] then found = redis.call('del', key) end
        end
        return found"""


class ReaderDoesNotLook(TwoKeys):
    """A reader comes in while a writer has the lock."""

    name = "reader-does-not-look"
    TAKE = TwoKeys.TAKE.replace(
        "if redis.call('exists', KEYS[1]) == 1 then", "if writes and redis.call('exists', KEYS[1]) == 1 then"
    )


class WriterDoesNotLook(TwoKeys):
    """A writer looks for another writer only."""

    name = "writer-does-not-look"
    TAKE = TwoKeys.TAKE.replace("if redis.call('zcard', readers) > 0 then return 0 end", "")


class InTwoSteps(TwoKeys):
    """A reader looks for a writer, and enters itself with another command."""

    name = "in-two-steps"
    ENTER = f"""{TwoKeys.WRITER} {NOW}
        redis.call('zadd', readers, now + ARGV[2], ARGV[1])
        {LONGER.format("readers")}
        return 1"""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        if token.startswith("w"):
            return await super()._take(key, token, ttl_ns)
        if await self._call("EXISTS", key):
            return 0
        return await self._run(self.ENTER, key, token, ttl_ns // MS_NS)


class LooksThenSets(TwoKeys):
    """A writer looks for readers, and sets its key with another command."""

    name = "looks-then-sets"
    READERS = f"""{TwoKeys.WRITER} {TwoKeys.DROP_OVER} return redis.call('zcard', readers)"""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        if not token.startswith("w"):
            return await super()._take(key, token, ttl_ns)
        if await self._run(self.READERS, key, token):
            return 0
        return await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)


class FirstReadersEnd(TwoKeys):
    """The set of readers goes when the lease of the first one is over, whoever has come after it."""

    name = "first-readers-end"
    TAKE = TwoKeys.TAKE.replace(
        LONGER.format("readers"),
        "if redis.call('pttl', readers) < 0 then redis.call('pexpire', readers, ARGV[2]) end",
    )


class LastReadersEnd(TwoKeys):
    """The set of readers goes when the lease of the last one that came is over, however long others' are."""

    name = "last-readers-end"
    TAKE = TwoKeys.TAKE.replace(LONGER.format("readers"), "redis.call('pexpire', readers, ARGV[2])")


class ReaderTakesAll(TwoKeys):
    """A reader that leaves deletes the entries of all."""

    name = "reader-takes-all"
    GIVE_BACK = TwoKeys.GIVE_BACK.replace(
        "redis.call('zrem', readers, ARGV[1])", "redis.call('del', readers)"
    )


class KeepsDeadReaders(TwoKeys):
    """Nothing takes away the entry of a reader that is gone."""

    name = "keeps-dead-readers"
    DROP_OVER = NOW
    TAKE = TwoKeys.TAKE.replace(TwoKeys.DROP_OVER, NOW).replace(LONGER.format("readers"), "")
    PROLONG = TwoKeys.PROLONG.replace(TwoKeys.DROP_OVER, NOW).replace(LONGER.format("readers"), "")


class ReaderComesBack(TwoKeys):
    """Extends whenever it is asked to; a reader whose entry is gone gets a new one, whoever has the lock."""

    name = "reader-comes-back"
    PROLONG = TwoKeys.PROLONG.replace(
        "if not redis.call('zscore', readers, ARGV[1]) then return 0 end", ""
    ).replace("'XX', 'GT', ", "")

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        return await super().extend(replace(lease, deadline_ns=1 << 62), ttl_ns)


class WriterTakesWhatIsThere(TwoKeys):
    """A writer gives back whatever writer's key is there."""

    name = "writer-takes-what-is-there"
    GIVE_BACK = TwoKeys.GIVE_BACK.replace("if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end", "")


class OnSeveralNodes(Redlock):
    """Readers and writers of which each asks a majority of five nodes."""

    name = "read-write-on-several-nodes"
    read_write: ClassVar[bool] = True

    async def acquire(self, key: str, ttl_ns: int, mode: Mode = "write") -> Lease:
        return await super().acquire(key, ttl_ns)
