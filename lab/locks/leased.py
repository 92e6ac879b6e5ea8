"""Common parts of the lab's locks: options, surroundings, connections, and leases by the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from lab.addresses import Address
from lab.channel import NodeError, connect_all
from lab.locks.base import Indeterminate, Lease, LeaseLost, Options, Surroundings
from lab.locks.lease_options import NS_PER_S, LeaseOptions
from lab.locks.options import read_options


class _Tunable(Protocol):
    @property
    def node_timeout_ns(self) -> int: ...

    def drift_ns(self, ttl_ns: int) -> int: ...


O = TypeVar("O", bound=_Tunable)  # noqa: E741 - options
L = TypeVar("L", bound=LeaseOptions)


class Leased(Generic[O]):
    """A lock whose leases end by the client's monotonic clock.

    Args:
        nodes: the nodes, as ``"host:port"`` or ``Address``.
        options: see the class's ``OPTIONS``; its defaults if None.
        surroundings: clock, entropy and randomness; the system's by default.
        owner: the name of this client's connections on the nodes.
    """

    name: ClassVar[str]
    hands_out_fences: ClassVar[bool] = False
    OPTIONS: ClassVar[type[Any]]

    def __init__(
        self,
        nodes: Sequence[str | Address],
        options: O | None = None,
        surroundings: Surroundings | None = None,
        owner: str | None = None,
    ) -> None:
        if not nodes:
            raise ValueError(f"{self.name} needs at least one node")
        self._nodes = [node if isinstance(node, Address) else Address.parse(node) for node in nodes]
        self.options: O = options or self.OPTIONS()
        self._surroundings = surroundings or Surroundings()
        self._timeout_s = self.options.node_timeout_ns / NS_PER_S

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        """Make the lock from a scenario's options. Raises ``OptionError``."""
        return cls(nodes, read_options(cls.OPTIONS, options), surroundings, owner)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """The drift margin, in nanoseconds. Raises ``OptionError``."""
        tuned: _Tunable = read_options(cls.OPTIONS, options)
        return tuned.drift_ns(ttl_ns)

    def believes(self, lease: Lease) -> bool:
        """Whether the lease's time is not over yet, by the monotonic clock."""
        return self._surroundings.clock_ns() < lease.deadline_ns


class OnRedis(Leased[O]):
    """A lock with a connection to each of ``nodes_used`` nodes, all if that is None."""

    nodes_used: ClassVar[int | None] = None

    def __init__(
        self,
        nodes: Sequence[str | Address],
        options: O | None = None,
        surroundings: Surroundings | None = None,
        owner: str | None = None,
    ) -> None:
        super().__init__(nodes, options, surroundings, owner)
        self._channels = [
            self._surroundings.channel(
                node,
                connect_timeout_s=self._timeout_s,
                stale_after_s=self._stale_after_s(),
                client_name=owner,
            )
            for node in self._nodes[: self.nodes_used]
        ]

    def _stale_after_s(self) -> float:
        """After how many seconds without a reply a connection is closed."""
        return max(1.0, 10 * self._timeout_s)

    async def open(self) -> None:
        """Connect to every node that can be reached; the others are tried again when they are needed."""
        await connect_all(self._channels)

    async def close(self) -> None:
        """Disconnect."""
        await asyncio.gather(*(channel.close() for channel in self._channels))


class InOnePlace(Leased[L]):
    """A lock whose state is in one place, which ``_prolong`` and ``_give_back`` ask."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Make the lease last for ``ttl_ns`` from now on, inside the remaining validity.

        Raises:
            LeaseLost: too late, too often, or it was gone. If the reply came too late, it may have been
                extended.
            Indeterminate: no reply; the earlier deadline remains.
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
        """Release it.

        Raises:
            LeaseLost: it was no longer held.
            Indeterminate: no reply.
        """
        try:
            released = await self._give_back(lease)
        except NodeError as error:
            raise Indeterminate(f"{lease.key}: {error}") from error
        if not released:
            raise LeaseLost("not-held")

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        """Extend it; False: it was gone. Raises ``NodeError``."""
        raise NotImplementedError

    async def _give_back(self, lease: Lease) -> bool:
        """Release it; False: it was gone. Raises ``NodeError``."""
        raise NotImplementedError
