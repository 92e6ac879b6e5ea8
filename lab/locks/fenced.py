"""Redlock with fences that always grow: read the counters of a majority, write a larger one to a majority."""

from __future__ import annotations

from typing import ClassVar

from lab.channel import Reply
from lab.locks.counter import counter_key
from lab.locks.lease_options import NS_PER_MS
from lab.locks.redlock import Redlock, Taken, Vote, count_votes

SET_AND_READ = """
if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then
  return tonumber(redis.call('get',KEYS[2]) or 0)
end
return -1
"""

RAISE = """
local before = tonumber(redis.call('get',KEYS[1]) or 0)
if before < tonumber(ARGV[1]) then redis.call('incrby',KEYS[1],tonumber(ARGV[1])-before) end
return before
"""

ROUNDS_MAX = 5
"""How often a fence is chosen again because another client has taken the number."""


class FencedRedlock(Redlock):
    """Redlock whose fence is a number that a majority of nodes has accepted, each of them only once.

    Source: the majority register of Attiya, Bar-Noy and Dolev, "Sharing memory robustly in message-passing
    systems" (1995): a value that was read from a majority and written back to a majority is seen by every
    operation that begins later. No consensus is needed for that, and nodes do not know of each other.

    The steps. (1) Redlock's SET; each node that grants it replies with its counter in the same step, so the
    majority that granted is also the majority that was read. (2) The fence is the largest counter received,
    plus one. (3) It is written back: every node raises its counter to the fence if the counter is *smaller*,
    and replies with the old value. Only nodes that raised it count as accepting. The grant counts once a
    majority has accepted; if a node had a number as large, step 3 is repeated above it. (4) Only then is the
    clock read, so the time for all of this is taken from the lease.

    Assumed: **nodes do not lose data** (a counter never falls: no restart without its data, no eviction), and
    ``quorum`` is a majority. Nothing is assumed about time, delays, lost messages, or who holds the lock.

    *Ordered grants have increasing fences.* Let grant g with fence F have returned before grant h sent its
    first request. A majority had then accepted F, and a majority accepts h's fence H; some node X is in both.
    X's counter was at least F when X was asked for H, and X accepted H only because H was larger: H > F.
    The same holds whenever h's last write-back began after g's was accepted, even if their calls overlap.

    *Concurrent grants never have the same fence.* If two had F, some node X would have accepted F twice. But
    after the first time X's counter is at least F, and X accepts only a larger number.

    So the nodes break a tie: each accepts the number from the first client that sends it. The textbook breaks
    it by client id, as a second part of the number: then no number is chosen again, but the ids must be
    unique, and a copied configuration would give one fence to two clients. Here a client chooses a number
    only after a majority granted it the key, so ties need a mutual exclusion that is already violated; after
    ``ROUNDS_MAX`` of them in a row the attempt fails.

    Numbers may be skipped (after a write-back without a majority); they are exact up to 2^53. An extension
    keeps its lease's fence. If a member of the majority loses its counter, the first argument does not hold,
    and the next fence may be smaller: that cannot be repaired without durable nodes.
    """

    name: ClassVar[str] = "redlock-fenced"
    hands_out_fences: ClassVar[bool] = True

    async def _take(self, key: str, token: str, ttl_ns: int) -> Taken:
        counters: list[int] = []

        def is_granted(counter: Reply) -> bool:
            if counter >= 0:
                counters.append(int(counter))
            return bool(counter >= 0)

        command = ("EVAL", SET_AND_READ, 2, key, counter_key(key), token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, is_granted, stop_early=True)
        if count_votes(votes, "yes") < self.quorum:
            return Taken(votes)
        highest = max(counters)
        for _ in range(ROUNDS_MAX):
            fence = highest + 1
            accepted, before = await self._write_back(key, fence)
            if count_votes(accepted, "yes") >= self.quorum:
                return Taken(votes, fence)
            highest = max([highest, *before])
            if highest < fence:  # no other client was first: too few answered, and a retry would not help
                break
        return Taken(votes, obstacle="its fence was not accepted by one")

    async def _write_back(self, key: str, fence: int) -> tuple[dict[str, Vote], list[int]]:
        """Raise the counters to ``fence``; return the votes and what the counters were before."""
        before: list[int] = []

        def is_raised(counter: Reply) -> bool:
            before.append(int(counter))
            return bool(counter < fence)

        command = ("EVAL", RAISE, 1, counter_key(key), fence)
        return await self._ask_all(command, is_raised, stop_early=True), before
