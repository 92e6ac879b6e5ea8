"""Correct locks that look unusual are right where broken ones are shown, and in schedules that are drawn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checker.verdict import Severity
from lab.client_protocol import Outcome
from lab.faults.pause import Pause
from lab.locks import lock_class
from lab.search.draw import Space
from lab.search.runner import run_trial, trials
from lab.search.schedule_task import ScheduleTask
from lab.search.space import WITHIN_ASSUMPTIONS
from lab.search.suspicion import named
from tests.known_bad import test_quorums, test_rewritten, test_singles
from tests.known_bad.driven import Driven, Ended, Situation, driven

pytestmark = pytest.mark.full

PLACE = "tests.locks_to_test."
ON_ONE_NODE = [
    f"{PLACE}{place}"
    for place in (
        "plain:Plain",
        "unusual:SetIfEqual",
        "unusual:WholeSeconds",
        "unusual:Cautious",
        "unusual:LooksFirst",
        "unusual:Blocking",
        "unusual:Numbered",
        "unusual:Hashed",
        "unusual:SameTokenAgain",
        "unusual:FreshConnections",
        "unusual:ThreeExtensions",
        "watchdog:Watchdog",
    )
]
REENTRANT, ON_SEVERAL = f"{PLACE}unusual:Reentrant", f"{PLACE}in_turn:InTurn"
IN_TRANSACTION = f"{PLACE}unusual:InTransaction"
"""It needs connections that remember: those that are driven here are without a wire."""
BASES = [
    f"lab.locks.broken.{place}"
    for place in (
        "rewritten:Handmade",
        "rewritten:ConnectionPerCommand",
        "watchdogs:Watched",
        "counters:FencedSingle",
    )
]
"""What some of the broken locks are made of, and is right itself."""
SITUATIONS_ON_ONE: dict[str, Situation] = {
    **test_singles.SITUATIONS,
    **{name: played for name, (played, _) in test_rewritten.SITUATIONS.items()},
}
ABOUT_THE_LOCK = {
    "overlap",
    "belief-overlap",
    "continuity-loss",
    "false-validity",
    "fence-order",
    "leak",
    "not-linearizable",
}
"""The others are about clients that pause between their last look at the clock and a write."""


def is_right(lock: str, played: Situation) -> bool:
    with driven(lock, **played.setting) as sim:
        played.play(sim)
        return not sim.violations() & ABOUT_THE_LOCK and sim.recovers()


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize("lock", [*ON_ONE_NODE, REENTRANT, *BASES])
def test_on_one_node_it_is_right_where_broken_ones_are_shown(lock: str) -> None:
    wrong = [name for name, played in SITUATIONS_ON_ONE.items() if not is_right(lock, played)]
    assert wrong == []


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize("name", [name for name, each in test_quorums.SITUATIONS.items() if each.setting])
def test_on_several_nodes_it_is_right_where_broken_ones_are_shown(name: str) -> None:
    assert is_right(ON_SEVERAL, test_quorums.SITUATIONS[name])


@pytest.fixture(scope="module")
def _trials() -> Iterator[None]:
    with trials():
        yield


@pytest.mark.usefixtures("_trials")
@pytest.mark.parametrize("lock", [*ON_ONE_NODE, REENTRANT, ON_SEVERAL, *BASES, IN_TRANSACTION])
def test_drawn_schedules_within_the_assumptions_find_nothing(lock: str) -> None:
    space = Space(lock, {"node_timeout": "250ms"}, ttl_ns=2_000_000_000, kinds=(*WITHIN_ASSUMPTIONS, Pause))
    task = ScheduleTask(space)
    granted = 0
    for seed in range(30):
        outcome = run_trial(task.trial(seed))
        wrong = {each.name for each in named(outcome) if each.severity is Severity.VIOLATION}
        assert wrong & ABOUT_THE_LOCK == set(), task.trial(seed)
        granted += sum((event["f"], event["type"]) == ("acquire", "ok") for event in outcome.events)
    assert granted > 30


@pytest.mark.usefixtures("_patched")
@pytest.mark.parametrize("lock", [*ON_ONE_NODE, REENTRANT, ON_SEVERAL, *BASES])
def test_it_believes_in_no_lease_that_is_over(lock: str) -> None:
    with driven(lock, ttl_s=1) as sim:
        assert sim.alice.does("acquire", "check") is Outcome.OK
        sim.alice.link("cut", "ABCDE")
        sim.lets_pass(1.2)
        assert sim.alice.does("check") is Outcome.FAIL


def again_and_again(sim: Driven) -> None:
    assert sim.alice.does("acquire") is Outcome.OK
    mine = sim.alice.lease
    again = sim.alice.run(sim.alice.lock.acquire(mine.key, mine.ttl_ns))
    sim.alice.run(sim.alice.lock.release(again))
    assert sim.keeps("A") is not None
    assert sim.alice.does("release") is Outcome.OK
    assert sim.keeps("A") is None


@pytest.mark.usefixtures("_patched")
def test_the_reentrant_one_counts() -> None:
    with driven(REENTRANT) as sim:
        again_and_again(sim)
    with driven("single") as sim, pytest.raises(Ended, match="NotAcquired"):
        again_and_again(sim)


@pytest.mark.usefixtures("_patched")
def test_the_blocking_one_waits() -> None:
    with driven(f"{PLACE}unusual:Blocking") as sim:
        sim.bob.does("acquire")
        asked = sim.alice.starts("acquire")
        sim.lets_pass(2)
        sim.bob.does("release")
        assert sim.ended(asked).outcome is Outcome.OK


@pytest.mark.usefixtures("_patched")
def test_the_one_with_a_watchdog_holds_a_lease_for_longer_than_its_ttl_and_lets_go_of_it() -> None:
    with driven(f"{PLACE}watchdog:Watchdog", ttl_s=1) as sim:
        assert sim.alice.does("acquire") is Outcome.OK
        sim.lets_pass(3)
        assert sim.alice.believes
        assert sim.bob.does("acquire") is Outcome.FAIL
        sim.alice.does("release")
        assert sim.bob.does("acquire") is Outcome.OK


def test_there_are_enough_and_they_are_locks() -> None:
    names = {lock_class(lock).name for lock in (*ON_ONE_NODE, REENTRANT, ON_SEVERAL)}
    assert len(names) == len(ON_ONE_NODE) + 2 >= 10
