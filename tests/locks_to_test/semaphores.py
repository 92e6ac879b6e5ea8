"""Semaphores of three permits, in a sorted set, in slots and as a counter; and what breaks them."""

from __future__ import annotations

from typing import Any, ClassVar

from lab.locks.base import BaseLock, Lease, NotAcquired
from lab.locks.redlock import Redlock
from tests.locks_to_test.in_collections import DROP_OVER, NOW, OnePermit
from tests.locks_to_test.plain import MS_NS, Plain


class Three(OnePermit):
    """Holders in a sorted set, scored by when they end; entry and count are one script."""

    name = "three"
    permits: ClassVar[int] = 3
    TAKE = OnePermit.TAKE.replace(">= 1", ">= 3").replace(
        "redis.call('pexpire', KEYS[1], ARGV[2])",
        "if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end",
    )


class LetsInFour(Three):
    """Compares with the limit by ``>``."""

    name = "lets-in-four"
    TAKE = Three.TAKE.replace(">= 3", "> 3")


class LastPermitsEnd(Three):
    """All permits go when the lease of the last one that was taken is over, however long others' are."""

    name = "last-permits-end"
    TAKE = OnePermit.TAKE.replace(">= 1", ">= 3")


class GoesByItsOwn(Three):
    """Holders are scored by when they began, and dropped after the TTL of whoever asks, not after theirs."""

    name = "goes-by-its-own"
    DROP = DROP_OVER.replace("now", "now - ARGV[2]")
    TAKE = Three.TAKE.replace(DROP_OVER, DROP).replace("now + ARGV[2]", "now")
    PROLONG = f"""{NOW}
        if not redis.call('zscore', KEYS[1], ARGV[1]) then return 0 end
        redis.call('zadd', KEYS[1], 'XX', 'GT', now, ARGV[1])
        if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
        return 1"""


class PopsOldest(Three):
    """A release takes away the permit that ends first, whoever's that is."""

    name = "pops-oldest"
    GIVE_BACK = "return #redis.call('zpopmin', KEYS[1]) / 2"

    async def _undo(self, key: str, token: str) -> None:
        await self._run(Three.GIVE_BACK, key, token)


class LosesPermits(Three):
    """A release gives the permit back only if it is the oldest one."""

    name = "loses-permits"
    GIVE_BACK = """
        if redis.call('zrank', KEYS[1], ARGV[1]) ~= 0 then return redis.call('exists', KEYS[1]) end
        return redis.call('zrem', KEYS[1], ARGV[1])"""

    async def _undo(self, key: str, token: str) -> None:
        await self._run(Three.GIVE_BACK, key, token)


class KeepsTheDead(Three):
    """Nothing takes away the permit of a client that is gone."""

    name = "keeps-the-dead"
    TAKE = """
        if redis.call('zcard', KEYS[1]) >= 3 then return 0 end
        redis.call('zadd', KEYS[1], 1, ARGV[1])
        return 1"""
    PROLONG = "return redis.call('zscore', KEYS[1], ARGV[1]) and 1 or 0"


class InSlots(Plain):
    """One key for each permit, ``name:1`` to ``name:3``; an acquire takes the first that is free."""

    name = "in-slots"
    permits: ClassVar[int] = 3
    TAKE = """
        for slot = 1, 3 do
            if redis.call('set', KEYS[1] .. ':' .. slot, ARGV[1], 'NX', 'PX', ARGV[2]) then return slot end
        end
        return 0"""
    FIND = "for slot = 1, 3 do if redis.call('get', KEYS[1] .. ':' .. slot) == ARGV[1] then "
    PROLONG = (
        FIND
        + """
            local key = KEYS[1] .. ':' .. slot
            if redis.call('pttl', key) < tonumber(ARGV[2]) then redis.call('pexpire', key, ARGV[2]) end
            return 1
        end end
        return 0"""
    )
    GIVE_BACK = FIND + "return redis.call('del', KEYS[1] .. ':' .. slot) end end return 0"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(self.TAKE, key, token, ttl_ns // MS_NS)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return await self._run(self.PROLONG, lease.key, lease.token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._run(self.GIVE_BACK, lease.key, lease.token)


class FourSlots(InSlots):
    """Looks through one slot too many."""

    name = "four-slots"
    TAKE = InSlots.TAKE.replace("1, 3", "1, 4")
    FIND = InSlots.FIND.replace("1, 3", "1, 4")
    PROLONG = InSlots.PROLONG.replace("1, 3", "1, 4")
    GIVE_BACK = InSlots.GIVE_BACK.replace("1, 3", "1, 4")


class Counted(Three):
    """A counter beside the set of holders is what is compared with the limit: each release counts down."""

    name = "counted"
    TAKE = f"""{NOW}
        local count = KEYS[1] .. ':count'
        local gone = {DROP_OVER}
        if gone > 0 then redis.call('decrby', count, gone) end
        if tonumber(redis.call('get', count) or '0') >= 3 then return 0 end
        redis.call('incr', count)
        redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1])
        return 1"""
    PROLONG = f"""{NOW}
        local ends = redis.call('zscore', KEYS[1], ARGV[1])
        if not ends or tonumber(ends) <= now then return 0 end
        redis.call('zadd', KEYS[1], 'XX', 'GT', now + ARGV[2], ARGV[1])
        return 1"""
    GIVE_BACK = """
        if redis.call('zrem', KEYS[1], ARGV[1]) == 0 then return 0 end
        redis.call('decr', KEYS[1] .. ':count')
        return 1"""


class GivesBackTwice(Counted):
    """Counts down whether the permit is there or not."""

    name = "gives-back-twice"
    GIVE_BACK = """
        local there = redis.call('zrem', KEYS[1], ARGV[1])
        redis.call('decr', KEYS[1] .. ':count')
        return there"""


class SaysNothing(BaseLock):
    """Three by an option, of which its class says nothing."""

    OPTIONS: ClassVar[dict[str, Any]] = {"limit": 3}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token, asked_ns = self.new_token(), self.clock_ns()
        if not await self.ask("EVAL", Three.TAKE, 1, key, token, ttl_ns // MS_NS):
            raise NotAcquired(key, [token])
        return self.lease(key, token, ttl_ns, asked_ns)

    async def release(self, lease: Lease) -> None:
        await self.ask("ZREM", lease.key, lease.token)


class OnSeveralNodes(Redlock):
    """Two permits of which each is a majority of five nodes."""

    name = "on-several-nodes"
    permits: ClassVar[int] = 2
