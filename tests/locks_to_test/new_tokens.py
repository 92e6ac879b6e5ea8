"""A correct Redlock that gives the keys a new token with each extension."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.locks.base import Lease
from lab.locks.lease_options import NS_PER_MS
from lab.locks.redlock import UNLOCK_SCRIPT, Redlock, Vote, count_votes

SWAP = """
if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end
redis.call('set',KEYS[1],ARGV[2],'PX',ARGV[3])
return 1
"""


class NewTokens(Redlock):
    """A release deletes whatever token of the lease a node still has."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._before: dict[str, str] = {}

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._surroundings.clock_ns()
        self.options.check_extendable(lease, start_ns)
        token = self._surroundings.new_token()
        self._before[token] = lease.token
        command = ("EVAL", SWAP, 1, lease.key, lease.token, token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, bool, stop_early=False)
        now_ns = self._surroundings.clock_ns()
        if count_votes(votes, "yes") < self.quorum:
            raise self._not_extended(lease, votes)
        return replace(self.options.extended(lease, ttl_ns, start_ns, now_ns), token=token)

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        votes = await self._ask_all(("EVAL", UNLOCK_SCRIPT, 1, key, token), bool, stop_early=False)
        if token not in self._before:
            return votes
        earlier = await self._undo(key, self._before[token])
        return {name: vote if vote == "yes" else earlier[name] for name, vote in votes.items()}
