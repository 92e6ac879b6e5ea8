"""Fences that do not grow, and stores that do not look at them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, ClassVar

from lab.locks.cas import CasRedlock
from lab.locks.fenced import FencedRedlock
from lab.locks.lease_options import NS_PER_MS
from lab.locks.redlock import Redlock, Taken, Vote
from lab.store import StoreClient


class OtherFence(FencedRedlock):
    """Replaces the fence of each grant."""

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        taken = await super()._take(key, token, ttl_ns)
        return taken if taken.fence is None else replace(taken, fence=self.other_fence())

    def other_fence(self) -> int:
        """What is handed out instead."""
        raise NotImplementedError


class FenceConstant(OtherFence):
    """Every grant gets the fence 1."""

    def other_fence(self) -> int:
        """Always the same."""
        return 1


class FencePerClient(OtherFence):
    """Each client counts its own grants."""

    granted = 0

    def other_fence(self) -> int:
        """One more than this client's last."""
        self.granted += 1
        return self.granted


class FenceFromTime(OtherFence):
    """The fence is the client's wall clock, in milliseconds."""

    def other_fence(self) -> int:
        """Now."""
        return time.time_ns() // NS_PER_MS


class FenceNotWrittenBack(FencedRedlock):
    """The counters of a majority are read, and never raised."""

    async def _write_back(self, key: str, fence: int) -> tuple[dict[str, Vote], list[int]]:
        return {channel.address.name: "yes" for channel in self._channels}, []


class FenceWrittenToOne(FencedRedlock):
    """The number is written back to the first node alone."""

    async def _write_back(self, key: str, fence: int) -> tuple[dict[str, Vote], list[int]]:
        everywhere, self._channels = self._channels, self._channels[:1]
        try:
            await super()._write_back(key, fence)
        finally:
            self._channels = everywhere
        return {channel.address.name: "yes" for channel in everywhere}, []


class OtherStore(StoreClient):
    """A store whose script has one line changed."""

    line: ClassVar[str]
    changed: ClassVar[str]

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        if self.line not in self._script:
            raise ValueError(f"the store's script has no line {self.line!r} any more")
        self._script = self._script.replace(self.line, self.changed)


FENCE_TEST = "tonumber(fence) < tonumber(highest)"


class _IgnoringStore(OtherStore):
    line, changed = FENCE_TEST, "false"


class StoreIgnoresFence(FencedRedlock):
    """The store is given fences, and takes every write."""

    store_client: ClassVar[type[StoreClient]] = _IgnoringStore


class _OffByOneStore(OtherStore):
    line, changed = FENCE_TEST, "tonumber(fence) + 1 < tonumber(highest)"


class StoreFenceOffByOne(FencedRedlock):
    """The store takes a write whose fence is one too small."""

    store_client: ClassVar[type[StoreClient]] = _OffByOneStore


class _TextStore(OtherStore):
    line, changed = FENCE_TEST, "fence < highest"


class StoreComparesText(FencedRedlock):
    """The store compares fences letter by letter, so that 9 comes after 10."""

    store_client: ClassVar[type[StoreClient]] = _TextStore


class _ForgettingStore(OtherStore):
    line, changed = "redis.call('HSET', KEYS[1], 'fence', fence)", ""


class StoreForgetsFence(FencedRedlock):
    """The store compares fences, and keeps none."""

    store_client: ClassVar[type[StoreClient]] = _ForgettingStore


class _TokenlessStore(OtherStore):
    line, changed = "announced ~= token", "false"


class StoreIgnoresToken(CasRedlock):
    """The store is told tokens, and takes a write under any."""

    store_client: ClassVar[type[StoreClient]] = _TokenlessStore


class _StaleStore(OtherStore):
    line = "return {1, version, redis.call('HGET', KEYS[1], 'value') or '', highest}"
    changed = "return {1, math.max(version - 1, 0), redis.call('HGET', KEYS[1], 'value') or '', highest}"


class StoreReadsStale(Redlock):
    """Reads are answered from a copy that is one version behind."""

    store_client: ClassVar[type[StoreClient]] = _StaleStore
