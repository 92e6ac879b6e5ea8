"""Locks in a stream, in bits, found by SCAN, handed over by BZPOPMIN; and what breaks them."""

from __future__ import annotations

from typing import Any, ClassVar

from lab.locks.base import Lease
from tests.locks_to_test.in_collections import NOW, OnePermit, Queue
from tests.locks_to_test.plain import MS_NS, Plain


class InAStream(OnePermit):
    """The holder is the one entry of a stream."""

    name = "in-a-stream"
    FIRST = "local first = redis.call('xrange', KEYS[1], '-', '+', 'COUNT', 1)[1]"
    TAKE = f"""{FIRST}
        if first then return first[2][2] == ARGV[1] and 1 or 0 end
        redis.call('xadd', KEYS[1], '*', 'token', ARGV[1])
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1"""
    PROLONG = f"""{FIRST}
        if not first or first[2][2] ~= ARGV[1] then return 0 end
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
        return 1"""
    GIVE_BACK = f"""{FIRST}
        if not first or first[2][2] ~= ARGV[1] then return 0 end
        return redis.call('xdel', KEYS[1], first[1])"""


class TrimsAway(InAStream):
    """A release trims the stream, whoever's entry that is."""

    name = "trims-away"
    GIVE_BACK = "return redis.call('xtrim', KEYS[1], 'MAXLEN', 0)"

    async def _undo(self, key: str, token: str) -> None:
        await self._run(InAStream.GIVE_BACK, key, token)


class KeepsTheNewest(InAStream):
    """Adds itself and keeps one entry: its own."""

    name = "keeps-the-newest"
    TAKE = """
        redis.call('xadd', KEYS[1], 'MAXLEN', 1, '*', 'token', ARGV[1])
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1"""


class Line(Queue):
    """A fair queue: who waits has an entry in a stream; the first one whose client was seen gets the key."""

    name = "line"
    TAKE = f"""{NOW}
        local line, seen, own = KEYS[1] .. ':line', KEYS[1] .. ':seen', nil
        redis.call('zremrangebyscore', seen, '-inf', now)
        for _, entry in ipairs(redis.call('xrange', line, '-', '+')) do
            if entry[2][2] == ARGV[1] then own = entry[1]
            elseif not redis.call('zscore', seen, entry[2][2]) then redis.call('xdel', line, entry[1]) end
        end
        own = own or redis.call('xadd', line, '*', 'token', ARGV[1])
        redis.call('zadd', seen, now + ARGV[3], ARGV[1])
        if redis.call('xrange', line, '-', '+', 'COUNT', 1)[1][1] ~= own then return 0 end
        if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
        redis.call('xdel', line, own)
        redis.call('zrem', seen, ARGV[1])
        return 1"""
    GIVE_BACK = """
        for _, entry in ipairs(redis.call('xrange', KEYS[1] .. ':line', '-', '+')) do
            if entry[2][2] == ARGV[1] then redis.call('xdel', KEYS[1] .. ':line', entry[1]) end
        end
        redis.call('zrem', KEYS[1] .. ':seen', ARGV[1])
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('del', KEYS[1])"""


class StandsForEver(Line):
    """An entry is never lost: a client that died blocks everybody behind it."""

    name = "stands-for-ever"
    TAKE = Line.TAKE.replace("redis.call('zremrangebyscore', seen, '-inf', now)", "")


class ByGroup(OnePermit):
    """A stream has one ticket; the consumer of a group to whom it is delivered holds the lock.

    A lease is over when the ticket was delivered longer ago than a hash says: then the next one claims it.
    """

    name = "by-group"
    TAKE = """
        redis.pcall('xgroup', 'CREATE', KEYS[1], 'holders', '0', 'MKSTREAM')
        if redis.call('xlen', KEYS[1]) == 0 then redis.call('xadd', KEYS[1], '*', 'ticket', '-') end
        if not redis.call('xreadgroup', 'GROUP', 'holders', ARGV[1], 'STREAMS', KEYS[1], '>') then
            local held = redis.call('xpending', KEYS[1], 'holders', '-', '+', 1)[1]
            local lasts = redis.call('hget', KEYS[1] .. ':last', held[2])
            if lasts and held[3] <= tonumber(string.match(lasts, '%d+')) then return 0 end
            redis.call('hdel', KEYS[1] .. ':last', held[2])
            redis.call('xclaim', KEYS[1], 'holders', ARGV[1], 0, held[1])
        end
        redis.call('hset', KEYS[1] .. ':last', ARGV[1], ARGV[2] .. 'ms')
        return 1"""
    OWN = "local own = redis.call('xpending', KEYS[1], 'holders', '-', '+', 1, ARGV[1])[1]"
    PROLONG = f"""{OWN}
        if not own then return 0 end
        local lasts = redis.call('hget', KEYS[1] .. ':last', ARGV[1])
        if own[3] >= tonumber(string.match(lasts, '%d+')) then return 0 end
        redis.call('hset', KEYS[1] .. ':last', ARGV[1], ARGV[2] .. 'ms')
        return #redis.call('xclaim', KEYS[1], 'holders', ARGV[1], 0, own[1], 'JUSTID')"""
    GIVE_BACK = f"""
        if redis.call('exists', KEYS[1]) == 0 then return 0 end
        {OWN}
        if not own then return 0 end
        redis.call('xack', KEYS[1], 'holders', own[1])
        redis.call('xdel', KEYS[1], own[1])
        redis.call('xgroup', 'DELCONSUMER', KEYS[1], 'holders', ARGV[1])
        redis.call('hdel', KEYS[1] .. ':last', ARGV[1])
        return 1"""


class KeepsTheTicket(ByGroup):
    """The ticket is made once and stays for good: a release lets the group deliver it again."""

    name = "keeps-the-ticket"
    GIVE_BACK = ByGroup.GIVE_BACK.replace(
        "redis.call('xdel', KEYS[1], own[1])", "redis.call('xgroup', 'SETID', KEYS[1], 'holders', '0')"
    )


class DeliversOnce(ByGroup):
    """The ticket stays, and a release lets nobody have it again: the group has delivered it."""

    name = "delivers-once"
    TAKE = ByGroup.TAKE.replace("local lasts", "if not held then return 0 end\n            local lasts")
    GIVE_BACK = ByGroup.GIVE_BACK.replace("redis.call('xdel', KEYS[1], own[1])", "")


class ClaimsAtOnce(ByGroup):
    """Claims the ticket whenever it was delivered."""

    name = "claims-at-once"
    TAKE = ByGroup.TAKE.replace("if lasts and held[3] <= tonumber(string.match(lasts, '%d+'))", "if false")


class AsLongAsItsOwn(ByGroup):
    """Claims the ticket when its own TTL is over, and not that of the holder."""

    name = "as-long-as-its-own"
    TAKE = ByGroup.TAKE.replace(
        "local lasts = redis.call('hget', KEYS[1] .. ':last', held[2])", "local lasts = ARGV[2]"
    )


class Bits(OnePermit):
    """A semaphore of three permits: a bit for each, and when it ends and whose it is in a hash."""

    name = "bits"
    permits: ClassVar[int] = 3
    FREE_DEAD = """
        for slot = 0, 2 do
            local over = redis.call('hget', KEYS[1] .. ':ends', slot)
            if over and tonumber(over) < now then
                redis.call('setbit', KEYS[1], slot, 0)
                redis.call('hdel', KEYS[1] .. ':ends', slot)
                redis.call('hdel', KEYS[1] .. ':of', slot)
            end
        end"""
    TAKE = f"""{NOW} {FREE_DEAD}
        for slot = 0, 2 do
            if redis.call('getbit', KEYS[1], slot) == 0 then
                redis.call('setbit', KEYS[1], slot, 1)
                redis.call('hset', KEYS[1] .. ':ends', slot, now + ARGV[2])
                redis.call('hset', KEYS[1] .. ':of', slot, ARGV[1])
                return 1
            end
        end
        return 0"""
    FIND = "for slot = 0, 2 do if redis.call('hget', KEYS[1] .. ':of', slot) == ARGV[1] then "
    PROLONG = f"""{NOW}
        {FIND}
            if tonumber(redis.call('hget', KEYS[1] .. ':ends', slot)) < now then return 0 end
            redis.call('hset', KEYS[1] .. ':ends', slot, now + ARGV[2])
            return 1
        end end
        return 0"""
    GIVE_BACK = f"""
        {FIND}
            redis.call('setbit', KEYS[1], slot, 0)
            redis.call('hdel', KEYS[1] .. ':ends', slot)
            redis.call('hdel', KEYS[1] .. ':of', slot)
            return 1
        end end
        return 0"""


class FourBits(Bits):
    """Looks at one bit more than there are permits."""

    name = "four-bits"
    TAKE = Bits.TAKE.replace("0, 2", "0, 3")
    FIND = Bits.FIND.replace("0, 2", "0, 3")
    PROLONG = Bits.PROLONG.replace("0, 2", "0, 3")
    GIVE_BACK = Bits.GIVE_BACK.replace("0, 2", "0, 3")


class FirstBit(Bits):
    """A release clears the first bit that is set, whoever's that is."""

    name = "first-bit"
    GIVE_BACK = """
        local slot = redis.call('bitpos', KEYS[1], 1)
        if slot < 0 then return 0 end
        redis.call('setbit', KEYS[1], slot, 0)
        redis.call('hdel', KEYS[1] .. ':ends', slot)
        redis.call('hdel', KEYS[1] .. ':of', slot)
        return 1"""

    async def _undo(self, key: str, token: str) -> None:
        await self._run(Bits.GIVE_BACK, key, token)


class Scanned(OnePermit):
    """The holder has a key of its own below the lock's name; SCAN tells whether there is one."""

    name = "scanned"
    TAKE = """
        if #redis.call('scan', 0, 'MATCH', KEYS[1] .. ':*', 'COUNT', 1000)[2] > 0 then
            return redis.call('exists', KEYS[1] .. ':' .. ARGV[1])
        end
        redis.call('set', KEYS[1] .. ':' .. ARGV[1], '-', 'PX', ARGV[2])
        return 1"""
    PROLONG = """
        local own = KEYS[1] .. ':' .. ARGV[1]
        if redis.call('exists', own) == 0 then return 0 end
        if redis.call('pttl', own) < tonumber(ARGV[2]) then redis.call('pexpire', own, ARGV[2]) end
        return 1"""
    GIVE_BACK = "return redis.call('del', KEYS[1] .. ':' .. ARGV[1])"


class SweepsAll(Scanned):
    """A release deletes every key that SCAN finds below the lock's name."""

    name = "sweeps-all"
    GIVE_BACK = """
        local found = redis.call('scan', 0, 'MATCH', KEYS[1] .. ':*', 'COUNT', 1000)[2]
        return #found > 0 and redis.call('del', unpack(found)) or 0"""

    async def _undo(self, key: str, token: str) -> None:
        await self._run(Scanned.GIVE_BACK, key, token)


class HandedOver(Plain):
    """Who waits is woken by BZPOPMIN when the holder gives the lock back, and asks again."""

    name = "handed-over"
    GIVE_BACK = """
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        redis.call('zadd', KEYS[1] .. ':free', 0, ARGV[1])
        redis.call('pexpire', KEYS[1] .. ':free', 1000)
        return redis.call('del', KEYS[1])"""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        for _ in range(3):
            if await super()._take(key, token, ttl_ns):
                return 1
            await self._call("BZPOPMIN", f"{key}:free", "0.2")
        return 0

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run(self.GIVE_BACK, lease.key, lease.token)


class TakesTheTicket(HandedOver):
    """Whoever pops the ticket holds the lock, and does not look at the key."""

    name = "takes-the-ticket"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        if await super(HandedOver, self)._take(key, token, ttl_ns):
            return 1
        if await self._call("BZPOPMIN", f"{key}:free", "0.4") is None:
            return 0
        await self._call("SET", key, token, "PX", ttl_ns // MS_NS)
        return 1
