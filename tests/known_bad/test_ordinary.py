"""Ordinary locks are examined by their names; the whole table: ``python -m tests.known_bad.ordinary``."""

from __future__ import annotations

import pytest

from lab.drivers import is_driver
from lab.drivers.place import why_not_in_virtual_time
from lab.examine.command import Asked, examine
from tests.known_bad.ordinary import LOCKS, PLACE, USUAL, Expected, examined

BY_NAME = {each.lock: each for each in LOCKS}
FIRST = "with_asyncio:bare_delete"
"""In simulation, and found in the first seconds."""
BROKEN = (
    "classes:BareDelete",
    "flags:try_lock",
    "managers:careless",
    "managers:unguarded",
    "program:lock_invoice",
    "with_asyncio:take",
    FIRST,
)
SOUND = ("classes:InScripts", "managers:Locks", "with_asyncio:InScripts", "with_asyncio:exclusive")


def one(lock: str) -> Expected:
    """The row of a lock, if it can run here."""
    if is_driver(f"{PLACE}{lock}") and (reason := why_not_in_virtual_time(f"{PLACE}{lock}")):
        pytest.skip(reason)
    return BY_NAME[lock]


@pytest.mark.parametrize(
    "lock", [pytest.param(each, marks=() if each == FIRST else pytest.mark.full) for each in BROKEN]
)
def test_what_is_wrong_with_an_ordinary_lock_is_found(lock: str) -> None:
    row = one(lock)
    assert row.causes & {each.cause for each in examined(lock, "10s").defects}


@pytest.mark.full
@pytest.mark.parametrize("lock", SOUND)
def test_of_a_sound_one_nothing_is_found_but_what_its_client_does(lock: str) -> None:
    row = one(lock)
    assert not row.wrong
    assert {each.cause for each in examined(lock, "10s").defects} <= USUAL


@pytest.mark.full
def test_the_lock_of_a_job_that_is_cancelled_is_given_back() -> None:
    asked = Asked(f"{PLACE}with_asyncio:run_locked", "10s", jobs=1, options=(("retries", 0),))
    seen = [each.seen for each in examine(asked).defects if each.cause == "leaves-keys"]
    assert any("release" in one and "nothing was sent there to take it away" in one for one in seen)


@pytest.mark.full
def test_each_process_has_a_hash_seed_of_its_own() -> None:
    lock = "functions:ByHash"
    if reason := why_not_in_virtual_time(f"{PLACE}{lock}"):
        pytest.skip(reason)
    assert "different-keys" in {each.cause for each in examined(lock, "4s").defects}
