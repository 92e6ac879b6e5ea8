"""Locks on one node that look at a key in different ways before they delete it, or keep it in odd ways."""

from __future__ import annotations

import asyncio
from typing import Final

from lab.locks.base import Lease
from tests.locks_to_test.plain import MS_NS, Plain

BLIND: Final = "return redis.call('del',KEYS[1])"
FIRST_LETTER: Final = """
local there = redis.call('get',KEYS[1])
if there and string.sub(there,1,0) == string.sub(ARGV[1],1,0) then return redis.call('del',KEYS[1]) end
return 0
"""


class Deletes(Plain):
    """Releases by DEL."""

    async def release(self, lease: Lease) -> None:
        await self._call("DEL", lease.key)


class DeletesInScript(Plain):
    """Releases by DEL in a script."""

    async def release(self, lease: Lease) -> None:
        await self._call("EVAL", BLIND, 1, lease.key)


class ComparesNothingOfIt(Plain):
    """Releases by a script that reads the value, and compares no letter of it."""

    async def release(self, lease: Lease) -> None:
        await self._call("EVAL", FIRST_LETTER, 1, lease.key, f"t{lease.token}")


class LooksApart(Plain):
    """Releases by GET and DEL, and deletes whatever is there."""

    async def release(self, lease: Lease) -> None:
        if await self._call("GET", lease.key) is not None:
            await self._call("DEL", lease.key)


class WithoutExpiry(Plain):
    """Sets its key without an expiry."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> bool:
        return bool(await self._call("SET", key, token, "NX"))


class ExpiryFollows(Plain):
    """Sets its key without an expiry, and gives it one a little later, in the background."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> bool:
        taken = bool(await self._call("SET", key, token, "NX"))
        self._following = asyncio.ensure_future(self._follow(key, ttl_ns))
        return taken

    async def _follow(self, key: str, ttl_ns: int) -> None:
        await asyncio.sleep(0.05)
        await self._call("PEXPIRE", key, ttl_ns // MS_NS)


class BytesForToken(Plain):
    """Keeps bytes that are no text under its key, and shows them as text can; such a lease runs out."""

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        value = bytes.fromhex(token)
        if not await self._channel.call("SET", key, value, "NX", "PX", ttl_ns // MS_NS):
            return None
        shown = value.decode(errors="replace")
        return Lease(key, shown, ttl_ns, start_ns + ttl_ns - self.margin_ns(ttl_ns, {}), attempt_ns=start_ns)


class ShowsOtherToken(Plain):
    """Shows a token that is not what it keeps under its key."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> bool:
        return bool(await self._call("SET", key, f"of {token}", "NX", "PX", ttl_ns // MS_NS))
