"""A correct read-write lock on one Redis node: who holds it, in a sorted set scored by the ends of leases."""

from __future__ import annotations

from typing import ClassVar, Final

from lab.client_protocol import Mode
from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_MS
from lab.locks.semaphore import GIVE_BACK_SCRIPT, LASTS, OVER_GO, PROLONG_SCRIPT
from lab.locks.single import Single

TAKE_SCRIPT: Final = f"""{OVER_GO}
local writes = string.sub(ARGV[1], 1, 6) == 'write-'
for _, held in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
    if writes or string.sub(held, 1, 6) == 'write-' then return 0 end
end
redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1])
{LASTS}"""


class ReadWrite(Single):
    """One node, which looks who holds the lock and adds an entry in one script, and counts time by its clock.

    An entry is a token that begins with ``read-`` or ``write-``, with the end of its lease. A reader is let
    in if there is no writer, a writer if there is nobody. Extending and releasing are as of ``Semaphore``.

    It promises that a writer has the lock alone, and that the entry of a client that is gone goes when its
    lease is over, under the assumptions of ``Single``. It is not fair: a writer waits for as long as one
    reader comes before the last one has gone.
    """

    name: ClassVar[str] = "read-write"
    read_write: ClassVar[bool] = True
    extend_script: ClassVar[str] = PROLONG_SCRIPT
    unlock_script: ClassVar[str] = GIVE_BACK_SCRIPT

    async def acquire(self, key: str, ttl_ns: int, mode: Mode = "write") -> Lease:
        """Take the lock as a reader, or as its writer. Raises as ``Single.acquire`` does."""
        return await self._tries(key, ttl_ns, lambda: f"{mode}-{self._new_token()}")

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return bool(await self._call("EVAL", TAKE_SCRIPT, 1, key, token, ttl_ns // NS_PER_MS))
