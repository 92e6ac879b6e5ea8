"""The operations of a client: acquire, extend, read, check, write, release; each is recorded.

The worker is the same on all substrates; the process around it is in ``__main__``.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from lab.client.log import Recording
from lab.client.points import Points
from lab.client_protocol import Answer, Command, Mode, Outcome
from lab.errors import LockFailed
from lab.locks.base import (
    Belief,
    Indeterminate,
    Lease,
    LeaseLost,
    Lock,
    LockError,
    NotAcquired,
    asking,
    is_believed,
)
from lab.locks.failure import awaitable, failing_in
from lab.store import ReadRejected, StoreClient, StoreError

CANCELLED: Final = "cancelled"
"""The error of an operation that was cancelled: its outcome is not known."""
_WARM_UP_RELEASES: Final = 3
"""How often a warm-up releases while the outcome is not known."""
T = TypeVar("T")


class Worker:
    """One task of a client with one key: one operation at a time, with the lease that it took last.

    One that takes the lock again before it gives it back has several leases; a release gives back the last of
    them, and from then on it has the one before.

    Args:
        recording: where its operations are recorded.
        lock: the lock under test.
        store: the resource that the lock protects.
        key: the name of both.
        ttl_ns: the duration of each lease.
        check_before_write: whether ``work`` checks the lease just before it writes.
        points: its pause points; share them with the lock's ``Surroundings``.
        grants_from: the number of the last grant of an earlier worker of this client.
    """

    def __init__(
        self,
        recording: Recording,
        lock: Lock,
        store: StoreClient,
        *,
        key: str,
        ttl_ns: int,
        check_before_write: bool,
        points: Points | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        grants_from: int = 0,
    ) -> None:
        self._recording = recording
        self._lock = lock
        self._store = store
        self._key = key
        self._ttl_ns = ttl_ns
        self._check_before_write = check_before_write
        self._clock_ns = clock_ns
        self._lease: Lease | None = None
        self._grant_id: str | None = None
        self._outer: list[tuple[Lease, str | None]] = []
        """The leases that it took before the last one and has not given back, the oldest first."""
        self._within: Lease | None = None
        """The lease in which it took the last one, of which the lock does not say that it lasts longer."""
        self._version_read: int | None = None
        self._grants = grants_from
        self._writes = 0
        self._announces_token = bool(getattr(lock, "announces_token", False))
        self._asks = asking(lock)
        self._points = points or Points()
        self._work: asyncio.Task[Answer] | None = None
        self._released: tuple[Lease, str | None] | None = None
        self._checked = False
        self._mode: Mode = "write"
        """How it asks for a read-write lock, and has asked for the lease that it holds."""
        self._claimed_ns: int | None = None
        self._under_way: tuple[str, Mapping[str, Any]] = "", {}
        self._cancelled: asyncio.Task[None] | None = None
        self._reported: str | None = None
        """The grant whose loss was recorded last."""
        if (reports := getattr(lock, "on_lost", None)) is not None:
            reports.append(self._note_loss)

    def use(self, key: str) -> None:
        """Use another key from now on; not while a lease is held."""
        self._key = key

    def ask_for(self, ttl_ns: int) -> None:
        """Ask for leases, and extensions, of this duration from now on."""
        self._ttl_ns = ttl_ns

    @property
    def grant(self) -> tuple[Lease | None, str | None]:
        """The lease that is held, and the id of its grant."""
        return self._lease, self._grant_id

    @property
    def idle(self) -> bool:
        """Whether it holds no lease, and no work waits at a pause point."""
        return self._lease is None and (self._work is None or self._work.done())

    def take_up(self, lease: Lease, grant_id: str | None) -> None:
        """Act as the holder of a lease again, for a client that releases it twice."""
        self._lease, self._grant_id = lease, grant_id

    async def warm_up(self, key: str) -> None:
        """Acquire and release a lock on a key of this client's own, unrecorded.

        So connections are open, and scripts loaded, before the first step. A refusal is left to the steps. A
        release of unknown outcome is asked for again: on a busy machine its time-out alone may have ended it.

        Raises:
            LockFailed: the lock raised something else, or does not know whether it holds the free lock.
        """
        try:
            lease = await self._ask("acquire", self._lock.acquire, *self._asked(key))
            for _ in range(_WARM_UP_RELEASES - 1):
                with contextlib.suppress(Indeterminate):
                    await self._ask("release", self._lock.release, lease)
                    return
            await self._ask("release", self._lock.release, lease)
        except (NotAcquired, LeaseLost):
            return
        except LockError as error:
            raise LockFailed(
                f"{self._recording.client}'s first acquire and release, of the free key {key!r} and without "
                f"faults, ended with {type(error).__name__}: {error}",
                expected="a lease, and its release",
            ) from error

    async def run(self, command: Command) -> Answer:
        """Carry out one command."""
        if command.verb in ("acquire", "work"):
            self._mode = command.mode or "write"
        if command.verb in ("work", "continue"):
            return await self._run_work(command)
        if command.again and self._released is not None:
            self._keep_outer()
            self.take_up(*self._released)
        if command.verb != "acquire" and self._lease is None:
            return Answer(command.id, Outcome.SKIPPED, "holds no lease")
        if command.if_checked and not self._checked:
            return Answer(command.id, Outcome.SKIPPED, "does not write without a successful check")
        if command.verb == "write" and self._mode == "read":
            return Answer(command.id, Outcome.SKIPPED, "holds the lock as a reader")
        usual_ns, self._ttl_ns = self._ttl_ns, command.ttl_ns or self._ttl_ns
        self._claimed_ns = None
        try:
            outcome, text = await _OPERATIONS[command.verb](self)
        except asyncio.CancelledError:
            if self._cancelled is None:
                raise
            f, about = self._under_way
            self._recording.info(f, **about, error=CANCELLED)
            outcome, text = Outcome.INFO, "was cancelled, and what came of it is not known"
        finally:
            self._ttl_ns = usual_ns
            if self._cancelled is not None:
                self._cancelled.uncancel()
                self._cancelled = None
        if command.verb in ("read", "check"):
            self._checked = outcome is Outcome.OK
        return Answer(command.id, outcome, text, self._claimed_ns)

    def cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel the operation that ``run`` carries out in this task; its outcome is recorded as unknown."""
        self._cancelled = task
        task.cancel()

    def _invoke(self, f: str, about: Mapping[str, Any]) -> None:
        self._under_way = f, about
        self._recording.invoke(f, **about)

    async def _run_work(self, command: Command) -> Answer:
        if command.verb == "continue" and (self._work is None or self._work.done()):
            return Answer(command.id, Outcome.SKIPPED, "has nothing to continue")
        held_at = self._points.arm(command.until)
        if command.verb == "work" or self._work is None:
            self._work = asyncio.create_task(self.critical_section())
        else:
            self._points.go_on()
        ends: set[asyncio.Future[Answer] | asyncio.Future[str]] = {self._work, held_at}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if held_at.done():
            return Answer(command.id, Outcome.HELD, held_at.result())
        self._points.disarm()
        answer = await self._work
        return Answer(command.id, answer.outcome, answer.text)

    async def critical_section(self, compute: Callable[[], Awaitable[None]] | None = None) -> Answer:
        """Acquire, read, ``compute``, check, write, release."""
        outcome, text = await self._acquire()
        if outcome is not Outcome.OK:
            return Answer(0, outcome, text)
        await self._points.at("acquired")
        outcome, text = await self._read()
        if outcome is Outcome.OK:
            await self._points.at("read")
            if compute is not None:
                await compute()
            if self._check_before_write:
                outcome, text = await self._check()
        if outcome is Outcome.OK:
            await self._points.at("before-write")
            outcome, text = await self._write()
            await self._points.at("written")
        await self._points.at("before-release")
        released, release_text = await self._release()
        worst = outcome if outcome is not Outcome.OK else released
        return Answer(0, worst, "; ".join(filter(None, (text, release_text))))

    async def _acquire(self) -> tuple[Outcome, str]:
        self._grants += 1
        grant_id = f"{self._recording.client}-{self._grants}"
        about = {"key": self._key, "grant_id": grant_id, "ttl_ns": self._ttl_ns}
        _, _, *mode = asked = self._asked(self._key)
        about |= {"value": mode[0]} if mode else {}
        self._invoke("acquire", about)
        try:
            lease = await self._ask("acquire", self._lock.acquire, *asked)
            if self._announces_token:
                await self._announce(lease)
        except NotAcquired as error:
            token = error.tokens[-1] if error.tokens else None
            self._recording.fail(
                "acquire", **about, error=str(error), token=token, refused_by=error.refused_by
            )
            return Outcome.FAIL, f"is refused: {error}"
        except LockError as error:
            self._recording.info("acquire", **about, error=str(error))
            return Outcome.INFO, f"does not know whether it holds the lock: {error}"
        claim = lease.claim(self._clock_ns())
        self._claimed_ns = claim["claimed_ns"]
        about["ttl_ns"] = self._granted_ns(lease, claim)
        self._recording.ok("acquire", **about, token=lease.token or None, fence=lease.fence, **claim)
        if self._asks is not None and self._asks.renews:
            about.pop("value", None)
            self._recording.unattended(f"renewal of {grant_id}", "extend", **about)
        if claim["claimed_ns"] is not None or self._lease is None or not self._may_believe(self._lease):
            self._within = None
        else:
            self._within = self._within or self._lease
        self._keep_outer()
        self._lease, self._grant_id, self._version_read = lease, grant_id, None
        self._checked = False
        self._note_loss()  # it may have been reported before the grant itself was
        return Outcome.OK, f"holds the lock{_for_how_long(claim)}"

    def _asked(self, key: str) -> tuple[Any, ...]:
        """What an acquire is given; a lock that readers share is told whether this is one."""
        mode = (self._mode,) if getattr(self._lock, "read_write", False) else ()
        return key, self._ttl_ns, *mode

    def _note_loss(self) -> None:
        """Record once that the library has reported the loss of the lease that is held, if it has."""
        is_lost = getattr(self._lock, "is_lost", None)
        if self._lease is None or self._grant_id == self._reported or is_lost is None:
            return
        if is_lost(self._lease):
            self._reported = self._grant_id
            self._recording.lost(**self._about(self._lease))

    async def _announce(self, lease: Lease) -> None:
        """Announce the token to the store; the grant counts only if the lease is still valid after that.

        Raises:
            NotAcquired: the lease was over when the store had answered.
            Indeterminate: the store did not answer.
        """
        await self._points.at("before-announce")
        try:
            await self._store.announce(self._key, lease.token)
        except StoreError as error:
            raise Indeterminate(f"announce: {error}") from error
        if not self._believes(lease):
            with contextlib.suppress(LockError):
                await self._lock.release(lease)
            why = "granted and announced, but no time was left after that"
            raise NotAcquired(why, [lease.token], refused_by=0)

    async def _extend(self) -> tuple[Outcome, str]:
        lease = self._held()
        about = {**self._about(lease), "ttl_ns": self._ttl_ns}
        self._invoke("extend", about)
        try:
            lease = await self._ask("extend", self._lock.extend, lease, self._ttl_ns)
        except LeaseLost as error:
            believes = self._believes(lease)
            record = self._recording.fail if error.no_effect else self._recording.info
            record("extend", **about, error=str(error), value="yes" if believes else "no")
            # A lock that can be asked decides by itself whether a refused extension has ended its lease.
            if not believes and (self._asks is None or (await self._check())[0] is not Outcome.OK):
                self._lease = None
                self._outer.clear()
            return Outcome.FAIL if error.no_effect else Outcome.INFO, f"cannot extend: {error}"
        except Indeterminate as error:
            self._recording.info("extend", **about, error=str(error))
            return Outcome.INFO, f"does not know whether the lease is extended: {error}"
        claim = lease.claim(self._clock_ns())
        self._claimed_ns = claim["claimed_ns"]
        granted_ns = self._granted_ns(lease, claim)
        self._recording.ok("extend", **{**about, "token": lease.token or None, "ttl_ns": granted_ns}, **claim)
        self._lease, self._within = lease, None
        return Outcome.OK, f"extended the lease{_for_how_long(claim)}"

    async def _ask(self, f: str, method: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Call a method of the lock. Raises ``LockError``, or ``LockFailed``: it failed otherwise."""
        with failing_in(f, self._recording.client, type(self._lock)):
            return await awaitable(f, method(*arguments))

    def _believes(self, lease: Lease) -> bool:
        with failing_in("believes", self._recording.client, type(self._lock)):
            return is_believed(self._lock, lease)

    def _may_believe(self, lease: Lease) -> bool:
        """Whether the lock believes in a lease, and in the one that it is a part of."""
        return self._believes(lease) and (self._within is None or self._believes(self._within))

    def _granted_ns(self, lease: Lease, claim: dict[str, int | None]) -> int:
        """How long the lease lasts: less than was asked for if the lock says so and claims no more."""
        return min(self._ttl_ns, max(lease.ttl_ns, claim["claimed_ns"] or 0))

    async def _check(self) -> tuple[Outcome, str]:
        lease = self._held()
        about = {"key": self._key, "grant_id": self._grant_id}
        self._invoke("held", about)
        try:
            if self._asks:
                belief = await self._ask("held", self._asks.held, lease)
            else:
                belief = Belief(self._may_believe(lease))
        except Indeterminate as error:
            self._recording.info("held", **about, error=str(error))
            return Outcome.INFO, f"does not know whether it still holds the lock: {error}"
        claim = {} if belief.claimed_ns is None else {"claimed_ns": belief.claimed_ns}
        self._recording.ok("held", **about, value="yes" if belief.held else "no", **claim)
        if belief.held:
            return Outcome.OK, "believes it still holds the lock"
        return Outcome.FAIL, "sees that its lease is over"

    async def _read(self) -> tuple[Outcome, str]:
        about = {"key": self._key, "grant_id": self._grant_id}
        self._invoke("read", about)
        try:
            stored = await self._store.read(self._key, fence=self._held().fence)
        except ReadRejected as error:
            self._recording.fail("read", **about, error=str(error))
            return Outcome.FAIL, f"had its read rejected: {error}"
        except StoreError as error:
            self._recording.info("read", **about, error=str(error))
            return Outcome.INFO, f"got no answer to its read: {error}"
        self._recording.ok("read", **about, version_read=stored.version, value=stored.value)
        self._version_read = stored.version
        return Outcome.OK, f"read version {stored.version}"

    async def _write(self) -> tuple[Outcome, str]:
        lease = self._held()
        grant_id = self._grant_id or ""
        self._writes += 1
        value = f"{self._recording.client}:{self._writes}"
        about = {
            "key": self._key,
            "grant_id": grant_id,
            "token": lease.token or None,
            "fence": lease.fence,
            "value": value,
            "version_read": self._version_read,
        }
        self._invoke("write", about)
        try:
            result = await self._store.write(
                self._key,
                value,
                grant_id=grant_id,
                fence=lease.fence,
                version_read=self._version_read,
                token=lease.token if self._announces_token else None,
            )
        except StoreError as error:
            self._recording.info("write", **about, error=str(error))
            return Outcome.INFO, f"does not know whether its write counted: {error}"
        if not result.accepted:
            self._recording.fail("write", **about, error=result.reason)
            return Outcome.FAIL, f"had its write rejected: {result.reason}"
        self._recording.ok("write", **about, version_written=result.version)
        return Outcome.OK, f"wrote version {result.version}, based on version {self._version_read}"

    async def _release(self) -> tuple[Outcome, str]:
        lease = self._held()
        about = self._about(lease)
        self._lease, self._released = None, (lease, self._grant_id)
        self._invoke("release", about)
        try:
            return await self._give_back(lease, about)
        finally:
            if self._outer:  # what was read under the inner lease counts for no write under this one
                (self._lease, self._grant_id), self._version_read = self._outer.pop(), None
            if not self._outer:
                self._within = None

    async def _give_back(self, lease: Lease, about: Mapping[str, Any]) -> tuple[Outcome, str]:
        try:
            await self._ask("release", self._lock.release, lease)
        except LeaseLost as error:
            self._recording.fail("release", **about, error="not-held")
            return Outcome.FAIL, f"releases a lock it did not hold any more ({error})"
        except Indeterminate as error:
            self._recording.info("release", **about, error=str(error))
            return Outcome.INFO, f"does not know whether the lock is released: {error}"
        self._recording.ok("release", **about)
        return Outcome.OK, "released the lock"

    def _keep_outer(self) -> None:
        """Keep the lease that is held, for when the one that is taken up now was given back."""
        if self._lease is not None:
            self._outer.append((self._lease, self._grant_id))

    def _held(self) -> Lease:
        if self._lease is None:
            raise LeaseLost("holds no lease")
        return self._lease

    def _about(self, lease: Lease) -> dict[str, str | int | None]:
        return {"key": self._key, "grant_id": self._grant_id, "token": lease.token or None}


_OPERATIONS: Final[Mapping[str, Callable[[Worker], Awaitable[tuple[Outcome, str]]]]] = {
    "acquire": Worker._acquire,
    "extend": Worker._extend,
    "read": Worker._read,
    "check": Worker._check,
    "write": Worker._write,
    "release": Worker._release,
}


def _for_how_long(claim: Mapping[str, int | None]) -> str:
    left_ns = claim["claimed_ns"]
    return "" if left_ns is None else f", valid for {left_ns / 1e9:.3f} s"
