"""A lock on a master with replicas that goes wrong after a failover, and a correct twin with other habits."""

from __future__ import annotations

from typing import Any

from lab.addresses import Address
from lab.channel import Channel
from lab.locks.failover import Failover
from lab.locks.sentinel import SentinelLock


class KeepsMaster(Failover):
    """It never asks again who the master is."""

    name = "keeps-master"

    async def _ask_master(self, *arguments: Any) -> Any:
        known = self._master
        try:
            return await super()._ask_master(*arguments)
        finally:
            self._master = known or self._master


class LastMaster(Failover):
    """Of several masters it takes the last: after a failover that is the new one, more often than not."""

    name = "last-master"

    async def _find_master(self) -> Channel:
        self._channels.reverse()
        try:
            return await super()._find_master()
        finally:
            self._channels.reverse()


class AsksOnce(SentinelLock):
    """It asks Sentinels for the master once, and never again."""

    name = "asks-once"
    _named: Address | None = None

    async def _ask_sentinels(self) -> Address:
        if self._named is None:
            self._named = await super()._ask_sentinels()
        return self._named
