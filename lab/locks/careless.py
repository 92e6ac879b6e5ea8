"""Two common mistakes in a lock on one node; with each, a late release removes another client's lock."""

from __future__ import annotations

from typing import ClassVar

from lab.locks.base import Lease
from lab.locks.single import Single


class FixedValue(Single):
    """Like ``single``, but the value is the same for all clients, so comparing it proves nothing.

    Source: "Distributed Locks with Redis" and the texts after it: why the value must be unique.

    A release (or the undoing of an unanswered SET) after the lease has ended deletes the next owner's key,
    and a late extension extends it, both without an error. If no client is late it behaves as ``single``.
    """

    name: ClassVar[str] = "fixed-value"

    def _new_token(self) -> str:
        return "locked"


class PlainDel(Single):
    """Like ``single``, with a unique value, but released by a ``DEL`` that does not compare it.

    Source: "Distributed Locks with Redis": why a release must compare the value.

    A release after the lease has ended deletes the next owner's key and reports success. Extension compares,
    as in ``single``. If no client is late it behaves as ``single``.
    """

    name: ClassVar[str] = "plain-del"

    async def _give_back(self, lease: Lease) -> bool:
        return bool(await self._call("DEL", lease.key))
