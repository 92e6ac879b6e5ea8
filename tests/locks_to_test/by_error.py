"""Locks that take the error a node answers for something else."""

from __future__ import annotations

import asyncio
from typing import Any

from lab.channel import ErrorReply, NodeError
from lab.locks.base import Lease, LockError
from tests.locks_to_test.plain import MS_NS, S_NS, Plain
from tests.locks_to_test.watchdog import Watchdog


def answered(error: BaseException | None) -> bool:
    """Whether a node answered with an error: what was asked was not done."""
    return error is not None and (isinstance(error, ErrorReply) or answered(error.__cause__))


class TakenByError(Plain):
    """Whatever a node answers in place of nil is a grant."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        try:
            return await super()._take(key, token, ttl_ns)
        except NodeError as error:
            if answered(error):
                return True
            raise


class ExtendedByError(Plain):
    """Whatever a node answers in place of 0 is an extension."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        try:
            return await super()._prolong(lease, ttl_ns)
        except NodeError as error:
            if answered(error):
                return True
            raise


class TakenByTable(Plain):
    """Its script asks by pcall, and what is not nil is a grant: the table of an error, too."""

    TAKE = "if redis.pcall('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return 1 else return 0 end"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(self.TAKE, key, token, ttl_ns // MS_NS)


class LooksAtTable(TakenByTable):
    """The same, and an error is answered as one."""

    TAKE = """
    local done = redis.pcall('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2])
    if not done then return 0 end
    return done.err and done or 1
    """


class EndsAtAnError(Watchdog):
    """It goes on renewing when nothing is answered, and ends for ever at an error."""

    async def _go_on(self, token: str, ttl_ns: int) -> None:
        while (lease := self._leases.get(token)) is not None and self.believes(lease):
            await asyncio.sleep(ttl_ns / 4 / S_NS)
            try:
                await self.extend(lease, ttl_ns)
            except LockError as error:
                if answered(error):
                    return
