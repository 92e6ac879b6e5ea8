"""Common parts of the locks on a service: grants with fences, and retries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, NotAcquired
from lab.locks.lease_options import NS_PER_MS, NS_PER_S, LeaseOptions
from lab.locks.leased import InOnePlace
from lab.locks.single import TAKEN, NotSent


@dataclass(frozen=True, slots=True)
class ServedOptions(LeaseOptions):
    """``LeaseOptions`` with longer time-outs and more tries.

    A service may be electing a leader, and it ends a lease some hundred milliseconds late.
    """

    node_timeout_ns: int = 2_000 * NS_PER_MS
    retry_count: int = 100
    retry_delay_ns: int = 100 * NS_PER_MS
    retry_jitter_ns: int = 50 * NS_PER_MS
    max_extensions: int = 1_000_000


class Served(InOnePlace[ServedOptions]):
    """A lock whose state is in one service."""

    hands_out_fences: ClassVar[bool] = True
    OPTIONS = ServedOptions

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try up to ``retry_count`` times, for ``acquire_timeout`` at most.

        Raises:
            NotAcquired: another client held it, or the service could not be reached.
            Indeterminate: a request was not answered and could not be undone.
        """
        clock_ns = self._surroundings.clock_ns
        give_up_ns = clock_ns() + self.options.acquire_timeout_ns
        tokens: list[str] = []
        reason, refused = TAKEN, True
        for attempt in range(self.options.retry_count):
            pause_ns = self.options.pause_ns(self._surroundings.random) if attempt else 0
            if attempt and clock_ns() + pause_ns >= give_up_ns:
                break
            await asyncio.sleep(pause_ns / NS_PER_S)
            tokens.append(self._surroundings.new_token())
            start_ns = clock_ns()
            try:
                fence = await self._take(key, tokens[-1], ttl_ns)
            except NotSent as error:
                reason, refused = str(error), False
                continue
            except (NodeError, asyncio.CancelledError) as error:
                taken_back = await self._undo(key, tokens[-1])
                if isinstance(error, asyncio.CancelledError):
                    raise
                if not taken_back:
                    raise Indeterminate(f"{key}: {error}") from error
                reason, refused = str(error), False
                continue
            deadline_ns = start_ns + ttl_ns - self.options.drift_ns(ttl_ns)
            if fence is not None and clock_ns() < deadline_ns:
                return Lease(key, tokens[-1], ttl_ns, deadline_ns, fence=fence, attempt_ns=start_ns)
            if fence is not None:
                await self._undo(key, tokens[-1])
                reason, refused = "it was granted, but too late: no time was left", False
        raise NotAcquired(f"{key}: {reason} ({len(tokens)} tries)", tokens, refused_by=int(refused))

    async def open(self) -> None:
        """Connect, if a server can be reached; otherwise again at the first request."""
        raise NotImplementedError

    async def close(self) -> None:
        """Disconnect."""
        raise NotImplementedError

    async def _take(self, key: str, token: str, ttl_ns: int) -> int | None:
        """Try once; return the fence, None if another client holds it.

        Raises:
            NotSent: it certainly had no effect.
            NodeError: it is unknown whether it had an effect.
        """
        raise NotImplementedError

    async def _undo(self, key: str, token: str) -> bool:
        """Undo what may have been done; return whether it certainly has no effect any more."""
        raise NotImplementedError
