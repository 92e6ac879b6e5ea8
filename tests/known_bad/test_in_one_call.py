"""What another client does between two commands of one call, or what one command does beside its purpose."""

from __future__ import annotations

import pytest

from tests.known_bad.examined import examined, one_always

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.in_one_call:"


@pytest.mark.parametrize(
    ("lock", "schedules"), one_always(["WatchesThenLooks", "ByDigest", "InATable"], 60, 400)
)
def test_a_correct_lock_is_not_accused(lock: str, schedules: int) -> None:
    found = examined(LOCKS + lock, schedules, to_the_end=True)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= schedules


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "schedules", "finding", "cause"),
    [
        ("LooksThenWatches", 800, "overlap", "deletes-others-key"),
        ("ProlongsThenCompares", 800, "overlap", "deletes-others-key"),
        ("ByDigestAlone", 1_200, "release-without-effect", "does-not-recover"),
        ("EndsTheTable", 800, "overlap", "mixes-keys"),
    ],
)
def test_a_broken_lock_is_found_early_with_its_cause(
    lock: str, schedules: int, finding: str, cause: str
) -> None:
    found = examined(LOCKS + lock, schedules, first=True)
    assert [(defect.findings[0], defect.cause) for defect in found.defects] == [(finding, cause)]
    assert found.defects[0].reference_lost == 0
