"""Locks on one node with a defect that looks like another: what is read, compared, counted, waited for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, ClassVar

from lab.channel import NodeError
from lab.locks.base import Belief, Indeterminate, Lease, NotAcquired
from tests.locks_to_test.plain import GIVE_BACK, MS_NS, S_NS, Plain

ENTER = """
if redis.call('exists',KEYS[1])==1 and redis.call('hexists',KEYS[1],ARGV[1])==0 then return 0 end
redis.call('pexpire',KEYS[1],ARGV[2],redis.call('hincrby',KEYS[1],ARGV[1],1)==1 and 'NX' or 'GT')
return 1
"""
LEAVE = """
if redis.call('hexists',KEYS[1],ARGV[1])==0 then return 0 end
if redis.call('hincrby',KEYS[1],ARGV[1],-1)<1 then redis.call('del',KEYS[1]) end
return 1
"""


class KeepsItsConnection(Plain):
    """Speaks over a socket of its own, and sends on over it when it has given up waiting for a reply."""

    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def _call(self, *command: str | int) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._ask([str(word).encode() for word in command])
        except TimeoutError as error:
            raise NodeError("no answer in time") from error

    async def _ask(self, words: list[bytes]) -> bytes | None:
        if self.streams is None:
            self.streams = await asyncio.open_connection(self._node.host, self._node.port)
        reader, writer = self.streams
        writer.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        line = await reader.readuntil(b"\r\n")
        return None if line in (b"$-1\r\n", b":0\r\n") else line

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._call("EVAL", GIVE_BACK, 1, lease.key, lease.token)


class DropsItsConnection(KeepsItsConnection):
    """Closes its socket when it has given up waiting, so that undoing goes over another: that is right."""

    async def _call(self, *command: str | int) -> Any:
        try:
            return await super()._call(*command)
        except NodeError:
            if self.streams is not None:
                self.streams[1].close()
            self.streams = None
            raise


class OneTokenForAKey(Plain):
    """Releases with the token that was last kept for the key, whoever has kept it."""

    last: ClassVar[dict[str, str]] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        self.last[key] = lease.token
        return lease

    async def release(self, lease: Lease) -> None:
        await super().release(replace(lease, token=self.last[lease.key]))


class CountsEachTry(Plain):
    """Counts holds in a hash, as Redisson does; a try without an answer is repeated as it is."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        for attempt in range(2):
            start_ns = self._around.clock_ns()
            try:
                lease = await self._try(key, self._owner, ttl_ns, start_ns)
            except NodeError as error:
                if attempt:
                    raise Indeterminate(str(error)) from error
                continue
            if lease is None:
                break
            return lease
        raise NotAcquired(f"{key}: taken", [self._owner])

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._call("EVAL", ENTER, 1, key, token, ttl_ns // MS_NS)

    async def _give_back(self, lease: Lease) -> Any:
        return await self._call("EVAL", LEAVE, 1, lease.key, lease.token)


class ProlongsWhatIsThere(Plain):
    """Sends SETNX and PEXPIRE at once: a refused try prolongs the key of the holder."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        set_now, _ = await asyncio.gather(
            self._call("SETNX", key, token),
            self._call("PEXPIRE", key, ttl_ns // MS_NS),
        )
        return set_now


class ExtendsByReplacing(Plain):
    """Extends with SET XX GET, and looks at whose key that was when it has replaced it."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        before = await self._call("SET", lease.key, lease.token, "XX", "GET", "PX", ttl_ns // MS_NS)
        return before == lease.token.encode()


class WaitsForAPush(Plain):
    """Who is refused waits for a release, by BLPOP, as long as it takes: also if the key goes by itself."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        while True:
            taken = await super()._take(key, token, ttl_ns)
            if taken:
                return taken
            pushed = self._connection()
            try:
                await pushed.call("BLPOP", f"{key}:pushed", 0)
            finally:
                await pushed.close()

    async def _give_back(self, lease: Lease) -> Any:
        given_back = await super()._give_back(lease)
        await self._call("RPUSH", f"{lease.key}:pushed", "")
        return given_back


class CountsWholeSeconds(Plain):
    """Says what is left of a lease by whole seconds that have passed; it keeps a margin."""

    renews = False

    async def held(self, lease: Lease) -> Belief:
        passed_ns = self._around.clock_ns() - (lease.attempt_ns or 0)
        left_ns = lease.ttl_ns - passed_ns // S_NS * S_NS - self.margin_ns(lease.ttl_ns, {})
        return Belief(left_ns > 0, left_ns)

    async def wall_clock_ns(self) -> int:
        return time.time_ns()


class ExtendsInItsMind(Plain):
    """Takes an extension for a success, and sends nothing."""

    async def _prolong(self, lease: Lease, ttl_ns: int) -> Any:
        return True


class ReleasesNewest(Plain):
    """Compares the key with the token of the lease that it got last, whichever is released."""

    newest = ""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        self.newest = lease.token
        return lease

    async def release(self, lease: Lease) -> None:
        await super().release(replace(lease, token=self.newest))


class KeepsReleased(Plain):
    """Hands out a lease again until its release was answered."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kept: dict[str, Lease] = {}

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = self.kept.get(key)
        if lease is None or not self.believes(lease):
            lease = self.kept[key] = await super().acquire(key, ttl_ns)
        return lease

    async def release(self, lease: Lease) -> None:
        await super().release(lease)
        self.kept.pop(lease.key, None)


class PutsBack(Plain):
    """A release takes the key away, and puts it back if it is another's."""

    async def _give_back(self, lease: Lease) -> Any:
        value = await self._call("GETDEL", lease.key)
        if value is not None and value.decode() != lease.token:
            await self._call("SET", lease.key, value, "NX", "PX", lease.ttl_ns // MS_NS)
        return value is not None and value.decode() == lease.token
