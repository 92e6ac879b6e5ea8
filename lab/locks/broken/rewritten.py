"""Locks on one node that share nothing with the lab's own, as people write them in an afternoon.

``Handmade`` itself is right. Each of the others has one defect.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Options, Surroundings
from lab.locks.options import read_options

MS_NS = 1_000_000
S_NS = 1_000_000_000
SET, DEL = "redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2])", "redis.call('del',KEYS[1])"
PEXPIRE = "redis.call('pexpire',KEYS[1],ARGV[2])"
IF_MINE = "if redis.call('get',KEYS[1])==ARGV[1] then {} return 1 end return 0"


@dataclass(frozen=True, slots=True)
class HandmadeOptions:
    """Time-outs, in nanoseconds, and how often it is tried."""

    node_timeout_ns: int = 500 * MS_NS
    retry_count: int = 3
    retry_delay_ns: int = 200 * MS_NS


class Handmade:
    """A lock on one node: SET NX PX, scripts that compare the token, one connection, remade if need be.

    What was not answered is taken back on the same connection, so that it cannot overtake the SET.
    """

    name: ClassVar[str] = "handmade"
    hands_out_fences: ClassVar[bool] = False

    def __init__(self, node: Address, options: HandmadeOptions, around: Surroundings, owner: str) -> None:
        self._node, self.options, self._around, self._owner = node, options, around, owner
        self._now_ns = around.clock_ns
        self._connection = self._connect()

    @classmethod
    def build(
        cls, nodes: Sequence[Address], options: Options, surroundings: Surroundings, owner: str
    ) -> Self:
        """On the first of the nodes. Raises ``OptionError``."""
        return cls(nodes[0], read_options(HandmadeOptions, options), surroundings, owner)

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """A hundredth, and two milliseconds."""
        return ttl_ns // 100 + 2 * MS_NS

    def _connect(self) -> Channel:
        timeout_s = self.options.node_timeout_ns / S_NS
        return self._around.channel(
            self._node, connect_timeout_s=timeout_s, stale_after_s=10 * timeout_s, client_name=self._owner
        )

    async def open(self) -> None:
        """Connect, if that is possible now."""
        with contextlib.suppress(NodeError):
            await self._connection.connect()

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Try some times. Raises ``NotAcquired``, or ``Indeterminate`` if the last SET was not answered."""
        tokens: list[str] = []
        silent: NodeError | None = None
        for attempt in range(self.options.retry_count):
            if attempt:
                await asyncio.sleep(self.options.retry_delay_ns / S_NS)
            tokens.append(self._token())
            start_ns = self._now_ns()
            try:
                granted = await self._set(key, tokens[-1], ttl_ns)
            except (NodeError, asyncio.CancelledError) as error:
                await self._take_back(key, tokens[-1])
                if not isinstance(error, NodeError):
                    raise
                silent = error
                continue
            lease = Lease(key, tokens[-1], ttl_ns, self._over_ns(start_ns, ttl_ns), attempt_ns=start_ns)
            if granted and self.believes(lease):
                return lease
            if granted:
                await self._take_back(key, tokens[-1])
        if silent is not None:
            raise Indeterminate(f"{key}: {silent}") from silent
        raise NotAcquired(f"{key}: somebody else holds it", tokens)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Prolong it. Raises ``LeaseLost`` or ``Indeterminate``."""
        start_ns = self._now_ns()
        try:
            kept = await self._prolong(lease, ttl_ns)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not kept:
            raise LeaseLost(f"{lease.key}: not held", no_effect=True)
        over_ns = self._over_ns(start_ns, ttl_ns)
        extended = replace(
            lease,
            ttl_ns=ttl_ns,
            deadline_ns=over_ns,
            extensions=lease.extensions + 1,
            attempt_ns=start_ns,
        )
        if not self.believes(extended):
            raise LeaseLost(f"{lease.key}: the answer came too late")
        return extended

    async def release(self, lease: Lease) -> None:
        """Delete the key. Raises ``LeaseLost`` or ``Indeterminate``."""
        try:
            deleted = await self._ask("EVAL", IF_MINE.format(DEL), 1, lease.key, lease.token)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not deleted:
            raise LeaseLost("not-held")

    def believes(self, lease: Lease) -> bool:
        """Whether its deadline is ahead."""
        return self._now_ns() < lease.deadline_ns

    def _over_ns(self, start_ns: int, ttl_ns: int) -> int:
        return start_ns + ttl_ns - self.margin_ns(ttl_ns, {})

    def _token(self) -> str:
        return self._around.new_token()

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        return await self._ask("SET", key, token, "NX", "PX", ttl_ns // MS_NS) is not None

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return bool(
            await self._ask("EVAL", IF_MINE.format(PEXPIRE), 1, lease.key, lease.token, ttl_ns // MS_NS)
        )

    async def _take_back(self, key: str, token: str) -> None:
        with contextlib.suppress(NodeError):
            await self._ask("EVAL", IF_MINE.format(DEL), 1, key, token)

    async def _ask(self, *command: str | int) -> Any:
        return await self._ask_on(self._connection, *command)

    async def _ask_on(self, connection: Channel, *command: str | int) -> Any:
        """Send a command and wait for its reply. Raises ``NodeError``."""
        try:
            async with asyncio.timeout(self.options.node_timeout_ns / S_NS):
                return await connection.call(*command)
        except TimeoutError as error:
            raise NodeError("no answer in time") from error


class SetXxExtends(Handmade):
    """Extends by SET XX, which takes the key over from whoever holds it by then."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return await self._ask("SET", lease.key, lease.token, "XX", "PX", ttl_ns // MS_NS) is not None


class ExpireExtends(Handmade):
    """Extends by PEXPIRE, without a look at who holds the key by then."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return bool(await self._ask("PEXPIRE", lease.key, ttl_ns // MS_NS))


class ExtensionSetsAgain(Handmade):
    """An extension sets the key again if it has expired, as if it had been there all the time."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        mine_or_gone = f"if not redis.call('get',KEYS[1]) then {SET} return 1 end {IF_MINE.format(PEXPIRE)}"
        return bool(await self._ask("EVAL", mine_or_gone, 1, lease.key, lease.token, ttl_ns // MS_NS))


class ExtendsByWhatIsLeft(Handmade):
    """An extension has the node keep the key for what is left of the old lease, not for the new one."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return await super()._prolong(lease, max(MS_NS, lease.deadline_ns - self._now_ns()))


class ExtensionIsNotLookedAt(Handmade):
    """An extension succeeds whatever the node says, as long as it says something."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        await super()._prolong(lease, ttl_ns)
        return True


class ExtensionFromReply(Handmade):
    """An extended lease counts from the reply, not from the request."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """Now plus TTL."""
        extended = await super().extend(lease, ttl_ns)
        return replace(extended, deadline_ns=self._over_ns(self._now_ns(), ttl_ns))


class UnansweredExtensionDeletes(Handmade):
    """An extension that was not answered gives the lock back, though the old deadline still stands."""

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        """And if not, away with it."""
        try:
            return await super().extend(lease, ttl_ns)
        except Indeterminate:
            await self._take_back(lease.key, lease.token)
            raise


class ConnectionPerCommand(Handmade):
    """Sends each command on a connection of its own, but takes a SET back on the one that it went out on."""

    def __init__(self, node: Address, options: HandmadeOptions, around: Surroundings, owner: str) -> None:
        super().__init__(node, options, around, owner)
        self._unanswered: dict[str, Channel] = {}

    async def open(self) -> None:
        """There is nothing to open."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        self._unanswered[token] = connection = self._connect()
        granted = await self._ask_on(connection, "SET", key, token, "NX", "PX", ttl_ns // MS_NS) is not None
        await self._unanswered.pop(token).close()
        return granted

    async def _take_back(self, key: str, token: str) -> None:
        connection = self._unanswered.pop(token, None) or self._connect()
        with contextlib.suppress(NodeError):
            await self._ask_on(connection, "EVAL", IF_MINE.format(DEL), 1, key, token)
        await connection.close()

    async def _ask(self, *command: str | int) -> Any:
        connection = self._connect()
        try:
            return await self._ask_on(connection, *command)
        finally:
            await connection.close()


class UndoOvertakesSet(ConnectionPerCommand):
    """A SET that was not answered is taken back on another connection, which may overtake it."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """What is taken back counts as refused."""
        try:
            return await super().acquire(key, ttl_ns)
        except Indeterminate as error:
            raise NotAcquired(str(error), refused_by=0) from error

    async def _take_back(self, key: str, token: str) -> None:
        if (connection := self._unanswered.pop(token, None)) is not None:
            await connection.close()
        await super()._take_back(key, token)


class OneTokenForAllTries(ConnectionPerCommand):
    """All tries of an acquire share a token: what undoes the first one may delete the second one's key."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Draw the token once."""
        self._drawn = self._around.new_token()
        return await super().acquire(key, ttl_ns)

    def _token(self) -> str:
        return self._drawn


class OneTokenForAllLeases(ConnectionPerCommand):
    """The token is the client's for as long as it lives: a late release ends a lease that it took later."""

    def _token(self) -> str:
        return self._owner


class TimestampInTheKey(Handmade):
    """The key holds a time of day, after which any client takes it over by GETSET: by its own clock."""

    async def _set(self, key: str, token: str, ttl_ns: int) -> bool:
        now_ns = time.time_ns()
        mine = f"{now_ns + ttl_ns}:{token}"
        if await self._ask("SETNX", key, mine):
            return True
        seen = await self._ask("GET", key)
        if seen is None or int(seen.split(b":")[0]) > now_ns:
            return False
        return bool(await self._ask("GETSET", key, mine) == seen)

    async def _change(self, key: str, token: str, value: str | None) -> bool:
        seen = await self._ask("GET", key)
        if seen is None or seen.split(b":")[1] != token.encode():
            return False
        if_same = f"if redis.call('get',KEYS[1])==ARGV[1] then {DEL} return 1 end return 0"
        if value is not None:
            if_same = if_same.replace(DEL, "redis.call('set',KEYS[1],ARGV[2])")
        return bool(await self._ask("EVAL", if_same, 1, key, seen.decode(), value or ""))

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        return await self._change(lease.key, lease.token, f"{time.time_ns() + ttl_ns}:{lease.token}")

    async def release(self, lease: Lease) -> None:
        """Delete the key. Raises ``LeaseLost`` or ``Indeterminate``."""
        try:
            deleted = await self._change(lease.key, lease.token, None)
        except NodeError as error:
            raise Indeterminate(str(error)) from error
        if not deleted:
            raise LeaseLost("not-held")

    async def _take_back(self, key: str, token: str) -> None:
        with contextlib.suppress(NodeError):
            await self._change(key, token, None)
