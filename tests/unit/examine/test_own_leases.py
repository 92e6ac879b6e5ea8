"""Who has not given a lease back may be refused by its own process; who has may not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.examine.ledger.naming import causes_of
from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.examine.violations.own_findings import all_violations
from lab.locks.base import Lease, LeaseLost, NotAcquired
from lab.search.command import OPTIONS
from lab.search.runner import run_trial, trials
from lab.search.trial import Round
from tests.locks_to_test.plain import Plain

pytestmark = pytest.mark.usefixtures("_patched")


class OfThreads(Plain):
    """As a lock that threads hold: its process has it until it is given back, also when the lease is over."""

    name = "of-threads"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._here: set[str] = set()

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        if key in self._here:
            raise NotAcquired(f"{key}: this process has it", [])
        lease = await super().acquire(key, ttl_ns)
        self._here.add(key)
        return lease

    async def release(self, lease: Lease) -> None:
        try:
            await super().release(lease)
        finally:
            self._here.discard(lease.key)


class KeptInVain(OfThreads):
    """Its process keeps it for ever where a release comes too late."""

    name = "kept-in-vain"

    async def release(self, lease: Lease) -> None:
        try:
            await super().release(lease)
        except LeaseLost:
            self._here.add(lease.key)
            raise


class NeverOver(OfThreads):
    """It also leaves a key without an end on the node, which refuses everybody."""

    name = "never-over"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._call("SET", key, token, "NX")


@pytest.fixture(autouse=True)
def _trials() -> Iterator[None]:
    with trials():
        yield


@pytest.mark.parametrize(
    ("lock", "ends", "found"),
    [
        ("OfThreads", "keep", {}),
        ("OfThreads", "release", {}),
        ("KeptInVain", "release", {"unavailable": ["asks-nobody"], "leak": ["asks-nobody"]}),
    ],
)
def test_only_who_kept_a_lease_may_be_refused_by_its_own_process(
    lock: str, ends: Any, found: dict[str, list[str]]
) -> None:
    clients = {ALICE: (Round(0, 13 * S_NS, ends=ends),)}
    trial = Setting(f"{__name__}:{lock}", OPTIONS, 1).with_clients(clients, ())
    violations = all_violations(run_trial(trial))
    assert {name: [each.kind for each in causes_of(trial, name)] for name in violations} == found


def test_what_others_are_refused_is_no_matter_of_the_clients_own_process() -> None:
    clients = {ALICE: (Round(0, S_NS, ends="keep"),), BOB: (Round(15 * S_NS, S_NS),)}
    trial = Setting(f"{__name__}:NeverOver", OPTIONS, 1).with_clients(clients, ())
    assert "unavailable" in all_violations(run_trial(trial))
