"""A client that takes a lock again before it gives it back: which lease it has, and for how long."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from lab.client.log import Recording
from lab.client.worker import Worker
from lab.client_protocol import Command, Outcome, Verb
from lab.locks.base import BaseLock, Lease, Surroundings
from lab.locks.ordinary import OrdinaryLease

TTL_NS = 1000


class Counted(BaseLock):
    """Grants whatever it is asked for. With ``claims`` it says until when; time is what the test says."""

    def __init__(self, *, claims: bool) -> None:
        super().__init__([], {}, Surroundings(random=random.Random(0)), "alice")
        self.claims, self.now_ns, self.given_back = claims, 0, list[str]()
        self.granted = 0

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        self.granted += 1
        return self._until(key, f"token-{self.granted}", ttl_ns)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        return self._until(lease.key, lease.token, ttl_ns)

    def _until(self, key: str, token: str, ttl_ns: int) -> Lease:
        kind = Lease if self.claims else OrdinaryLease
        return kind(key, token, ttl_ns, self.now_ns + ttl_ns)

    async def release(self, lease: Lease) -> None:
        self.given_back.append(lease.token)

    def believes(self, lease: Lease) -> bool:
        return self.now_ns < lease.deadline_ns


class Client:
    """A worker with such a lock, and what it records."""

    def __init__(self, *, claims: bool) -> None:
        self.lock, self.events = Counted(claims=claims), list[dict[str, Any]]()
        recording = Recording("alice", self.events.append, lambda: self.lock.now_ns)
        self.worker = Worker(
            recording,
            self.lock,
            cast(Any, None),
            key="k",
            ttl_ns=TTL_NS,
            check_before_write=True,
            clock_ns=lambda: self.lock.now_ns,
        )

    async def does(self, verb: Verb, at_ns: int) -> Outcome:
        self.lock.now_ns = at_ns
        return (await self.worker.run(Command(len(self.events), verb))).outcome


async def test_a_release_gives_back_the_last_lease_and_then_the_one_before() -> None:
    client = Client(claims=False)
    verbs: tuple[Verb, ...] = ("acquire", "acquire", "release", "check", "release")
    for verb in verbs:
        assert await client.does(verb, 10) is Outcome.OK
    assert client.lock.given_back == ["token-2", "token-1"]
    assert await client.does("release", 20) is Outcome.SKIPPED
    grants = {event["f"]: event["grant_id"] for event in client.events if event["type"] == "ok"}
    assert grants["release"] == grants["held"] == "alice-1"


@pytest.mark.parametrize(("claims", "later"), [(False, Outcome.FAIL), (True, Outcome.OK)])
async def test_what_is_taken_again_is_believed_as_long_as_the_outer_lease_unless_it_is_claimed(
    claims: bool, later: Outcome
) -> None:
    client = Client(claims=claims)
    await client.does("acquire", 0)
    await client.does("acquire", 600)
    assert await client.does("check", 900) is Outcome.OK
    assert await client.does("check", 1100) is later


async def test_an_extension_is_believed_for_itself() -> None:
    client = Client(claims=False)
    await client.does("acquire", 0)
    await client.does("acquire", 600)
    await client.does("extend", 900)
    assert await client.does("check", 1800) is Outcome.OK


async def test_a_lease_that_was_over_already_is_no_outer_one() -> None:
    client = Client(claims=False)
    await client.does("acquire", 0)
    await client.does("acquire", 1200)
    assert await client.does("check", 2100) is Outcome.OK
