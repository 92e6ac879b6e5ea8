"""The situations: each kind once, none of them a defect of a correct lock, and telling of broken ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec.structs
import pytest

from lab.examine.kinds import Kind
from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.naming import causes_of
from lab.examine.profile.learn import learn
from lab.examine.profile.probes import Profile
from lab.examine.programs import ALICE, BOB, PROGRAMS, S_NS, Setting
from lab.examine.schedules.directed import (
    after_a_first_answer,
    beside_another_lock,
    between_two_commands,
    calls_that_come_late,
    cancelled_undo,
    cut_off_while_it_waits,
    late_answers,
    lost_majority,
    overtaken,
    refused_before,
    released_before_it_waits,
    undone_too_late,
)
from lab.examine.schedules.situations import (
    OPERATIONS,
    RATES,
    Found,
    apart_at_open,
    away,
    bare,
    clocks,
    crossing_extensions,
    disjoint,
    in_turns,
    long_after,
    outlived,
    patient,
    released_late,
    shared,
    situations,
    sorts,
)
from lab.examine.schedules.slow_replies import slow_replies
from lab.examine.violations.evidence import Evidence
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.hold import Hold
from lab.faults.power_cut import PowerCut
from lab.scenario.steps import Release
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS
from lab.search.command import OPTIONS, options_for
from lab.search.faults import KINDS, every_fault, is_a
from lab.search.runner import run_trial
from lab.search.trial import Trial

pytestmark = pytest.mark.usefixtures("_patched", "_trials")

LOCKS = "tests.locks_to_test"


def direction_of(fault: Timed) -> str:
    assert isinstance(fault.step, Cut | Hold)
    return fault.step.direction


def refuses(fault: Timed) -> bool:
    return isinstance(fault.step, Cut) and fault.step.mode == "refused"


def profile(*, sequential: bool = False) -> Profile:
    return Profile(Kind(True, sequential=sequential), extends=True)


def found(some: Iterator[Trial]) -> set[str]:
    return {finding for trial in some for finding in all_violations(run_trial(trial))}


def causes_in(some: list[Trial], finding: str) -> list[set[str]]:
    """The causes of a finding in each of these trials; none where it is not seen."""
    seen = [(trial, all_violations(run_trial(trial)).get(finding)) for trial in some]
    return [
        {cause.kind for cause in causes_of(trial, violation.finding)} if violation else set()
        for trial, violation in seen
    ]


@pytest.mark.parametrize(
    ("lock", "causes"),
    [
        (f"{LOCKS}.quietly_broken:ForgetsItsFences", {"fence-not-increasing"}),
        (f"{LOCKS}.unusual:Numbered", set()),
    ],
)
def test_what_a_node_was_to_keep_for_long_is_asked_for_an_hour_later(lock: str, causes: set[str]) -> None:
    some = list(long_after(Setting(lock, OPTIONS, 1, fences=True)))
    assert causes_in(some, "fence-order") == [set(), causes]
    worked = [len([each for each in run_trial(trial).events if each["f"] == "write"]) for trial in some]
    assert worked == [2 * 3] * 2


def test_no_situation_comes_twice_and_each_operation_meets_faults() -> None:
    some = list(situations(Setting("redlock", OPTIONS), profile(), PROGRAMS))
    keys = [trial.key() for trial in some]
    assert len(set(keys)) == len(keys)
    assert len(some) < 220
    assert {type(fault.step) for trial in some for fault in trial.faults} == {*KINDS} - {PowerCut}
    events = [fault.at for trial in some for fault in trial.faults if fault.at is not None]
    struck = {at.nth for at in events if at.event == SENDS}
    assert len(struck) == len(OPERATIONS)


@pytest.mark.full
@pytest.mark.parametrize("lock", ["redlock", "redlock-sequential"])
def test_a_correct_lock_on_several_nodes_survives_what_leaves_its_assumptions_alone(lock: str) -> None:
    setting = Setting(lock, OPTIONS)
    known = profile(sequential=lock != "redlock")
    for some in (
        bare(setting, PROGRAMS),
        shared(setting),
        disjoint(setting),
        apart_at_open(setting),
        away(setting, known.kind),
        overtaken(setting),
        released_late(setting),
        lost_majority(patient(setting)),
        crossing_extensions(patient(setting)),
        slow_replies(setting, known),
    ):
        assert found(some) == set()


@pytest.mark.parametrize(
    "lock",
    [
        "mutant:failed-extension-releases",
        "mutant:extend-on-minority",
        f"{LOCKS}.on_several:RefusedExtensionCounts",
    ],
)
def test_an_extension_without_a_majority_shows_who_takes_it_wrong(lock: str) -> None:
    assert "overlap" in found(lost_majority(Setting(lock, OPTIONS, ttl_ns=60 * S_NS)))


@pytest.mark.parametrize(
    ("lock", "causes"),
    [
        (f"{LOCKS}.on_several:AddsTheDifference", [{"wrong-expiry"}] * 2),
        ("redlock", [set(), set()]),
        ("redlock-sequential", [set(), set()]),
        (f"{LOCKS}.new_tokens:NewTokens", [set(), set()]),
    ],
)
@pytest.mark.parametrize("nodes", [3, 5])
def test_two_extensions_that_miss_different_nodes_show_who_adds(
    lock: str, causes: list[set[str]], nodes: int
) -> None:
    some = list(crossing_extensions(patient(Setting(lock, OPTIONS, nodes))))
    extended = [[e["type"] for e in run_trial(trial).events if e["f"] == "extend"] for trial in some]
    if lock != f"{LOCKS}.new_tokens:NewTokens":  # whose token a node that missed one does not know
        assert extended == [["invoke", "ok"] * 2] * 2
    assert [each & {"wrong-expiry"} for each in causes_in(some, "overlap")] == causes
    assert {*found(iter(some))} == ({"overlap", "false-validity"} if causes[0] else set())


@pytest.mark.parametrize(
    ("lock", "shown"),
    [
        (f"{LOCKS}.on_several:UndoIsCancelled", 2),
        (f"{LOCKS}.in_turn:InTurn", 0),
        (f"{LOCKS}.in_turn:ConnectsEachTime", 0),
        (f"{LOCKS}.new_tokens:NewTokens", 0),
        ("redlock", 0),
        ("redlock-sequential", 0),
    ],
)
def test_an_undo_that_is_cancelled_leaves_keys_only_of_who_does_not_begin_again(
    lock: str, shown: int
) -> None:
    some = list(cancelled_undo(Setting(lock, OPTIONS, 3)))
    cancelled = [[e.get("error") for e in run_trial(each).events if e["f"] == "acquire"] for each in some]
    assert any("cancelled" in errors for errors in cancelled)
    left = [each for each in causes_in(some, "unavailable") if each]
    assert len(left) == shown
    assert all("leaves-keys" in each for each in left)
    assert found(iter(some)) == ({"unavailable"} if shown else set())


@pytest.mark.parametrize(
    ("lock", "findings"),
    [
        ("quietly_broken:OneTokenForAll", {"overlap"}),
        ("unusual:FreshConnections", set()),
        ("plain:Plain", set()),
    ],
)
def test_a_release_that_arrives_in_the_next_lease_ends_it_only_under_its_own_token(
    lock: str, findings: set[str]
) -> None:
    assert found(released_late(Setting(f"{LOCKS}.{lock}", {}, 1))) & {"overlap"} == findings


def test_a_renewal_that_outlives_a_lost_release_is_seen() -> None:
    assert "leak" in found(outlived(Setting(f"{LOCKS}.quietly_broken:OutlivesLostRelease", {}, 1)))
    assert "leak" not in found(outlived(Setting(f"{LOCKS}.watchdog:Watchdog", {}, 1)))


@pytest.mark.parametrize(
    ("lock", "finding", "causes"),
    [
        ("mutant:get-then-set", "overlap", [{"overwrites-key"}, set(), set(), set()]),
        (
            f"{LOCKS}.quietly_broken:LooksThenProlongs",
            "others-key",
            [set(), set(), {"extends-others-key"}, set()],
        ),
        ("mutant:get-then-del", "overlap", [set(), set(), set(), {"deletes-others-key"}]),
    ],
)
def test_another_takes_the_lock_between_a_look_and_what_rests_on_it(
    lock: str, finding: str, causes: list[set[str]]
) -> None:
    some = list(after_a_first_answer(Setting(lock, OPTIONS, 1), extends=True))
    assert causes_in(some, finding) == causes


@pytest.mark.parametrize("lock", ["single", f"{LOCKS}.plain:Plain", f"{LOCKS}.unusual:LooksFirst"])
def test_who_compares_and_changes_in_one_step_does_not_mind_who_is_there_meanwhile(lock: str) -> None:
    assert found(after_a_first_answer(Setting(lock, OPTIONS, 1), extends=True)) == set()


@pytest.mark.parametrize("lock", ["single", f"{LOCKS}.plain:Plain", f"{LOCKS}.in_one_call:InATable"])
def test_who_compares_does_not_mind_late_calls_other_locks_or_leases_that_end_in_between(lock: str) -> None:
    setting = Setting(lock, OPTIONS, 1)
    assert found(calls_that_come_late(setting, extends=True)) == set()
    assert found(between_two_commands(setting, extends=True)) == set()
    assert found(beside_another_lock(setting)) == set()


@pytest.mark.parametrize("lock", ["LooksThenWatches", "ByDigestOrByHand"])
def test_another_has_the_lock_between_two_commands(lock: str) -> None:
    """Of any call, or only of the first one, which finds that its script is not loaded."""
    some = list(between_two_commands(Setting(f"{LOCKS}.in_one_call:{lock}", {}, 1), extends=False))
    assert {"deletes-others-key"} in causes_in(some, "overlap")


@pytest.mark.parametrize(("lock", "calls"), [("LooksThenWatches", [2, 2]), ("ByDigestOrByHand", [1, 1, 1])])
def test_the_first_call_is_tried_only_if_it_sends_more(lock: str, calls: list[int]) -> None:
    some = between_two_commands(Setting(f"{LOCKS}.in_one_call:{lock}", {}, 1), extends=False)
    releases = [sum(isinstance(timed.step, Release) for timed in trial.tracks[ALICE]) for trial in some]
    assert releases == calls


def test_what_arrives_when_the_key_is_gone_was_kept_from_taking_it_away() -> None:
    some = list(calls_that_come_late(Setting(f"{LOCKS}.in_one_call:SaysNothing", {}, 1), extends=False))
    assert "unavailable" in found(iter(some))
    assert causes_in(some, "unavailable") == [set()]


@pytest.mark.parametrize(
    ("lock", "options", "causes"),
    [
        (f"{LOCKS}.on_several:OneTokenForThreeTries", {}, {"same-token"}),
        (f"{LOCKS}.on_several:TakesBackBeside", {}, set()),
        ("redlock", OPTIONS, set()),
        ("redlock-sequential", OPTIONS, set()),
    ],
)
def test_what_takes_a_try_back_comes_when_the_next_one_has_the_lock(
    lock: str, options: dict[str, str | int | float | bool], causes: set[str]
) -> None:
    some = list(undone_too_late(Setting(lock, options)))
    assert len(some) == 2
    assert causes_in(some, "overlap") == [causes] * 2
    assert causes or found(iter(some)) == set()


@pytest.mark.parametrize(
    ("lock", "causes"),
    [
        (f"{LOCKS}.observed:ComparesTheHolder", [set(), {"overwrites-key"}]),
        *((lock, [set(), set()]) for lock in ("observed-lease", "single", "redlock")),
    ],
)
def test_what_was_seen_before_is_out_of_date_a_lease_later(lock: str, causes: list[set[str]]) -> None:
    some = list(refused_before(Setting(lock, options_for(lock), 1), extends=True))
    assert causes_in(some, "overlap") == causes
    assert any(causes) or found(iter(some)) == set()


@pytest.mark.parametrize(
    ("lock", "situations_of", "causes"),
    [
        ("ListensTooLate", released_before_it_waits, {"waits-too-long"}),
        ("Listens", released_before_it_waits, set()),
        ("LosesItsPlace", cut_off_while_it_waits, {"waits-too-long"}),
        ("InLine", cut_off_while_it_waits, set()),
    ],
)
def test_who_waits_hears_that_the_lock_is_free_and_keeps_its_place(
    lock: str, situations_of: Callable[[Setting], Iterator[Trial]], causes: set[str]
) -> None:
    some = list(situations_of(Setting(f"{LOCKS}.ordinary.waiting:{lock}", {}, 1)))
    seen = causes_in(some, "unavailable")
    assert some
    assert set().union(*seen) == causes
    assert causes or found(iter(some)) == set()


def test_what_ends_for_all_locks_together_is_wrong_for_another() -> None:
    some = list(beside_another_lock(Setting(f"{LOCKS}.in_one_call:EndsTheTable", {}, 1)))
    assert causes_in(some, "overlap") == [{"mixes-keys"}, set()]
    assert causes_in(some, "leak") == [set(), {"mixes-keys"}]


@pytest.mark.parametrize(
    ("lock", "causes"),
    [
        (f"{LOCKS}.misleading:KeepsItsConnection", {"mistakes-reply"}),
        (f"{LOCKS}.plain:Plain", set()),
        ("single", set()),
    ],
)
def test_answers_that_come_late_are_taken_for_those_to_later_requests(lock: str, causes: set[str]) -> None:
    some = list(late_answers(Setting(lock, OPTIONS, 1), extends=True))
    assert causes_in(some, "overlap") == [causes] * len(OPERATIONS)


@pytest.mark.parametrize(
    ("lock", "causes"),
    [
        (f"{LOCKS}.on_several:LeavesOutAtOpen", [{"too-few-votes"}, set()]),
        ("redlock", [set(), set()]),
    ],
)
def test_nodes_that_refuse_connections_as_a_lock_is_opened_are_left_out(
    lock: str, causes: list[set[str]]
) -> None:
    """To a node that is silent a connection is made."""
    refusing, silent = apart_at_open(Setting(lock, OPTIONS))
    assert [refuses(fault) for fault in (*refusing.faults, *silent.faults)] == [True, True, False, False]
    assert causes_in([refusing, silent], "overlap") == causes


@pytest.mark.parametrize(
    ("lock", "nodes", "some"),
    [
        ("single", 1, lambda setting: after_a_first_answer(setting, extends=True)),
        ("single", 1, lambda setting: late_answers(setting, extends=True)),
        ("redlock", 5, apart_at_open),
    ],
)
def test_they_are_among_the_situations(
    lock: str, nodes: int, some: Callable[[Setting], Iterator[Trial]]
) -> None:
    setting, of_several = Setting(lock, OPTIONS, nodes), nodes > 1
    keys = {each.key() for each in situations(setting, Profile(Kind(of_several), extends=True), PROGRAMS)}
    own = {each.key() for each in some(setting)}
    assert own
    assert own <= keys


def test_nobody_is_kept_from_the_nodes_where_no_majority_counts_or_there_are_too_few() -> None:
    several = situations(Setting("single", OPTIONS), Profile(Kind(False), extends=True), PROGRAMS)
    assert not any(refuses(fault) for each in several for fault in each.faults)
    assert list(apart_at_open(Setting("redlock", OPTIONS, 3))) == []


def test_late_answers_come_when_another_has_the_lock_and_she_waits_for_others() -> None:
    for late in late_answers(Setting(f"{LOCKS}.misleading:KeepsItsConnection", OPTIONS, 1), extends=True):
        seen = Evidence(run_trial(late, watch=True))
        come_ns = seen.fault_ends()["f1"]
        held, given_back = seen.of(BOB, "acquire")[-1], seen.of(BOB, "release")[0]
        waits = seen.of(ALICE, "acquire")[2]
        assert held.how == "ok"
        assert held.ended_ns < waits.called_ns < come_ns < waits.ended_ns
        assert come_ns < given_back.called_ns


def test_the_last_nodes_are_slow_for_who_asks_one_after_the_other() -> None:
    setting = Setting("redlock-sequential", {**OPTIONS, "node_timeout": "100ms"})
    first, *_ = slow_replies(setting, replace(profile(sequential=True), waits_ns=S_NS // 10))
    (fault,) = every_fault(first)
    assert isinstance(fault.step, Delay)
    assert 80_000_000 < fault.step.by_ns < 100_000_000
    assert 3 * fault.step.by_ns < first.ttl_ns < 5 * fault.step.by_ns


@pytest.mark.parametrize("lock", ["single", "redlock", f"{LOCKS}.on_several:CountsFromReplies"])
def test_a_lease_that_is_counted_from_late_replies_loses_an_update(lock: str) -> None:
    waits = replace(profile(), gives_up_ns=100_000_000)
    late = slow_replies(Setting(lock, {**OPTIONS, "node_timeout": "100ms"}), waits)
    assert ("lost-update" in found(late)) == lock.endswith("CountsFromReplies")


@pytest.mark.parametrize(
    ("gives_up_ms", "tries", "late_ms"),
    [(200, 1, [180, 90]), (600, 3, [180, 90]), (5_000, 1, [900]), (3_000, 3, [900, 450])],
)
def test_replies_of_nodes_that_are_asked_at_once_come_shortly_before_a_try_is_over(
    gives_up_ms: int, tries: int, late_ms: list[int]
) -> None:
    waits = replace(profile(), gives_up_ns=gives_up_ms * 10**6, tries=tries)
    some = list(slow_replies(Setting("redlock", {**OPTIONS, "node_timeout": "100ms"}), waits))
    slow = [fault.step for each in some for fault in every_fault(each)]
    assert [step.by_ns // 10**6 for step in slow if isinstance(step, Delay)] == late_ms
    assert len(slow) == len(late_ms)


def test_late_replies_find_somebody_else_also_where_leases_are_rounded_up_to_seconds() -> None:
    short = [each for each in clocks(Setting("redlock", OPTIONS), profile()) if each.ttl_ns < 2 * S_NS]
    assert short
    for each in short:
        late = next(fault for fault in each.faults if is_a(fault, Hold))
        assert 2 * S_NS < each.clients["bob"][0].think_ns < late.lasts_ns


def test_a_driver_is_given_time_where_leases_are_long() -> None:
    assert patient(Setting("driver:redlock-py", {})).options == {"answer_within": "300s"}
    assert patient(Setting("redlock", OPTIONS)).options == OPTIONS


def numbered(**sizes: int) -> dict[str, Iterator[Trial]]:
    """Sorts with so many situations each, which their seeds tell apart."""
    return {
        sort: iter([msgspec.structs.replace(BASE, seed=100 * at + number) for number in range(size)])
        for at, (sort, size) in enumerate(sizes.items())
    }


BASE = Setting("single", {}, 1).trial(PROGRAMS[0])


def test_sorts_that_were_not_measured_take_turns() -> None:
    given = [each.seed for each in in_turns(numbered(a=2, b=4, c=1), {})]
    assert given == [0, 100, 200, 1, 101, 102, 103]


def test_a_sort_that_finds_more_in_the_same_time_has_more_turns_and_none_is_left_out() -> None:
    rates = {"a": Found(0, 10.0), "b": Found(5, 10.0)}
    given = [each.seed for each in in_turns(numbered(a=4, b=9, c=4), rates)]
    assert sorted(given) == sorted([0, 1, 2, 3, *range(100, 109), 200, 201, 202, 203])
    first = given[: given.index(0)]
    assert len([each for each in first if each // 100 == 1]) == 2
    assert first.count(200) == 1, "what was not measured has the average rate"


def test_what_was_measured_is_of_sorts_that_there_are() -> None:
    setting = Setting("redlock", {"node_timeout": "250ms", "retry_count": 1}, 5)
    there = set(sorts(setting, learn(setting), PROGRAMS))
    assert set(RATES) <= there | {"renewal"}
