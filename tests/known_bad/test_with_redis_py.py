"""``lab test`` on a lock written with redis-py finds what the retries of the client do, and nothing else.

A SET that is sent again is refused by the key that it has set.
"""

from __future__ import annotations

import pytest

from tests.known_bad.examined import examined

PLACE = "tests.locks_to_test.with_redis_py:"

pytestmark = pytest.mark.full  # a real client library is slower than the lab's own, in simulation as well


def test_the_retries_of_the_client_are_found() -> None:
    found = examined(f"{PLACE}AsItComes", 1500)
    assert {defect.cause for defect in found.defects} == {"leaves-keys"}
    assert all(defect.reference_lost == 0 for defect in found.defects)


def test_without_them_the_same_lock_is_not_accused() -> None:
    found = examined(f"{PLACE}WithoutRetries", 800)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= 800
