"""Locks in streams, bits, found by SCAN or handed over: correct ones pass, broken ones get their cause."""

from __future__ import annotations

import pytest

from tests.known_bad.examined import examined, one_always

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.in_streams:"
KINDS = {
    "InAStream": "a lock on one node",
    "Line": "a lock on one node",
    "ByGroup": "a lock on one node",
    "KeepsTheTicket": "a lock on one node",
    "Bits": "a semaphore of 3 permits on one node",
    "Scanned": "a lock on one node",
    "HandedOver": "a lock on one node",
}


@pytest.mark.full
@pytest.mark.parametrize("lock", ["ByGroup", "KeepsTheTicket"])
def test_a_ticket_that_is_used_again_and_again_is_left_by_nobody(lock: str) -> None:
    assert examined(f"{LOCKS}{lock}", 2_000, to_the_end=True).defects == ()


@pytest.mark.parametrize(("lock", "schedules"), one_always(KINDS, 60, 300))
def test_a_correct_lock_is_not_accused(lock: str, schedules: int) -> None:
    found = examined(LOCKS + lock, schedules, to_the_end=True)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= schedules
    assert found.kind == KINDS[lock]


@pytest.mark.full
@pytest.mark.timeout(900)  # a semaphore whose clients ask often: minutes where others compute
@pytest.mark.parametrize(
    ("lock", "finding", "cause"),
    [
        ("TrimsAway", "overlap", "deletes-others-key"),
        ("KeepsTheNewest", "overlap", "deletes-others-key"),
        ("StandsForEver", "leak", "no-expiry"),
        ("ClaimsAtOnce", "overlap", "overwrites-key"),
        ("AsLongAsItsOwn", "overlap", "overwrites-key"),
        ("DeliversOnce", "leak", "leaves-keys"),
        ("FourBits", "over-capacity", "lets-in-another"),
        ("FirstBit", "over-capacity", "deletes-others-key"),
        ("SweepsAll", "overlap", "deletes-others-key"),
        ("TakesTheTicket", "overlap", "overwrites-key"),
    ],
)
def test_a_broken_lock_is_found_with_its_cause(lock: str, finding: str, cause: str) -> None:
    found = examined(LOCKS + lock, 2_000, first=True)
    assert [(defect.findings[0], defect.cause) for defect in found.defects] == [(finding, cause)]
    assert found.defects[0].reference_lost == 0
