"""Locks whose defect was once named wrongly, as what they do resembles something else."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import Any, ClassVar

from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, NotAcquired
from lab.locks.redlock import UNLOCK_SCRIPT, Redlock, SequentialRedlock, Taken, Vote, count_votes
from tests.locks_to_test.plain import GIVE_BACK, MS_NS, S_NS, Plain


class SendsSet(Plain):
    """Takes the lock by SET instead of a script: that is right."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)


class RepeatsItsSet(SendsSet):
    """Asks with one token until it is granted; where a reply was lost, its own key refuses it."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        token = self._around.new_token()
        while True:
            start_ns = self._around.clock_ns()
            with contextlib.suppress(NodeError):
                if await self._take(key, token, ttl_ns):
                    over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
                    return Lease(key, token, ttl_ns, over_ns, attempt_ns=start_ns)
            await self._pause()


class WaitsOutATie(Redlock):
    """Settles on a majority for or against; where there is neither it waits for long."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        taken = await super()._take(key, token, ttl_ns)
        if max(count_votes(taken.votes, "yes"), count_votes(taken.votes, "no")) < 2:
            await asyncio.sleep(25)
        return taken


class RoundsDownToSeconds(Plain):
    """Gives keys whole seconds, which is none for a lease below one; what it claims is right."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._call("SET", key, token, "NX", "EX", ttl_ns // S_NS)


class AdoptsWhatItLeft(SendsSet):
    """Undoes no attempt that is cancelled: the next one takes its key over, and counts from then on."""

    left = ""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        start_ns = self._around.clock_ns()
        value = await self._call("GET", key) if self.left else None
        if value is not None and value.decode() == self.left:
            over_ns = start_ns + ttl_ns - self.margin_ns(ttl_ns, {})
            return Lease(key, self.left, ttl_ns, over_ns, attempt_ns=start_ns)
        return await super().acquire(key, ttl_ns)

    async def _undo(self, key: str, token: str) -> None:
        self.left = token


class LeavesSilentNodesAlone(Redlock):
    """Undoes an attempt only where it was answered."""

    answered: dict[str, Vote] | None = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        try:
            return await super().acquire(key, ttl_ns)
        except NotAcquired as error:
            if error.refused_by:
                raise
            raise Indeterminate(str(error)) from error

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        taken = await super()._take(key, token, ttl_ns)
        self.answered = taken.votes
        return taken

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        for channel in self._channels:
            if (self.answered or {}).get(channel.address.name) in ("yes", "no"):
                channel.post("EVAL", UNLOCK_SCRIPT, 1, key, token)
        return {}


class OneRefusalDecides(SequentialRedlock):
    """Gives up if any node refuses."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        taken = await super()._take(key, token, ttl_ns)
        refused = count_votes(taken.votes, "no") > 0
        return replace(taken, obstacle="a node refused it") if refused else taken


class AnnouncesItself(SendsSet):
    """Notes on the node for half a second who asks; and counts a lease from some time after it was taken."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        await self._call("SET", f"{key}:asks", token, "PX", 500)
        return await super()._take(key, token, ttl_ns)

    async def _try(self, key: str, token: str, ttl_ns: int, start_ns: int) -> Lease | None:
        lease = await super()._try(key, token, ttl_ns, start_ns)
        if lease is None:
            return None
        await asyncio.sleep(0.4)
        now_ns = self._around.clock_ns()
        return replace(lease, deadline_ns=lease.deadline_ns + now_ns - start_ns, attempt_ns=now_ns)


class ReleasesNothing(SendsSet):
    """Takes a release for done, and sends nothing."""

    async def _give_back(self, lease: Lease) -> Any:
        return True


class UndoesAnotherKey(SendsSet):
    """Sends the token for the key, and the key for the token, when it undoes an attempt."""

    async def _undo(self, key: str, token: str) -> None:
        await self._call("EVAL", GIVE_BACK, 1, token, key)


class LooksBeforeIt(SendsSet):
    """Looks at its key before it deletes it, and takes an answer that is lost for a refusal."""

    async def _give_back(self, lease: Lease) -> Any:
        try:
            if await self._call("GET", lease.key) != lease.token.encode():
                return False
            return await self._call("EVAL", GIVE_BACK, 1, lease.key, lease.token)
        except NodeError:
            return False


class KeepsLessThanItClaims(SendsSet):
    """Gives keys a tenth less than the lease."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS * 9 // 10)


class WritesBackWhatItDrew(SendsSet):
    """Sets the counter of fences to what it drew once more, a second later."""

    hands_out_fences: ClassVar[bool] = True
    again: asyncio.Task[None] | None = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        fence = await self._call("INCR", f"{key}:fence")
        self.again = asyncio.create_task(self._write_back(key, fence))
        return replace(lease, fence=fence)

    async def _write_back(self, key: str, fence: int) -> None:
        await asyncio.sleep(1)
        await self._call("SET", f"{key}:fence", fence)
