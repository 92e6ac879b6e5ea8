"""Locks that take the error a node answers for something else."""

from __future__ import annotations

import asyncio
from typing import Any

from lab.channel import ErrorReply, NodeError
from lab.locks.base import Lease, LockError
from tests.locks_to_test.plain import S_NS, Plain
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
