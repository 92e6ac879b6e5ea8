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
    """A release deletes whatever token of the lease a node has, also one that an extension may have set."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._tokens: dict[str, list[str]] = {}

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        start_ns = self._surroundings.clock_ns()
        self.options.check_extendable(lease, start_ns)
        token = self._surroundings.new_token()
        self._tokens[token] = all_of_it = self._tokens.setdefault(lease.token, [lease.token])
        all_of_it.append(token)
        command = ("EVAL", SWAP, 1, lease.key, lease.token, token, ttl_ns // NS_PER_MS)
        votes = await self._ask_all(command, bool, stop_early=False)
        now_ns = self._surroundings.clock_ns()
        if count_votes(votes, "yes") < self.quorum:
            raise self._not_extended(lease, votes)
        return replace(self.options.extended(lease, ttl_ns, start_ns, now_ns), token=token)

    async def _undo(self, key: str, token: str) -> dict[str, Vote]:
        votes: dict[str, Vote] = {}
        for each in self._tokens.get(token, [token]):
            of_it = await self._ask_all(("EVAL", UNLOCK_SCRIPT, 1, key, each), bool, stop_early=False)
            votes |= {name: vote for name, vote in of_it.items() if votes.get(name) != "yes"}
        return votes
