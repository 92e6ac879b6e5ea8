"""The lock of the time before ``SET`` had options: separate commands, and windows between them."""

from __future__ import annotations

from typing import ClassVar

from lab.channel import NodeError
from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_MS
from lab.locks.single import NotSent, Single

GAP = "between-setnx-and-expire"
"""The point where a scenario can stop the client: the key is set and has no expiry."""


class SetnxExpire(Single):
    """``SETNX``, then ``PEXPIRE``, and ``DEL`` to release.

    Source: the common first attempt, as described in the introductions to Redlock.

    While nothing fails it promises what ``single`` does. A client that dies between the two commands, or
    whose second command is lost, leaves a key that never expires: no client gets the lock again. ``DEL`` and
    the extension's ``PEXPIRE`` compare no token: a late release removes, and a late extension extends, the
    lock of any other client. A client cannot undo only its own SETNX, so in doubt nothing is undone.
    """

    name: ClassVar[str] = "setnx-expire"

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        if not await self._call("SETNX", key, token):
            return False
        await self._surroundings.at(GAP)
        try:
            await self._call("PEXPIRE", key, ttl_ns // NS_PER_MS)
        except NotSent as error:
            raise NodeError(f"the key is set, but never expires: {error}") from error
        return True

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return bool(await self._call("PEXPIRE", lease.key, ttl_ns // NS_PER_MS))

    async def _give_back(self, lease: Lease) -> bool:
        return bool(await self._call("DEL", lease.key))

    async def _undo(self, key: str, token: str) -> None:
        """Nothing can be undone safely."""
