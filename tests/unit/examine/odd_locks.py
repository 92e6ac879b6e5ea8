"""Locks that do what none of the lab's own does, for what a profile must show of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import LockNotOwnedError

from lab.addresses import Address
from lab.channel import NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, OptionError, Options, Surroundings
from lab.locks.lease_options import NS_PER_MS, NS_PER_S
from lab.locks.redlock import EXTEND_SCRIPT, UNLOCK_SCRIPT, Redlock, Vote
from lab.locks.single import NotSent, Single
from lab.redis_model.scripts import digest
from tests.locks_to_test.plain import Plain
from tests.locks_to_test.unusual import BreaksOff

UNLOCK_SHA, EXTEND_SHA = (digest(script.encode()).decode() for script in (UNLOCK_SCRIPT, EXTEND_SCRIPT))


class Blocking(Single):
    """Asks until the lock is free."""

    name: ClassVar[str] = "blocking"
    patience_ns: ClassVar[int | None] = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try again and again."""
        start_ns = self._surroundings.clock_ns()
        while True:
            try:
                return await super().acquire(key, ttl_ns)
            except NotAcquired:
                waited_ns = self._surroundings.clock_ns() - start_ns
                if self.patience_ns is not None and waited_ns > self.patience_ns:
                    raise
            await asyncio.sleep(0.05)


class Patient(Blocking):
    """Asks for eight seconds."""

    patience_ns: ClassVar[int | None] = 8 * NS_PER_S


class Watched(Single):
    """Renews its key by a task of its own until it releases it."""

    name: ClassVar[str] = "watched"
    _renewing: asyncio.Task[None] | None = None

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """And renew it from then on."""
        lease = await super().acquire(key, ttl_ns)
        self._renewing = asyncio.create_task(self._renew(lease))
        return lease

    async def _renew(self, lease: Lease) -> None:
        while True:
            await asyncio.sleep(lease.ttl_ns / 4 / NS_PER_S)
            with contextlib.suppress(NodeError):
                await self._prolong(lease, lease.ttl_ns)

    def believes(self, lease: Lease) -> bool:
        """As long as it renews it."""
        return self._renewing is not None and not self._renewing.done()

    async def release(self, lease: Lease) -> None:
        """And stop."""
        if self._renewing is not None:
            self._renewing.cancel()
        await super().release(lease)


class WholeSeconds(Single):
    """Knows seconds only."""

    name: ClassVar[str] = "whole-seconds"

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return await self._call("SET", key, token, "NX", "EX", ttl_ns // NS_PER_S) is not None


class ByDigest(Single):
    """Sends scripts by their digest, and whole where a node does not know it."""

    name: ClassVar[str] = "by-digest"

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        arguments = 1, lease.key, lease.token, ttl_ns // NS_PER_MS
        return bool(await self._script(EXTEND_SHA, EXTEND_SCRIPT, *arguments))

    async def _give_back(self, lease: Lease) -> bool:
        return bool(await self._script(UNLOCK_SHA, UNLOCK_SCRIPT, 1, lease.key, lease.token))

    async def _script(self, sha: str, script: str, *arguments: str | int) -> Any:
        try:
            return await self._call("EVALSHA", sha, *arguments)
        except NotSent:
            return await self._call("EVAL", script, *arguments)


class LoadedOnce(ByDigest):
    """Loads its scripts when it connects, and never again."""

    name: ClassVar[str] = "loaded-once"

    async def open(self) -> None:
        """Connect, and load them."""
        await super().open()
        for script in (UNLOCK_SCRIPT, EXTEND_SCRIPT):
            await self._call("SCRIPT", "LOAD", script)

    async def _script(self, sha: str, script: str, *arguments: str | int) -> Any:
        return await self._call("EVALSHA", sha, *arguments)


class ReadsThenDeletes(Single):
    """Compares in the client: a GET, then a DEL."""

    name: ClassVar[str] = "reads-then-deletes"

    async def _give_back(self, lease: Lease) -> bool:
        ours = (lease.token, lease.token.encode())
        if await self._call("GET", lease.key) not in ours:
            return False
        return bool(await self._call("DEL", lease.key))


class ByHost(Redlock):
    """Asks each address once, however often it is given."""

    name: ClassVar[str] = "by-host"

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> ByHost:
        """Of the nodes with one host and port, the first."""
        apart = {(node.host, node.port): node for node in reversed(nodes)}
        return super().build(list(reversed(apart.values())), options, surroundings, owner)


class TokenOfClient(Single):
    """One token for all that a client does."""

    name: ClassVar[str] = "token-of-client"
    _token = ""

    def _new_token(self) -> str:
        self._token = self._token or super()._new_token()
        return self._token


class Raises(Single):
    """Its extension has a defect of its own."""

    name: ClassVar[str] = "raises"

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        raise KeyError(lease.key)


class NeedsOptions(Single):
    """Cannot be made with default options."""

    name: ClassVar[str] = "needs-options"

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> NeedsOptions:
        """Raises ``OptionError``."""
        if not options:
            raise OptionError("retry_count", "nothing", "a number")
        return super().build(nodes, options, surroundings, owner)


class FailsWhileTwoAsk(Single):
    """Cannot be made for Bob."""

    name: ClassVar[str] = "fails-while-two-ask"

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> FailsWhileTwoAsk:
        """For Alice alone. Raises ``RuntimeError``."""
        if owner != "alice":
            raise RuntimeError("one client is enough")
        return super().build(nodes, options, surroundings, owner)


class NeverMade(Single):
    """Cannot be made at all."""

    name: ClassVar[str] = "never-made"

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> NeverMade:
        """Raises ``RuntimeError``."""
        raise RuntimeError("no library")


class NeverGranted(Single):
    """Refuses every acquire, and sends nothing."""

    name: ClassVar[str] = "never-granted"

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Raises ``NotAcquired``."""
        raise NotAcquired("not today")


class TakesNoOptions(Single):
    """Has none, and says so only when it is made."""

    name: ClassVar[str] = "takes-no-options"

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> TakesNoOptions:
        """Raises ``OptionError``."""
        for option in options:
            raise OptionError(option, "an unknown name", "no option")
        return super().build(nodes, options, surroundings, owner)


class NoLease(Single):
    """Says yes where a lease is due."""

    name: ClassVar[str] = "no-lease"

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """True."""
        return True  # type: ignore[return-value]


class NotAwaitable(Single):
    """Has an acquire without ``async``."""

    name: ClassVar[str] = "not-awaitable"

    def acquire(self, key: str, ttl_ns: int) -> Lease:  # type: ignore[override]
        """Return None at once."""
        return None  # type: ignore[return-value]


class Misspelt(Single):
    """Calls what is not there."""

    name: ClassVar[str] = "misspelt"

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Raises ``AttributeError``."""
        return await self._asks(key)

    async def _asks(self, key: str) -> Lease:
        lease: Lease = await self._channels.call("SET", key)  # type: ignore[attr-defined]
        return lease


class OfLibrary(Single):
    """The lock of redis-py."""

    name: ClassVar[str] = "of-library"

    async def open(self) -> None:
        """Connect."""
        node = self._nodes[0]
        self._redis = Redis(host=node.host, port=node.port, socket_timeout=0.25)
        self._held: dict[str, Lock] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Without waiting."""
        start_ns = self._surroundings.clock_ns()
        token = self._surroundings.new_token()
        lock = self._redis.lock(key, timeout=ttl_ns / NS_PER_S, thread_local=False)
        if not await lock.acquire(blocking=False, token=token):
            raise NotAcquired(key, [token])
        self._held[token] = lock
        return Lease(key, token, ttl_ns, start_ns + ttl_ns, attempt_ns=start_ns)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """As the library does."""
        start_ns = self._surroundings.clock_ns()
        try:
            await self._held[lease.token].extend(ttl_ns / NS_PER_S, replace_ttl=True)
        except LockNotOwnedError as error:
            raise LeaseLost(str(error)) from error
        return replace(lease, deadline_ns=start_ns + ttl_ns, attempt_ns=start_ns)

    async def release(self, lease: Lease) -> None:
        """As the library does."""
        try:
            await self._held.pop(lease.token).release()
        except LockNotOwnedError as error:
            raise LeaseLost(str(error)) from error


class InAHyperLogLog(Single):
    """Counts tokens in a HyperLogLog, which simulated nodes do not have."""

    name: ClassVar[str] = "in-a-hyperloglog"

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return bool(await self._call("PFADD", key, token))


class BreaksOffOnAll(Redlock):
    """Correct: breaks off all connections before it undoes, as client libraries do where no answer came."""

    name: ClassVar[str] = "breaks-off-on-all"

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        for channel in self._channels:
            await channel.close()
        return await super()._undo(key, token)


class AsksOn(BreaksOff):
    """Correct: tries for four seconds, also while no answer comes, and says then that it does not know."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try again and again."""
        give_up_ns = self._around.clock_ns() + self.options.wait_ns
        while True:
            try:
                return await super().acquire(key, ttl_ns)
            except (Indeterminate, NotAcquired):
                if self._around.clock_ns() >= give_up_ns:
                    raise
            await self._pause()


class NeverUndoes(Plain):
    """What a try has set that was not answered stays for its TTL."""

    async def _undo(self, key: str, token: str) -> None:
        """Nothing."""

    async def _run(self, script: str, key: str, *arguments: str | int) -> Any:
        return await self._call("EVAL", script, 1, key, *arguments)
