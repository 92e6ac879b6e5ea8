"""Locks that give several names one key on the node."""

from __future__ import annotations

import zlib
from dataclasses import replace

from lab.locks.base import Lease
from lab.locks.single import Single


class _Renamed(Single):
    @staticmethod
    def renamed(key: str) -> str:
        raise NotImplementedError

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        return replace(await super().acquire(self.renamed(key), ttl_ns), key=key)

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return await super()._prolong(replace(lease, key=self.renamed(lease.key)), ttl_ns)

    async def _give_back(self, lease: Lease) -> bool:
        return await super()._give_back(replace(lease, key=self.renamed(lease.key)))


class InBuckets(_Renamed):
    """A checksum modulo 8, so that there are few keys."""

    @staticmethod
    def renamed(key: str) -> str:
        return f"lock:{zlib.crc32(key.encode()) % 8}"


class CutOff(_Renamed):
    """Names are cut off after eight characters."""

    @staticmethod
    def renamed(key: str) -> str:
        return key[:8]


class CaseFolded(_Renamed):
    """Names that differ in case only are one."""

    @staticmethod
    def renamed(key: str) -> str:
        return key.casefold()


class DropsPrefix(_Renamed):
    """What stands before a colon or a slash is dropped."""

    @staticmethod
    def renamed(key: str) -> str:
        return key.replace("/", ":").rpartition(":")[2]


class SweepsItsPrefix(_Renamed):
    """A release deletes every key whose name begins as its own does: it may have made some beside it."""

    unlock_script = """
        if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        for _, name in ipairs(redis.call('keys', KEYS[1] .. '*')) do redis.call('del', name) end
        return 1"""

    @staticmethod
    def renamed(key: str) -> str:
        return f"lock:{key}"
