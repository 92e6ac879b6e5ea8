"""Locks on one node by commands with a condition, of Redis 8.4 and Valkey 9.0; correct and broken ones."""

from __future__ import annotations

import contextlib
from typing import ClassVar

from xxhash import xxh3_64_hexdigest

from lab.channel import NodeError
from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_MS
from lab.locks.single import Single


class ByCondition(Single):
    """Extends by ``SET … IFEQ token PX ttl`` and releases by ``DELEX … IFEQ token``; no script."""

    name: ClassVar[str] = "by-condition"

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        ttl_ms = ttl_ns // NS_PER_MS
        return await self._call("SET", lease.key, lease.token, "IFEQ", lease.token, "PX", ttl_ms) is not None

    async def _give_back(self, lease: Lease) -> bool:
        return await self._delete(lease.key, lease.token)

    async def _undo(self, key: str, token: str) -> None:
        with contextlib.suppress(NodeError):
            await self._delete(key, token)

    async def _delete(self, key: str, token: str) -> bool:
        return bool(await self._call("DELEX", key, "IFEQ", token))


class ByDigest(ByCondition):
    """Releases by the digest of its own token."""

    async def _delete(self, key: str, token: str) -> bool:
        return bool(await self._call("DELEX", key, "IFDEQ", xxh3_64_hexdigest(token.encode())))


class ByOneSet(ByCondition):
    """Acquires by ``MSETEX … NX PX``."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return bool(await self._call("MSETEX", 1, key, token, "NX", "PX", ttl_ns // NS_PER_MS))


class OnValkey(ByCondition):
    """Releases by ``DELIFEQ``, which Valkey 9.0 has and Redis has not."""

    async def _delete(self, key: str, token: str) -> bool:
        return bool(await self._call("DELIFEQ", key, token))


class SwallowsRefusals(ByCondition):
    """The same, and takes a command that its node refuses for one that found no key of its own."""

    async def _delete(self, key: str, token: str) -> bool:
        try:
            return bool(await self._call("DELIFEQ", key, token))
        except Exception:  # noqa: BLE001 - that is what it shows
            return False


class ExtendsWithoutEnd(ByCondition):
    """Broken: its extension says no time, so the key never expires."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return await self._call("SET", lease.key, lease.token, "IFEQ", lease.token) is not None


class ExtendsUnlessForbidden(ByCondition):
    """Broken: a missing key meets IFNE, and so does another client's: a late extension takes the lock."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        ttl_ms = ttl_ns // NS_PER_MS
        return await self._call("SET", lease.key, lease.token, "IFNE", "revoked", "PX", ttl_ms) is not None


class DeletesWhatIsThere(ByCondition):
    """Broken: DELEX without a condition is DEL."""

    async def _delete(self, key: str, token: str) -> bool:
        return bool(await self._call("DELEX", key))


class DeletesByDigestOfWhatIsThere(ByCondition):
    """Broken: compares the key with the digest of whatever is there, and not with that of its token."""

    async def _delete(self, key: str, token: str) -> bool:
        digest = await self._call("DIGEST", key)
        return digest is not None and bool(await self._call("DELEX", key, "IFDEQ", digest.decode()))


TAKE_FIELD = """
if redis.call('hget',KEYS[1],'owner') then return 0 end
redis.call('hset',KEYS[1],'owner',ARGV[1])
redis.call('hpexpire',KEYS[1],ARGV[2],'FIELDS',1,'owner')
return 1
"""
PROLONG_FIELD = """
if redis.call('hget',KEYS[1],'owner') ~= ARGV[1] then return 0 end
return redis.call('hpexpire',KEYS[1],ARGV[2],'FIELDS',1,'owner')[1]
"""
DELETE_FIELD = (
    "if redis.call('hget',KEYS[1],'owner') == ARGV[1] then return redis.call('hdel',KEYS[1],'owner') end"
)


class ByField(ByCondition):
    """A field of a hash holds the token, and expires by itself (HPEXPIRE)."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return bool(await self._call("EVAL", TAKE_FIELD, 1, key, token, ttl_ns // NS_PER_MS))

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        ttl_ms = ttl_ns // NS_PER_MS
        return bool(await self._call("EVAL", PROLONG_FIELD, 1, lease.key, lease.token, ttl_ms))

    async def _delete(self, key: str, token: str) -> bool:
        return bool(await self._call("EVAL", DELETE_FIELD, 1, key, token))
