"""A lock whose unexpected exceptions are noted: an error of its own is a finding, and no end of the trial."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lab.client_protocol import Mode
from lab.errors import UnknownOutcome
from lab.locks.base import Indeterminate, Lease, Lock, LockError, is_believed
from lab.locks.failure import awaitable, beginning_of, described, place_of
from lab.store import StoreClient, StoreError

T = TypeVar("T")
AT_LEAST_S: Final = 1e-6
"""How long an attempt that fails takes at least: one that takes no time is no demand for the checker."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that no lock may raise: from which operation of which client, and where it came from."""

    client: str
    f: str
    time_ns: int
    error: str
    where: str

    @property
    def sentence(self) -> str:
        """What happened, in words."""
        return f"{self.client}'s {self.f} failed in a way of its own: {self.error} ({self.where})"


CANCELLED: Final = "cancelled"
"""How the error of an acquire ends that was cancelled."""


def guard_announcing(store: StoreClient) -> None:
    """Let the store answer an acquire that is cancelled while it announces its token: nobody knows."""
    announce = store.announce

    async def guarded(key: str, token: str) -> None:
        try:
            await announce(key, token)
        except asyncio.CancelledError as error:
            raise StoreError(CANCELLED) from error

    store.announce = guarded  # type: ignore[method-assign]


class Guarded:
    """The lock, with every exception that is no ``LockError`` noted and taken for an unknown outcome.

    Args:
        lock: whose operations these are.
        client: its client.
        now_ns: the history's clock.
        failures: where exceptions are noted.
    """

    def __init__(self, lock: Lock, client: str, now_ns: Callable[[], int], failures: list[Failure]) -> None:
        self._lock, self._client, self._now_ns, self._failures = lock, client, now_ns, failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lock, name)

    async def open(self) -> None:
        """As the lock does."""
        await self._guarded("open", self._lock.open())

    async def acquire(self, key: str, ttl_ns: int, *mode: Mode) -> Lease:
        """As the lock does; whether one that is cancelled was granted is unknown. Raises ``LockError``."""
        called_ns = self._now_ns()
        try:
            asked = self._lock.acquire(key, ttl_ns, *mode)
            return self._checked("acquire", await self._guarded("acquire", asked))
        except asyncio.CancelledError as error:
            raise Indeterminate(CANCELLED) from error
        except LockError:
            if self._now_ns() == called_ns:
                await asyncio.sleep(AT_LEAST_S)
            raise

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """As the lock does. Raises ``LockError``."""
        return self._checked("extend", await self._guarded("extend", self._lock.extend(lease, ttl_ns)))

    async def release(self, lease: Lease) -> None:
        """As the lock does. Raises ``LockError``."""
        await self._guarded("release", self._lock.release(lease))

    def believes(self, lease: Lease) -> bool:
        """As the lock does; False if it raises, or answers anything but True or False."""
        try:
            return is_believed(self._lock, lease)
        except UnknownOutcome:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            self._note("held", error)
            return False

    async def _guarded(self, f: str, work: Awaitable[T]) -> T:
        try:
            return await awaitable(f, work)
        except (LockError, UnknownOutcome):
            raise
        except Exception as error:
            self._note(f, error)
            raise Indeterminate(described(error)) from error

    def _checked(self, f: str, lease: Lease) -> Lease:
        """The lease, which must be one."""
        if not isinstance(lease, Lease):
            self._note(f, TypeError(f"{f} returned {lease!r}, which is no Lease"))
            raise Indeterminate(f"{f} returned {lease!r}")
        return lease

    def _note(self, f: str, error: Exception) -> None:
        where = place_of(error, type(self._lock)) or beginning_of(self._lock, f)
        self._failures.append(Failure(self._client, f, self._now_ns(), described(error), where))
