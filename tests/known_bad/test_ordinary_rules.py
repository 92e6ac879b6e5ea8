"""Kinds of defects of ordinary locks, each shown by a situation of its own; correct twins are clean."""

from __future__ import annotations

import pytest

from lab.drivers import is_driver
from lab.drivers.place import why_not_in_virtual_time
from lab.examine.command import Asked, examine, situations_of
from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.naming import causes_of
from lab.examine.programs import ALICE, S_NS, Setting
from lab.examine.violations.judge import Violation
from lab.faults.crash import Crash
from lab.faults.reset import Reset
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial
from tests.known_bad.test_anchored_kinds import schedules

pytestmark = pytest.mark.usefixtures("_patched")

PLACE = "tests.locks_to_test.ordinary."
QUICK = (("retries", 0), ("socket_timeout", 0.15))
"""Clients that repeat nothing: what is left then is the lock's own."""
PATIENT = (("retries", 0), ("socket_timeout", 5.0))
"""Clients that repeat nothing either, and wait for an answer for longer than a lease lasts."""


def here(lock: str) -> str:
    """The lock's name, if it can run here."""
    if is_driver(PLACE + lock) and (reason := why_not_in_virtual_time(PLACE + lock)):
        pytest.skip(reason)
    return PLACE + lock


@pytest.mark.parametrize("lock", ["NumberedAnew", "NumberedHere"])
def test_fences_that_do_not_grow_are_found(lock: str) -> None:
    with trials():
        found = (each for each in schedules(f"{PLACE}fenced:{lock}") if "fence-order" in violations(each))
        first = next(found)
        assert [each.kind for each in causes_of(first, "fence-order")] == ["fence-not-increasing"]


@pytest.mark.full
def test_a_fence_that_is_drawn_before_the_key_is_taken_is_found() -> None:
    found = examine(Asked(f"{PLACE}fenced:NumberedBefore", "15s", jobs=1, options=QUICK)).defects
    assert [each.cause for each in found] == ["fence-not-increasing"]


@pytest.mark.parametrize(
    ("lock", "sort", "finding", "cause"),
    [
        ("deadlines:ExtendedAnyway", "no fault", "false-validity", "belief-after-refusal"),
        ("deadlines:NoMargin", "clocks", "lost-update", "no-drift-margin"),
        ("deadlines:CountsInSeconds", "late replies", "false-validity", "ignores-deadline"),
        ("rounds:CountsTheFirst", "last round lost", "overlap", "too-few-votes"),
        ("undone:UndoneWhereVoted", "lost votes", "unavailable", "leaves-keys"),
        ("renewing:ComesBack", "renewal", "lost-update", "recreates-key"),
        ("called_at_once:one_token", "two tasks", "overlap", "others-token"),
        ("called_at_once:last_token", "two tasks", "overlap", "others-token"),
    ],
)
def test_a_situation_shows_the_defect_and_its_cause(lock: str, sort: str, finding: str, cause: str) -> None:
    with situations_of(Asked(here(lock), jobs=1, options=QUICK)) as found:
        first = next(each for each in found[sort] if finding in violations(each))
        assert [each.kind for each in causes_of(first, finding)][:1] == [cause]


@pytest.mark.parametrize(
    ("lock", "sort"),
    [
        ("deadlines:Extended", "no fault"),
        ("deadlines:OnMostNodes", "late replies"),
        ("deadlines:OnMostNodes", "clocks"),
        ("rounds:InTwoRounds", "last round lost"),
        ("renewing:StaysLost", "renewal"),
        ("called_at_once:token_of_call", "two tasks"),
    ],
)
def test_the_correct_twin_is_clean_in_that_situation(lock: str, sort: str) -> None:
    with situations_of(Asked(here(lock), jobs=1, options=QUICK)) as found:
        assert {name for each in found[sort] for name in violations(each)} == set()


def test_what_gave_a_lease_its_life_was_not_to_take_it_away() -> None:
    """Nodes come back with the lease; its release finds the connections broken, which no lock can help."""
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 3 * S_NS),)}
    gone = tuple(
        timed_fault(Crash, on(ALICE, "granted"), nodes=(name,), lasts_ns=S_NS // 10) for name in "BC"
    )
    setting = Setting(here("rounds:InTwoRounds"), dict(QUICK), 3).with_ttl(10 * S_NS)
    trial = setting.with_clients(clients, gone)
    with trials():
        assert "unavailable" in violations(trial)
        assert causes_of(trial, "unavailable") == []


def test_an_unwatch_was_not_to_take_a_key_away() -> None:
    """A connection breaks in the transaction of a release; what follows only puts a new one in order."""
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 3 * S_NS),)}
    setting = Setting(here("in_transactions:Watched"), dict(QUICK), 1).with_ttl(10 * S_NS)
    found: list[list[str]] = []
    with trials():
        for nth in range(1, 13):
            broken = timed_fault(Reset, on(ALICE, "sends", nth), ALICE, ("A",))
            trial = setting.with_clients(clients, (broken,))
            found += [[each.kind for each in causes_of(trial, name)] for name in violations(trial)]
    assert found
    assert not any(found)


@pytest.mark.parametrize(
    ("lock", "causes"), [("LooksFirstAndCountsLate", ["late-extension-deadline"]), ("LooksFirst", [])]
)
def test_answers_of_the_last_round_alone_are_late(lock: str, causes: list[str]) -> None:
    """An extension that looks before it prolongs gives up if what it learns by looking comes late."""
    name = f"{PLACE}deadlines:{lock}"
    with situations_of(Asked(name, jobs=1, options=PATIENT)) as found:
        shown = [each for each in found["late replies"] if "false-validity" in violations(each)]
        assert [each.kind for trial in shown for each in causes_of(trial, "false-validity")][:1] == causes


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "lock",
    [
        *("fenced:Numbered", "fenced:numbered", "fenced:take_numbered"),
        *("deadlines:Extended", "deadlines:OnMostNodes", "deadlines:LooksFirst", "rounds:InTwoRounds"),
        *("undone:UndoneEverywhere", "called_at_once:token_of_call", "renewing:StaysLost"),
    ],
)
def test_a_correct_lock_is_not_accused(lock: str, seed: int) -> None:
    asked = Asked(here(lock), "10s", seed, jobs=1, options=QUICK)
    assert [each.cause for each in examine(asked).defects] == []


def violations(trial: Trial) -> dict[str, Violation]:
    return all_violations(run_trial(trial))
