"""What the locks on a service have in common: grants with fences, taken by trying again and again."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from lab.addresses import Address
from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Options, Surroundings
from lab.locks.lease_options import NS_PER_MS, NS_PER_S, LeaseOptions
from lab.locks.options import read_options
from lab.locks.single import TAKEN, NotSent


@dataclass(frozen=True, slots=True)
class ServedOptions(LeaseOptions):
    """``LeaseOptions``, with the patience that a service needs.

    It may be choosing a leader, and it notices the end of a lease some hundred milliseconds late.
    """

    node_timeout_ns: int = 2_000 * NS_PER_MS
    retry_count: int = 100
    retry_delay_ns: int = 100 * NS_PER_MS
    retry_jitter_ns: int = 50 * NS_PER_MS
    max_extensions: int = 1_000_000


class Served(ABC):
    """A lock whose state lies in one service; what it is made of there is up to the class.

    Args:
        nodes: its servers, as this client reaches them.
        options: see ``ServedOptions``.
        surroundings: clock, entropy and randomness; the system's by default.
    """

    hands_out_fences: ClassVar[bool] = True

    def __init__(
        self,
        nodes: Sequence[str | Address],
        options: ServedOptions | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._nodes = [node if isinstance(node, Address) else Address.parse(node) for node in nodes]
        self.options = options or ServedOptions()
        self._surroundings = surroundings or Surroundings()
        self._timeout_s = self.options.node_timeout_ns / NS_PER_S

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        """Make the lock from a scenario's options. Raises ``OptionError``."""
        return cls(nodes, read_options(ServedOptions, options), surroundings)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """Return the drift margin, in nanoseconds."""
        return read_options(ServedOptions, options).drift_ns(ttl_ns)

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try up to ``retry_count`` times, for ``acquire_timeout`` at most.

        Raises:
            NotAcquired: somebody else held it, or the service could not be reached.
            Indeterminate: a request went out that was never answered, and could not be taken back.
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

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Make the lease last for ``ttl_ns`` from now on, inside the remaining validity.

        Raises:
            LeaseLost: too late, or it was gone. Only an answer that came too late leaves it open whether it
                was extended.
            Indeterminate: no answer came; the earlier deadline still stands.
        """
        clock_ns = self._surroundings.clock_ns
        start_ns = clock_ns()
        self.options.check_extendable(lease, start_ns)
        try:
            extended = await self._prolong(lease, ttl_ns)
        except NodeError as error:
            raise Indeterminate(f"{lease.key}: {error}") from error
        if not extended:
            raise LeaseLost(f"{lease.key}: not held", no_effect=True)
        return self.options.extended(lease, ttl_ns, start_ns, clock_ns())

    async def release(self, lease: Lease) -> None:
        """Give it back.

        Raises:
            LeaseLost: it was not held any more.
            Indeterminate: no answer came.
        """
        try:
            released = await self._give_back(lease)
        except NodeError as error:
            raise Indeterminate(f"{lease.key}: {error}") from error
        if not released:
            raise LeaseLost("not-held")

    def believes(self, lease: Lease) -> bool:
        """Tell whether the lease's time is not over yet, by the monotonic clock."""
        return self._surroundings.clock_ns() < lease.deadline_ns

    @abstractmethod
    async def open(self) -> None:
        """Connect, if somebody can be reached; otherwise that is tried again when it is needed."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""

    @abstractmethod
    async def _take(self, key: str, token: str, ttl_ns: int) -> int | None:
        """Try once; return the fence, None if somebody else holds it.

        Raises:
            NotSent: it surely had no effect.
            NodeError: nobody knows.
        """

    @abstractmethod
    async def _undo(self, key: str, token: str) -> bool:
        """Take back what may have been done; whether it is certain that it has no effect any more."""

    @abstractmethod
    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        """Extend it; False: it was gone. Raises ``NodeError``."""

    @abstractmethod
    async def _give_back(self, lease: Lease) -> bool:
        """Release it; False: it was gone. Raises ``NodeError``."""
