"""Schedules as Hypothesis draws them: correct locks hold, broken ones are found, shrunk and replayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis.vendor import pretty

from lab import strategies
from lab.api.strategies import SAFE_KINDS, Ran, Round, Trial, Violated
from lab.errors import LabError
from lab.examine.violations.judge import labels, unfinished
from lab.faults.base import Fault
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.drift import Drift
from lab.faults.heal import Heal
from lab.faults.hold import Hold
from lab.faults.power_cut import PowerCut
from lab.locks import margin_ns
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.faults import BY_NAME, moved, nodes_of, timed_fault, with_fields
from tests.fuzzing import examples
from tests.unit.strategies.locks import Mine

S_NS = 10**9
TTL_NS = 5 * S_NS
MINE = "tests.unit.strategies.locks:Mine"
KEPT = Trial(
    "mutant:bare-del",
    {"alice": (Round(0, 12 * S_NS // 2), Round(0, S_NS // 20)), "bob": (Round(11 * S_NS // 2, 3 * S_NS),)},
    ttl_ns=TTL_NS,
)
"""Alice releases when her lease is over and Bob holds the lock; then she is granted it as well."""


@pytest.fixture(autouse=True, scope="module")
def _simulated(_patched: None) -> Iterator[None]:
    with strategies.simulated():
        yield


@pytest.mark.full
@settings(max_examples=examples(200))
@given(strategies.schedules("redlock", clients=3, faults="safe"))
def test_redlock_bears_what_a_correct_lock_bears(schedule: Trial) -> None:
    strategies.run(schedule).assert_holds()


def failing(lock: str | type, **asked: Any) -> tuple[Violated, Trial]:
    """What Hypothesis reports of a property that does not hold: the failure, and the smallest schedule."""
    tried: list[Trial] = []

    @settings(max_examples=200, phases=[Phase.generate, Phase.shrink])
    @given(strategies.schedules(lock, **asked))
    def holds(schedule: Trial) -> None:
        tried.append(schedule)
        strategies.run(schedule).assert_holds()

    with pytest.raises(Violated) as caught:
        holds()
    return caught.value, tried[-1]  # the last one that is tried is the one that is reported


@pytest.mark.parametrize(
    ("lock", "rounds", "extensions"),
    [("mutant:bare-del", 5, 0), ("mutant:set-without-nx", 2, 0), ("mutant:extends-locally", 3, 2)],
)
def test_a_broken_lock_is_found_and_its_schedule_is_small(lock: str, rounds: int, extensions: int) -> None:
    failure, schedule = failing(lock, clients=2)
    assert "overlap" in failure.violations
    assert len(schedule.faults) <= 1
    every = [each for client in schedule.clients.values() for each in client]
    assert len(every) <= rounds
    assert sum(each.extends for each in every) <= extensions
    assert set(strategies.run(schedule).violations) >= set(failure.violations)


def test_the_failure_says_what_is_violated_and_how_to_replay_it() -> None:
    with pytest.raises(Violated) as caught:
        strategies.run(KEPT).assert_holds()
    message = str(caught.value)
    assert message.startswith("mutant:bare-del violates overlap")
    assert "overlap: bob and alice both held 'resource'" in message
    assert "  alice: holds the lock for 6s, releases; then" in message
    assert "@example(schedule)" in message
    schedule = eval(message.partition("\nschedule = ")[2], vars(strategies))
    assert schedule == KEPT


def test_a_kept_schedule_is_replayed_as_an_example() -> None:
    ran: list[Ran] = []

    @settings(phases=[Phase.explicit])
    @example(KEPT)
    @given(strategies.schedules())
    def holds(schedule: Trial) -> None:
        ran.append(strategies.run(schedule))
        ran[-1].assert_holds()

    with pytest.raises(Violated):
        holds()
    assert [one.schedule for one in ran] == [KEPT]
    assert ran[0].digest() == strategies.run(KEPT).digest()
    assert not ran[0].ok
    assert ran[0].events


def test_findings_can_be_singled_out_and_allowed() -> None:
    ran = strategies.run(KEPT)
    found = set(ran.violations)
    assert "overlap" in found
    with pytest.raises(Violated):
        ran.assert_holds("overlap", "leak")
    with pytest.raises(Violated):
        ran.assert_holds(allow=("leak",))
    ran.assert_holds("leak")
    ran.assert_holds(allow=found)
    with pytest.raises(LabError, match="overlapp"):
        ran.assert_holds("overlapp")


@settings(max_examples=examples(100))
@given(strategies.schedules(clients=4, nodes=7, faults="safe", max_faults=6))
def test_safe_schedules_are_within_the_assumptions(schedule: Trial) -> None:
    assert not labels(schedule)
    assert {fault.step.KEY for fault in schedule.faults} <= set(SAFE_KINDS)
    assert list(schedule.clients) == ["alice", "bob", "carol", "dave"]
    assert all(1 <= len(rounds) <= 3 for rounds in schedule.clients.values())
    assert {node for fault in schedule.faults for node in nodes_of(fault)} <= set("ABCDEFG")


def test_every_kind_of_fault_is_drawn_and_only_those_that_were_asked_for() -> None:
    seen: dict[str, set[str]] = {"all": set(), "safe": set(), "some": set()}

    @settings(max_examples=300)
    @given(strategies.faults("all"), strategies.faults("safe"), strategies.faults(["jump", "pause"]))
    def draw(one: Timed, safe: Timed, some: Timed) -> None:
        for name, fault in zip(seen, (one, safe, some), strict=True):
            seen[name].add(fault.step.KEY)

    draw()
    assert seen == {"all": set(BY_NAME), "safe": set(SAFE_KINDS), "some": {"jump", "pause"}}


@settings(max_examples=examples(100))
@given(strategies.schedules(faults="all", persistence=None, options=strategies.lock_options("redlock")))
def test_a_schedule_is_shown_as_the_python_that_makes_it(schedule: Trial) -> None:
    names = dict(vars(strategies))
    assert eval(repr(schedule), names) == schedule
    assert eval(pretty.pretty(schedule), names) == schedule
    words = strategies.describe(schedule)
    assert all(f"  {client}: " in words for client in schedule.clients)
    assert words.count("  fault: ") == len(schedule.faults)


def test_a_schedule_is_described_in_words() -> None:
    fault = timed_fault(Cut, on("bob", "acquire invoke", 2, 200_000_000), "bob", ("A", "B"), lasts_ns=S_NS)
    drift = timed_fault(Drift, at_start(), nodes=("C",), ppm=8_000)
    schedule = Trial("redlock", {"bob": (Round(0, S_NS, 2, "keep"),)}, (fault, drift), ttl_ns=TTL_NS)
    assert strategies.describe(schedule).splitlines() == [
        "redlock on 5 nodes, TTL 5s, seed 0",
        "  bob: holds the lock for 1s, extending it twice, keeps the lock until it expires",
        "  fault: the packets between Bob and A and B are lost for 1s, 0.2s after Bob calls acquire for the "
        "second time",
        "  fault: the clock of C runs 0.8 % too fast for good, from the start",
    ]


HIT = timed_fault(Crash, on("alice", "acquire invoke"), nodes=("A", "B"))
"""It hits two nodes."""


@pytest.mark.parametrize("lasts_ns", [S_NS, 0])
@pytest.mark.parametrize("kind", [Crash, PowerCut])
def test_a_fault_of_several_nodes_hits_each_of_them(kind: type[Fault], lasts_ns: int) -> None:
    fault = timed_fault(kind, on("alice", "acquire invoke"), nodes=("A", "B"), lasts_ns=lasts_ns)
    schedule = Trial("redlock", {"alice": (Round(0, 2 * S_NS),)}, (fault,), ttl_ns=TTL_NS)
    events = [each for each in strategies.run(schedule).events if each["process"] == "nemesis"]
    assert [(each["f"], *each["targets"]) for each in events if each["type"] != "invoke"] == [
        (f, node) for f in (kind.KEY, kind.ENDED_BY)[: 2 if lasts_ns else 1] for node in "AB"
    ]
    assert {each["type"] for each in events} == {"invoke", "ok"}, "each has its receipt"
    words = strategies.describe(schedule)
    assert all(re.search(rf"\b{node}\b", words.partition("fault:")[2]) for node in "AB"), words


@pytest.mark.parametrize(
    ("fault", "key", "seen"),
    [
        (with_fields(HIT, nodes=("A", "Z")), "crash.nodes[1]", "the node 'Z'"),
        (moved(HIT, on("eve", "acquire invoke")), "crash.at", "an event of 'eve'"),
        (HIT.model_copy(update={"at": None}), "crash.at", "no event"),
        (moved(HIT, at_start(-S_NS)), "crash.at", "-1000000000 ns"),
        (HIT.model_copy(update={"step": Heal()}), "heal", "a heal"),
    ],
)
def test_a_schedule_that_cannot_be_is_one_clear_error(fault: Timed, key: str, seen: str) -> None:
    with pytest.raises(LabError, match=seen) as caught:
        strategies.run(Trial("redlock", {"alice": (Round(0, S_NS),)}, (fault,)))
    assert (caught.value.exit_code, caught.value.where) == (2, f"the schedule, key faults[0].{key}")
    assert caught.value.expected


@pytest.mark.parametrize("lock", ["redlock", "single", "redlock-hyperf", Mine])
def test_drawn_options_are_taken_by_the_lock(lock: str | type) -> None:
    names: set[str] = set()

    @settings(max_examples=60)
    @given(strategies.lock_options(lock))
    def fits(options: dict[str, Any]) -> None:
        names.update(options)
        margin_ns(MINE if isinstance(lock, type) else lock, TTL_NS, options)

    fits()
    assert {"node_timeout", "retry_count", "drift_factor"} <= names
    assert "quorum" not in names


def test_a_lock_of_ones_own_is_named_by_its_class() -> None:
    _, by_class = failing(Mine)
    _, by_name = failing(MINE)
    assert by_class == by_name
    assert by_class.lock == MINE


def test_a_class_inside_a_function_is_refused() -> None:
    class Inside(Mine):
        pass

    with pytest.raises(LabError, match="top level"):
        strategies.schedules(Inside)


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"lock": "redlok"}, "lock.name"),
        ({"lock": "driver:redsync"}, "--lock"),
        ({"clients": 5}, "clients"),
        ({"nodes": 0}, "nodes"),
        ({"ttl": "5"}, "ttl"),
        ({"ttl": "5ms"}, "ttl"),
        ({"faults": "none"}, "faults"),
        ({"faults": ["cuts"]}, "faults"),
        ({"rounds": 0}, "rounds"),
        ({"max_faults": -1}, "max_faults"),
        ({"options": {"patience": "1s"}}, "lock.options.patience"),
    ],
)
def test_what_cannot_be_is_refused_at_once(asked: dict[str, Any], where: str) -> None:
    with pytest.raises(LabError) as caught:
        strategies.schedules(**asked)
    assert caught.value.where == where


def test_without_faults_there_are_none() -> None:
    @settings(max_examples=20)
    @given(strategies.schedules(max_faults=0), strategies.schedules(faults=[]))
    def draw(one: Trial, other: Trial) -> None:
        assert one.faults == other.faults == ()

    draw()
    with pytest.raises(LabError, match="no kind"):
        strategies.faults([])


@pytest.mark.parametrize(("called_ns", "hangs"), [(0, True), (5 * S_NS, False)])
def test_what_is_called_just_before_the_end_does_not_hang(called_ns: int, hangs: bool) -> None:
    """Alice's release goes out to nodes that do not answer, early or at the end of the time."""
    cut = timed_fault(Hold, on("alice", "granted"), "alice", tuple("ABCDE"), direction="replies")
    rounds: dict[str, tuple[Round, ...]] = {"alice": (Round(called_ns, S_NS // 2),)}
    schedule = Trial("redlock", rounds, (cut,), ttl_ns=S_NS, horizon_ns=6 * S_NS)
    schedule.options["node_timeout"] = "60s"
    outcome = strategies.run(schedule).outcome
    assert [event["f"] for event in unfinished(outcome)] == (["release"] if hangs else [])
    assert outcome.events[-1]["type"] == "invoke"
