"""Two small mistakes on the way to a lock on one node; each gives away somebody else's lock."""

from __future__ import annotations

from typing import ClassVar

from lab.locks.base import Lease
from lab.locks.single import Single


class FixedValue(Single):
    """Like ``single``, but the value is the same for everybody, so comparing it tells nothing.

    Source: "Distributed Locks with Redis" and the texts after it: why the value must be unique.

    A release (or the undoing of an unanswered SET) that comes after the lease was over deletes the next
    owner's key, and a late extension would extend it; neither notices. Until somebody is late it is
    ``single``.
    """

    name: ClassVar[str] = "fixed-value"

    def _new_token(self) -> str:
        return "locked"


class PlainDel(Single):
    """Like ``single``, with a unique value, but released by a bare ``DEL`` that does not look at it.

    Source: "Distributed Locks with Redis": why a release must compare the value.

    A release that comes after the lease was over deletes the next owner's key and calls it success. Extension
    compares, as in ``single``. Until somebody is late it is ``single``.
    """

    name: ClassVar[str] = "plain-del"

    async def _give_back(self, lease: Lease) -> bool:
        return bool(await self._call("DEL", lease.key))
