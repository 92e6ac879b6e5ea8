"""Redlock with a fence taken from counters on the nodes, which does not always grow."""

from __future__ import annotations

from typing import ClassVar

from lab.channel import Reply
from lab.locks.lease_options import NS_PER_MS
from lab.locks.redlock import Redlock, Taken

SET_AND_COUNT = """
if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return redis.call('incr',KEYS[2]) end
return 0
"""


def counter_key(key: str) -> str:
    """The name of the node's counter of grants of ``key``."""
    return f"{key}:fence"


class CountingRedlock(Redlock):
    """Redlock, where every node that grants the key also counts; the fence is the largest count received.

    Source: "How to do distributed locking" (2016), which says that counters on several nodes would go out of
    sync. This lock does it as well as possible: each node sets and counts in one atomic step.

    It promises what ``redlock`` does, and fences that grow *if the same nodes reply to every grant*. A node
    also counts what the others did not receive (attempts without a majority, grants while others were down),
    so counts differ; a grant from one majority may then have a smaller number than an earlier grant from
    another, or the same. This needs no node to lose data; one that does makes it worse.
    """

    name: ClassVar[str] = "redlock-counter"
    hands_out_fences: ClassVar[bool] = True

    def fence_of(self, counts: list[int]) -> int:
        """The fence, of the counts in the order in which they came."""
        return max(counts)

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        counts: list[int] = []

        def is_counted(count: Reply) -> bool:
            if count:
                counts.append(int(count))
            return bool(count)

        command = ("EVAL", SET_AND_COUNT, 2, key, counter_key(key), token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, is_counted, stop_early=True)
        return Taken(votes, fence=self.fence_of(counts) if counts else None)
