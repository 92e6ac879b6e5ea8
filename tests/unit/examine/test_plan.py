"""What an examination tries: boundaries, sets of nodes, pairs of faults, and what it leaves out."""

from __future__ import annotations

import dataclasses
from itertools import islice
from random import Random

import pytest
from msgspec.structs import replace

from lab.examine.kinds import Kind
from lab.examine.profile.probes import Profile
from lab.examine.programs import PROGRAMS, S_NS, Setting
from lab.examine.schedules.anchored import ANCHORED
from lab.examine.schedules.beyond import FAST_PPM, fast_clocks, late_writes
from lab.examine.schedules.boundaries import (
    AHEAD_MAX,
    SHORT_NS,
    Boundary,
    boundaries,
    first_faults,
    second_faults,
    single_faults,
    small_faults,
    targets_of,
)
from lab.examine.schedules.plan import (
    BEYOND,
    NAMES,
    SINGLES,
    Doubles,
    drawn,
    parts,
)
from lab.examine.schedules.reentrant import (
    gives_back_as_often,
    is_reentrant,
    reentrance,
    says_reentrant,
)
from lab.faults.answers import Answers
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.drift import Drift
from lab.faults.fill_memory import FillMemory
from lab.faults.hold import Hold
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.locks.base import BaseLock, Lease
from lab.scenario.tracks import Timed
from lab.scenario.triggers import on
from lab.search.faults import is_a, nodes_of, timed_fault
from lab.search.runner import run_trial, trials
from tests.locks_to_test.unusual import Reentrant

pytestmark = pytest.mark.usefixtures("_patched")

OPTIONS: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
REDLOCK = Setting("redlock", OPTIONS)
CONTEND = next(each for each in PROGRAMS if each.name == "contend")


def test_a_lock_that_asks_at_once_has_one_boundary_where_a_sequential_one_has_five() -> None:
    with trials():
        at_once = [each for each in boundaries(REDLOCK.trial(CONTEND)) if each.client == "alice"]
        in_turn = boundaries(Setting("redlock-sequential", OPTIONS).trial(CONTEND))
    assert at_once[:2] == [Boundary("alice", 1, tuple("ABCDE")), Boundary("alice", 2, tuple("ABCDE"))]
    first = [each.nodes for each in in_turn if each.client == "alice"][:5]
    assert first == [("A",), ("B",), ("C",), ("D",), ("E",)]
    assert all(each.nth <= AHEAD_MAX for each in (*at_once, *in_turn))


@pytest.mark.parametrize(
    ("nodes", "of", "sets"),
    [
        ("ABCDE", 5, ["A", "AB", "ABC", "ABCDE", "DE"]),
        ("ABC", 3, ["A", "AB", "ABC", "C"]),
        ("A", 1, ["A"]),
        ("C", 5, ["C"]),
    ],
)
def test_sets_of_nodes_that_differ_only_by_names_count_once(nodes: str, of: int, sets: list[str]) -> None:
    assert targets_of(Boundary("alice", 1, tuple(nodes)), of) == [tuple(each) for each in sets]


def test_at_each_boundary_everything_can_be_lost_held_stopped_or_broken() -> None:
    with trials():
        there = boundaries(REDLOCK.trial(CONTEND))
        found = single_faults(REDLOCK.trial(CONTEND))
        first = [fault for fault in found if fault.at == on("alice", "sends", 1)]
    assert {type(fault.step) for fault in first} == {
        *(Cut, Hold, Delay, Reset, Pause, ClientCrash, Crash, Answers, FillMemory)
    }
    assert len(first) == len(set(first)) == 5 * (2 * 5 + 1 + 2 + 1) + 2 + 1 + 1 + 1 + 4
    assert {(fault.at.track, fault.at.nth) for fault in found if fault.at} == {
        (each.client, each.nth) for each in there
    }
    assert {fault.step.direction for fault in first if isinstance(fault.step, Hold)} == {
        "requests",
        "replies",
    }


def sets_of(hit: str) -> set[str]:
    """On which of five nodes replies may be lost, after a fault on some of them."""
    lost = small_faults(Boundary("alice", 1, tuple("ABCDE")), REDLOCK.trial(CONTEND), tuple(hit))[0]
    return {"".join(nodes_of(fault)) for fault in lost}


def test_sets_for_a_second_fault_differ_by_how_many_nodes_the_first_one_hit() -> None:
    assert sets_of("") == {"A", "AB", "ABC", "ABCD", "ABCDE"}
    assert sets_of("A") == {"A", "B", "AB", "BC", "ABC", "BCD", "ABCD", "BCDE", "ABCDE"}
    assert sets_of("AB") == {"A", "AB", "C", "AC", "ABC", "CD", "ACD", "ABCD", "CDE", "ACDE", "ABCDE"}


def test_a_second_fault_strikes_where_the_first_one_has_led_to() -> None:
    base = Setting("single", OPTIONS, 1).trial(CONTEND)
    when = on("alice", "sends", 1)
    lost = timed_fault(Cut, when, "alice", ("A",), lasts_ns=SHORT_NS, direction="replies")
    stops = timed_fault(Pause, on("alice", "sends", 2), "alice", lasts_ns=base.ttl_ns * 11 // 10)
    with trials():
        assert {lost, stops} <= set(first_faults(base))
        before = {(each.client, each.nth) for each in boundaries(base, None)}
        after_lost, stopped = (second_faults(replace(base, faults=(one,))) for one in (lost, stops))
    again = [fault.step for fault in after_lost if fault.at == when]
    assert again == [Hold(client="alice", nodes=("A",), direction="requests"), Pause(client="alice")]
    later = {(fault.at.track, fault.at.nth) for fault in stopped if fault.at}
    assert ("alice", 1) not in later
    assert later - before  # bob asks until her key has expired


def test_every_pair_is_tried_once() -> None:
    base = Setting("single", OPTIONS, 1).trial(CONTEND)
    twos = Doubles(base, CONTEND)
    tried = []
    with trials():
        firsts = first_faults(base)
        while twos.has_next():
            tried.append(twos.next())
            twos.part.tried += 1
    assert twos.part.exhausted
    assert len({frozenset(each.faults) for each in tried}) == len(tried) == twos.part.of
    assert [each for each in tried if len(each.faults) == 1] != []
    assert {each.faults[0] for each in tried} == set(firsts)


def test_a_lock_that_sends_nothing_has_no_pairs() -> None:
    twos = Doubles(Setting("tests.unit.examine.odd_locks:NeverGranted", {}, 1).trial(CONTEND), CONTEND)
    with trials():
        assert not twos.has_next()
    assert twos.part.exhausted
    assert twos.part.of == 0


def test_the_parts_say_how_many_schedules_they_have() -> None:
    with trials():
        of_many, of_one = Profile(Kind(True), extends=True), Profile(Kind(False), extends=True)
        single = Setting("single", OPTIONS, 1)
        made = [(part, list(some)) for part, some in parts(single, of_one, PROGRAMS, Random(1))]
        of_majority = {part.name for part, _ in parts(REDLOCK, of_many, PROGRAMS, Random(1))}
    found = {part.name: (part, some) for part, some in made}
    assert list(found) == [NAMES, BEYOND, ANCHORED, SINGLES]
    assert all(part.of == len(some) > 0 for part, some in found.values())
    assert of_majority == {NAMES, BEYOND, ANCHORED, SINGLES}


def test_a_setting_with_another_lease_or_other_nodes_is_else_the_same() -> None:
    setting = Setting("redlock-fenced", OPTIONS, 3, 9 * S_NS, fences=True)
    assert setting.with_ttl(S_NS) == Setting("redlock-fenced", OPTIONS, 3, S_NS, fences=True)
    assert setting.with_nodes(7) == Setting("redlock-fenced", OPTIONS, 7, 9 * S_NS, fences=True)


def ppm_of(fault: Timed) -> int:
    return fault.step.ppm if isinstance(fault.step, Drift) else 0


def test_a_fast_clock_hits_a_node_that_both_clients_need() -> None:
    shared, everywhere, reached, to_its_end = fast_clocks(REDLOCK)
    assert len(to_its_end.tracks) == 2 + 5
    assert [nodes_of(fault) for fault in shared.faults if is_a(fault, Drift)] == [("C",)]
    assert len([fault for fault in everywhere.faults if ppm_of(fault) == FAST_PPM]) == 5
    assert [ppm_of(fault) for fault in reached.faults] == 5 * [FAST_PPM]


def test_with_fast_clocks_on_one_node_nobody_is_cut_off_and_nobody_asks_on() -> None:
    *some, to_its_end = fast_clocks(Setting("single", OPTIONS, 1))
    assert not to_its_end.demand_ns
    assert [[type(fault.step) for fault in each.faults] for each in some] == 2 * [[Drift]]
    assert not any(each.demand_ns for each in (*some, *fast_clocks(REDLOCK)))


def test_a_late_write_comes_after_one_of_the_next_holder() -> None:
    trial = next(iter(late_writes(Setting("redlock-fenced", OPTIONS, fences=True))))
    with trials():
        events = run_trial(trial).events
    writes = [(event["client"], event["fence"], event["type"]) for event in events if event["f"] == "write"]
    assert writes == [("bob", 2, "invoke"), ("bob", 2, "ok"), ("alice", 1, "invoke"), ("alice", 1, "fail")]


@pytest.mark.parametrize(
    ("lock", "reentrant"),
    [
        ("tests.locks_to_test.unusual:Reentrant", True),
        ("redlock", False),
        ("single", False),
        ("mutant:set-without-nx", False),  # grants it to everybody
    ],
)
def test_a_lock_that_counts_its_holder_is_no_lock_that_grants_twice(lock: str, reentrant: bool) -> None:
    with trials():
        assert (
            is_reentrant(Setting(lock, OPTIONS, 5 if "redlock" in lock or "mutant" in lock else 1))
            is reentrant
        )


class GivesBackAll(Reentrant):
    """One release is enough, however often it was taken."""

    name = "gives-back-all"

    async def release(self, lease: Lease) -> None:
        self._held.pop(lease.key, None)
        await super().release(lease)


class GivesAllBack(GivesBackAll):
    """The same, and it says that it is meant to be taken again."""

    name = "gives-all-back"
    reentrant = True


class SaysNo(Reentrant):
    """It counts, and says that nobody may rely on that."""

    name = "says-no"
    reentrant = False


@pytest.mark.parametrize("options", [OPTIONS, {}])
@pytest.mark.parametrize(
    ("lock", "as_often", "tried", "asked"),
    [
        ("tests.locks_to_test.unusual:Reentrant", True, True, False),
        ("tests.locks_to_test.quietly_broken:InnerReleaseInSeconds", True, True, False),
        (f"{__name__}:GivesBackAll", False, False, True),
        (f"{__name__}:GivesAllBack", False, True, False),
        (f"{__name__}:SaysNo", True, False, False),
    ],
)
def test_a_lock_is_tried_as_reentrant_if_it_is_seen_to_be_so_or_says_so(
    lock: str, as_often: bool, tried: bool, asked: bool, options: dict[str, str | int | float | bool]
) -> None:
    with trials():
        setting = Setting(lock, options, 1)
        assert is_reentrant(setting)
        assert gives_back_as_often(setting) is as_often
        found = reentrance(setting)
    assert (found.setting is not None, found.doubt is not None) == (tried, asked)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ReentrantLock", True),
        ("reentrant_lock", True),
        ("RLock", True),
        ("RecursiveLock", True),
        ("NonReentrantLock", False),
        ("not_reentrant", False),
        ("OrderLock", None),
        ("Lock", None),
    ],
)
def test_a_name_may_say_whether_a_holder_may_take_the_lock_again(
    name: str, says: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.examine.schedules.reentrant.shape_of", lambda lock: None)
    monkeypatch.setattr("lab.examine.schedules.reentrant.lock_class", lambda lock: BaseLock)
    assert says_reentrant(f"my_locks:{name}") is says


def test_schedules_for_a_reentrant_lock_release_once() -> None:
    plain = list(islice(drawn(dataclasses.replace(REDLOCK, reentrant=True), Random(2), []), 60))
    assert all(
        each.ends == "release" for trial in plain for rounds in trial.clients.values() for each in rounds
    )
    others = list(islice(drawn(REDLOCK, Random(2), []), 60))
    assert any(
        each.ends != "release" for trial in others for rounds in trial.clients.values() for each in rounds
    )
