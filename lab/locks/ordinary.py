"""An ordinary async lock as a lock under test, in its client's loop; nothing is added to what it does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from lab.addresses import SENTINEL_SERVICE, Address
from lab.client_protocol import Mode
from lab.drivers import ordinary
from lab.drivers.messages import ONE_OBJECT
from lab.drivers.shapes import Shape
from lab.locks.base import (
    Belief,
    Indeterminate,
    Lease,
    LeaseLost,
    NotAcquired,
    OptionError,
    Options,
    Surroundings,
    usual_margin_ns,
)
from lab.locks.lease_options import NS_PER_MS, NS_PER_S


@dataclass(frozen=True, slots=True)
class OrdinaryLease(Lease):
    """A lease of which the lock claims nothing.

    ``deadline_ns`` is a TTL after the call, less the usual margin: when a careful client stops.
    """

    held: ordinary.Held | None = None

    def claim(self, now_ns: int) -> dict[str, int | None]:
        """Nothing is claimed."""
        return {"claimed_ns": None}


class OrdinaryLock:
    """One client's ordinary lock. Its subclasses, made by ``ordinary_class``, have its shape."""

    name: ClassVar[str] = "ordinary"
    hands_out_fences: ClassVar[bool] = False
    extends: ClassVar[bool] = False
    read_write: ClassVar[bool] = False
    client_repeats: ClassVar[bool] = True
    """Whether its client repeats commands by itself, for a time that nobody states."""
    shape: ClassVar[Shape]
    node_keys: ClassVar[str] = "{key}"
    """Under which names its keys lie on the nodes."""

    def __init__(self, nodes: Sequence[Address], options: Options, around: Surroundings, owner: str) -> None:
        self._nodes = [(node.host, node.port) for node in nodes]
        self._sentinels = [(sentinel.host, sentinel.port) for sentinel in around.sentinels]
        self._options, self._owner, self._clock_ns = options, owner, around.clock_ns
        self._session: ordinary.Session | None = None

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> OrdinaryLock:
        """Make the lock. Raises ``OptionError``: an option that it does not take, or of another type."""
        taken = cls.shape.options
        for name, value in options.items():
            if name in (*ordinary.OPTIONS_OF_CLIENTS, ONE_OBJECT):
                continue
            if name not in taken:
                choices = (*taken, *ordinary.OPTIONS_OF_CLIENTS)
                raise OptionError(name, "an unknown option", "one of " + ", ".join(choices), choices)
            if isinstance(value, str) != isinstance(taken[name], str):
                raise OptionError(name, repr(value), f"a value such as {taken[name]!r}")
        return cls(nodes, options, surroundings, owner)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """What a careful client leaves of a lease of which nothing is claimed."""
        return usual_margin_ns(ttl_ns)

    @property
    def ttl_step_ns(self) -> int:
        """Leases are multiples of this."""
        return self.shape.lasts_ns or (NS_PER_S if self.shape.in_seconds else NS_PER_MS)

    def node_key(self, key: str) -> str:
        """Under which name the key lies on the nodes."""
        return self.node_keys.replace("{key}", key)

    async def open(self) -> None:
        """Make its clients, which connect with their first command."""
        self._session = ordinary.Session(
            self.shape, self._nodes, self._options, self._owner, self._sentinels, SENTINEL_SERVICE
        )

    async def close(self) -> None:
        """Close its clients."""
        if self._session is not None:
            await self._session.close()

    async def acquire(self, key: str, ttl_ns: int, mode: Mode = "write") -> OrdinaryLease:
        """Take it. Raises ``NotAcquired`` or ``Indeterminate``."""
        called_ns = self._clock_ns()
        try:
            held = await self._used().acquire(key, ttl_ns // NS_PER_MS, mode)
        except ordinary.Refused as no:
            raise NotAcquired(str(no)) from no
        except Exception as error:
            raise _unknown(error) from error
        deadline_ns = called_ns + ttl_ns - usual_margin_ns(ttl_ns)
        return OrdinaryLease(key, held.token, ttl_ns, deadline_ns, held.fence, held=held)

    async def extend(self, lease: Lease, ttl_ns: int) -> OrdinaryLease:
        """Extend a lease. Raises ``LeaseLost`` or ``Indeterminate``."""
        assert isinstance(lease, OrdinaryLease)
        assert lease.held is not None
        called_ns = self._clock_ns()
        if lease.held.shape.extend is None:
            raise LeaseLost("this lock does not extend leases", no_effect=True)
        try:
            await self._used().extend(lease.held, ttl_ns // NS_PER_MS)
        except ordinary.Refused as no:
            raise LeaseLost(str(no), no_effect=True) from no
        except Exception as error:
            raise _unknown(error) from error
        deadline_ns = called_ns + ttl_ns - usual_margin_ns(ttl_ns)
        return OrdinaryLease(
            lease.key,
            lease.token,
            ttl_ns,
            deadline_ns,
            lease.fence,
            lease.extensions + 1,
            held=lease.held,
        )

    async def release(self, lease: Lease) -> None:
        """Give it back. Raises ``LeaseLost`` or ``Indeterminate``."""
        assert isinstance(lease, OrdinaryLease)
        assert lease.held is not None
        try:
            await self._used().release(lease.held)
        except ordinary.Refused as no:
            raise LeaseLost(str(no)) from no
        except Exception as error:
            raise _unknown(error) from error

    def believes(self, lease: Lease) -> bool:
        """Whether its time is not over, or it renews itself."""
        return self.shape.renews or self._clock_ns() < lease.deadline_ns

    def _used(self) -> ordinary.Session:
        assert self._session is not None, "it was not opened"
        return self._session


class AskedLock(OrdinaryLock):
    """An ordinary lock that says itself whether a lease is held, or that renews its leases."""

    renews: ClassVar[bool] = False

    async def held(self, lease: Lease) -> Belief:
        """What it answers; ``believes`` decides for one that cannot be asked. Raises ``Indeterminate``."""
        assert isinstance(lease, OrdinaryLease)
        assert lease.held is not None
        if not lease.held.shape.owned:
            return Belief(self.believes(lease))
        try:
            return Belief(await self._used().owned(lease.held))
        except ordinary.Refused:
            return Belief(held=False)
        except Exception as error:
            raise _unknown(error) from error

    async def wall_clock_ns(self) -> int:
        """The client's own."""
        return time.time_ns()


def ordinary_class(name: str, shape: Shape) -> type[OrdinaryLock]:
    """The class of an ordinary async lock, in whose module it is, so that its code is found there."""
    if name in _CLASSES and _CLASSES[name].shape is shape:
        return _CLASSES[name]
    place = getattr(shape.target, "__module__", None) or name.partition(":")[0]
    parts: dict[str, Any] = {
        "name": name.partition(":")[2],
        "shape": shape,
        "node_keys": shape.node_key,
        "extends": shape.extend is not None,
        "hands_out_fences": bool(shape.fence),
        "read_write": shape.read_write,
        "__module__": place,
    }
    asked = bool(shape.owned) or shape.renews
    if asked:
        parts["renews"] = shape.renews
    _CLASSES[name] = type("Ordinary", (AskedLock if asked else OrdinaryLock,), parts)
    return _CLASSES[name]


_CLASSES: Final[dict[str, type[OrdinaryLock]]] = {}


def _unknown(error: Exception) -> Exception:
    """The error as the lab knows it; a mistake of the lock's code stays what it is."""
    if isinstance(error, ordinary.MISTAKES):
        return error
    return Indeterminate(f"{type(error).__name__}: {error}")
