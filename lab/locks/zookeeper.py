"""A lock in ZooKeeper: an ephemeral znode; its fence is the id of the transaction that created it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any, ClassVar
from urllib.parse import quote

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from lab.channel import NodeError
from lab.locks.base import Belief, Lease
from lab.locks.lease_options import NS_PER_S
from lab.locks.served import Served
from lab.locks.single import NotSent

ROOT = "/lock-lab"
LOST = (KazooException, KazooTimeoutError)


class ZooKeeperLock(Served):
    """A znode that exists only while the session of its creator does; its creator holds the lock.

    Source: ZooKeeper's programmer's guide (ephemeral nodes, sessions, czxid), and "How to do distributed
    locking" (2016), which names the zxid as a fencing token.

    All changes are totally ordered by their zxid, so the zxid at which the znode was created grows with every
    grant: it is a fence. The TTL is the session's time-out. A thread's heartbeats keep the session alive, so
    the lock lasts until it is released, or its client is dead, paused or cut off for that long.
    """

    name: ClassVar[str] = "zookeeper"
    service: ClassVar[str] = "zookeeper"
    renews = True

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._session: KazooClient | None = None
        self._session_ns = 0
        self._live: Event
        self._granted_in: dict[str, int] = {}

    async def open(self) -> None:
        """Nothing: a session is opened when its time-out is known."""

    async def close(self) -> None:
        """End the session; what was not released ends with it."""
        if self._session is not None:
            session, self._session = self._session, None
            await asyncio.to_thread(session.stop)

    async def held(self, lease: Lease) -> Belief:
        """Whether the session is thought to be alive; no time is claimed."""
        return Belief(self.believes(lease))

    async def wall_clock_ns(self) -> int:
        """That of this process: sessions end by the servers' clocks, which cannot be read."""
        return time.time_ns()

    def believes(self, lease: Lease) -> bool:
        """Whether its session is thought to be alive: connected, and the same as when it was granted."""
        session = self._session
        connected = session is not None and session.state == KazooState.CONNECTED
        return connected and _id(session) == self._granted_in.get(lease.token)

    async def _take(self, key: str, token: str, ttl_ns: int) -> int | None:
        session = await self._session_of(ttl_ns)
        create = partial(session.create_async, ephemeral=True, makepath=True, include_data=True)
        try:
            _, stat = await self._call(create, _path(key), token.encode())
        except NodeExistsError:
            return None
        self._granted_in[token] = int(stat.ephemeralOwner)
        return int(stat.czxid)

    async def _undo(self, key: str, token: str) -> bool:
        """End the session and with it what was created in it, though servers may not be reached."""
        with contextlib.suppress(*LOST):
            await self.close()
        return False

    async def _prolong(self, lease: Lease, ttl_ns: int) -> bool:
        """Any answer in the same session prolongs it."""
        return await self._owned(lease) is not None

    async def _give_back(self, lease: Lease) -> bool:
        version = await self._owned(lease)
        if version is None or self._session is None:
            return False
        try:
            await self._call(self._session.delete_async, _path(lease.key), version)
        except NoNodeError:
            return False
        return True

    async def _owned(self, lease: Lease) -> int | None:
        """The version of the lease's znode; None if there is none, or a later grant's."""
        if self._session is None:
            return None
        try:
            _, stat = await self._call(self._session.get_async, _path(lease.key))
        except NoNodeError:
            return None
        return int(stat.version) if stat.czxid == lease.fence else None

    async def _session_of(self, ttl_ns: int) -> KazooClient:
        """A connected session with this time-out. Raises ``NotSent``."""
        if self._session is not None and self._session_ns != ttl_ns:
            await self.close()
        if self._session is None:
            hosts = ",".join(f"{node.host}:{node.port}" for node in self._nodes)
            self._session_ns = ttl_ns
            self._session = KazooClient(hosts, timeout=ttl_ns / NS_PER_S, randomize_hosts=False)
            self._live = self._session.start_async()
        if not await asyncio.to_thread(self._live.wait, self._timeout_s):
            raise NotSent("no server of ZooKeeper can be reached")
        return self._session

    async def _call(self, begin: Callable[..., Any], *arguments: Any) -> Any:
        """Begin an operation and wait for ``node_timeout``.

        Raises:
            NodeExistsError: as ZooKeeper says.
            NoNodeError: as ZooKeeper says.
            NodeError: it is unknown whether it had an effect.
        """
        try:
            pending = begin(*arguments)
            return await asyncio.to_thread(pending.get, True, self._timeout_s)
        except (NodeExistsError, NoNodeError):
            raise
        except LOST as error:
            raise NodeError(f"ZooKeeper did not answer: {type(error).__name__} {error}") from error


def _id(session: KazooClient | None) -> int:
    return int(session.client_id[0]) if session is not None and session.client_id else 0


def _path(key: str) -> str:
    return f"{ROOT}/{quote(key, safe='')}"
