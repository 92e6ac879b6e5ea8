"""A lock on the master that Redis Sentinel names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from lab.addresses import SENTINEL_SERVICE, Address
from lab.channel import Channel, NodeError, connect_all
from lab.locks.base import Surroundings
from lab.locks.failover import Failover, FailoverOptions
from lab.locks.single import NotSent


class SentinelLock(Failover):
    """``single`` on the master that Sentinel names.

    Source: Redis documentation, "Sentinel client spec".

    When it has no connection to a master it asks the Sentinels one after the other for the master's name,
    connects to it, and uses it if ``ROLE`` replies that it is one. It asks again after the connection ended,
    or a command failed; while the connection lasts it asks no Sentinel. So it goes on with a master that
    Sentinel has replaced, as long as that one answers and says nothing of it.

    It tolerates the loss of the master, and promises mutual exclusion while no failover happens: replication
    is asynchronous. With ``wait_replicas`` a grant or an extension counts when so many replicas have it; if
    one that lacks it is promoted, the lock is lost all the same.
    """

    name: ClassVar[str] = "sentinel"
    asks: ClassVar[str] = "sentinels"

    def __init__(
        self,
        nodes: Sequence[str | Address],
        options: FailoverOptions | None = None,
        surroundings: Surroundings | None = None,
        owner: str | None = None,
    ) -> None:
        super().__init__(nodes, options, surroundings, owner)
        self._owner = owner
        self._channels = []  # the nodes are those that Sentinels name
        self._sentinels = [self._channel(address) for address in self._surroundings.sentinels]
        self._masters: dict[tuple[str, int], Channel] = {}

    async def open(self) -> None:
        """Connect to the Sentinels that can be reached."""
        await connect_all(self._sentinels)

    async def close(self) -> None:
        """Disconnect."""
        await asyncio.gather(*(channel.close() for channel in (*self._sentinels, *self._masters.values())))

    async def _node(self) -> Channel:
        if self._master is not None and not self._master.connected:
            self._master = None
        return await super()._node()

    async def _find_master(self) -> Channel:
        """The master that a Sentinel names. Raises ``NotSent``."""
        address = await self._ask_sentinels()
        master = self._masters.setdefault((address.host, address.port), self._channel(address))
        if not await self._says_master(master):
            raise NotSent(f"{address.name}, which Sentinel names, does not say that it is the master")
        return master

    async def _ask_sentinels(self) -> Address:
        """Where the master is, by the first Sentinel that replies; that one is asked first next time."""
        for sentinel in list(self._sentinels):
            try:
                reply = await self._in_time(
                    sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SENTINEL_SERVICE)
                )
            except NodeError:
                continue
            if reply is None:
                continue
            self._sentinels.remove(sentinel)
            self._sentinels.insert(0, sentinel)
            host, port = (part.decode() for part in reply)
            return Address(f"{host}:{port}", host, int(port))
        raise NotSent("no Sentinel that can be reached names a master")

    def _channel(self, address: Address) -> Channel:
        return self._surroundings.channel(
            address,
            connect_timeout_s=self._timeout_s,
            stale_after_s=self._stale_after_s(),
            client_name=self._owner,
        )
