"""What only the simulated nodes show: who was overtaken, what is claimed too much, whose keys stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from lab.durations import parse_duration_ns
from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.naming import causes_of, name_of
from lab.examine.ledger.rules import breaches
from lab.examine.ledger.words import tell
from lab.examine.profile.learn import learn
from lab.examine.programs import ALICE, BOB, S_NS, TTL_NS, Setting
from lab.examine.schedules.beyond import forgetting
from lab.examine.schedules.directed import after_a_first_answer
from lab.examine.schedules.reentrant import given_back_once, nested_bases
from lab.examine.schedules.situations import shared
from lab.examine.violations.judge import violations
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger, at_start, on
from lab.search.command import OPTIONS
from lab.search.faults import timed_fault
from lab.search.runner import Outcome, run_trial, trials
from lab.search.trial import Round, Trial
from tests.locks_to_test.plain import Plain
from tests.locks_to_test.quietly_broken import LoadsItsScriptOnce

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test"
BROKEN = f"{LOCKS}.quietly_broken"


@pytest.fixture(autouse=True)
def _trials() -> Iterator[None]:
    with trials():
        yield


def on_one(lock: str) -> Setting:
    return Setting(lock, OPTIONS, 1)


def found(some: Iterator[Trial] | list[Trial]) -> set[tuple[str, str]]:
    """All findings, each with its first cause."""
    seen = set()
    for trial in some:
        for violation in all_violations(run_trial(trial)).values():
            causes = [each.kind for each in causes_of(trial, violation.finding)]
            seen.add((violation.finding, causes[0] if causes else ""))
    return seen


def one_node_away(lock: str) -> Trial:
    """The first of five nodes is down when Alice gives the lock back; Bob asks from then on."""
    down = timed_fault(Crash, on(ALICE, "release invoke"), nodes=("A",))
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),), BOB: (Round(2 * S_NS, S_NS),)}
    return Setting(lock, OPTIONS).with_clients(clients, (down,))


def restarted(setting: Setting) -> list[Trial]:
    """All nodes restart with their data while Alice holds the lock."""
    return [each for each in forgetting(setting) if each.persistence != "none"]


@pytest.mark.parametrize(
    ("some", "expected"),
    [
        (
            lambda: after_a_first_answer(on_one(f"{BROKEN}:FenceDrawnFirst"), extends=True),
            ("fence-order", "fence-not-increasing"),
        ),
        (lambda: [confirmed_later()], ("false-validity", "late-deadline")),
        (
            lambda: after_a_first_answer(on_one(f"{BROKEN}:LooksThenProlongs"), extends=True),
            ("others-key", "extends-others-key"),
        ),
        (
            lambda: [given_back_once(on_one(f"{BROKEN}:FreshLeaseAgain"))],
            ("false-validity", "late-deadline"),
        ),
        (lambda: [given_back_once(on_one(f"{BROKEN}:InnerReleaseInSeconds"))], ("overlap", "wrong-expiry")),
        (
            lambda: restarted(on_one(f"{BROKEN}:LoadsItsScriptOnce")),
            ("release-without-effect", "does-not-recover"),
        ),
        (
            lambda: [one_node_away(f"{LOCKS}.on_several:ReleaseStops")],
            ("release-without-effect", "leaves-keys"),
        ),
        (
            lambda: shared(Setting(f"{LOCKS}.on_several:UndoesAtTheEnd", OPTIONS)),
            ("unavailable", "leaves-keys"),
        ),
    ],
)
def test_it_is_found_with_its_cause_and_nothing_else(some: object, expected: tuple[str, str]) -> None:
    assert callable(some)
    assert found(some()) == {expected}


@pytest.mark.parametrize(
    "lock",
    [
        *("single", f"{LOCKS}.plain:Plain", f"{LOCKS}.unusual:Numbered", f"{LOCKS}.unusual:LooksFirst"),
        *(f"{LOCKS}.unusual:SameTokenAgain", f"{LOCKS}.watchdog:Watchdog", f"{LOCKS}.unusual:Reentrant"),
    ],
)
def test_a_correct_lock_on_one_node_is_not_accused(lock: str) -> None:
    setting = on_one(lock) if lock == "single" else Setting(lock, {}, 1)
    assert found(after_a_first_answer(setting, extends=True)) == set()
    assert found(restarted(setting)) == set()


@pytest.mark.parametrize("lock", ["redlock", "redlock-fenced", f"{LOCKS}.in_turn:InTurn"])
def test_a_correct_lock_on_several_nodes_is_not_accused(lock: str) -> None:
    setting = Setting(lock, OPTIONS)
    assert found(after_a_first_answer(setting, extends=True)) == set()
    assert found([*shared(setting), one_node_away(lock), *restarted(setting)]) == set()


def test_a_client_may_take_a_lock_again_that_counts() -> None:
    setting = on_one(f"{LOCKS}.unusual:Reentrant")
    some = list(nested_bases(setting, learn(setting)))
    assert len(some) > 40
    assert found(some) == set()
    as_two = [all_violations(run_trial(replace(each, reentrant=False))) for each in some]
    assert sum("overlap" in each for each in as_two) > 20


def confirmed_later() -> Trial:
    """The replies to Alice's second acquire come when she has just stopped waiting for them."""
    setting = on_one(f"{BROKEN}:ConfirmedLater")
    late_ns = parse_duration_ns(str(OPTIONS["node_timeout"])) + S_NS // 100
    late = timed_fault(Hold, on(ALICE, "acquire invoke", 2), ALICE, ("A",), 0, late_ns, "replies")
    turn = Round(0, S_NS // 100)
    return setting.with_clients({ALICE: (turn, turn), BOB: (Round(S_NS, S_NS),)}, (late,))


def test_a_claim_is_compared_with_what_the_nodes_keep() -> None:
    """The second grant is confirmed a quarter of a second after its key was set."""
    outcome = run_trial(confirmed_later())
    claims = {at: outcome.events[at]["claimed_ns"] - left for at, left in outcome.left_ns.items()}
    assert [over > S_NS // 10 for over in claims.values()].count(True) == 1
    assert outcome.left_ns == run_trial(outcome.trial, watch=True).left_ns
    assert all(0 < left <= TTL_NS for left in outcome.left_ns.values())


@pytest.mark.parametrize(
    "fault",
    [
        timed_fault(Drift, at_start(), nodes=("A",), ppm=100),
        timed_fault(Jump, at_start(), ALICE, by_ns=S_NS),
        timed_fault(Pause, on(BOB, "release invoke"), BOB, lasts_ns=S_NS),
    ],
)
def test_no_claim_is_judged_where_clocks_were_moved_or_somebody_stood_still(fault: Timed) -> None:
    trial = confirmed_later()
    assert "false-validity" in all_violations(run_trial(trial))
    assert "false-validity" not in all_violations(run_trial(replace(trial, faults=(*trial.faults, fault))))


def test_a_node_that_is_down_may_have_the_key() -> None:
    """Of three nodes one is down when Alice is granted the lock, and another at her extension."""
    gone = [timed_fault(Crash, on(ALICE, "extend invoke"), nodes=("A",), lasts_ns=S_NS // 100)]
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS, 1),)}
    outcome = run_trial(Setting("redlock", OPTIONS, 3).with_clients(clients, tuple(gone), demand=False))
    extended = [at for at, each in enumerate(outcome.events) if (each["f"], each["type"]) == ("extend", "ok")]
    assert extended
    assert outcome.left_ns.get(extended[0], TTL_NS) > TTL_NS * 9 // 10


def test_the_overtaken_grant_is_undecided_for_the_checker() -> None:
    some = after_a_first_answer(on_one(f"{BROKEN}:FenceDrawnFirst"), extends=False)
    shown = [run_trial(each) for each in some]
    fenced = [each for each in shown if "fence-order" in all_violations(each)]
    assert fenced
    assert all("fence-order" not in violations(each) for each in fenced)


def stays(outcome: Outcome) -> list[str]:
    found = all_violations(outcome)
    return [found[name].headline for name in ("release-without-effect", "leak") if name in found]


def test_keys_on_nodes_that_a_fault_hit_are_not_held_against_a_release() -> None:
    trial = one_node_away(f"{LOCKS}.on_several:ReleaseStops")
    assert stays(run_trial(trial))
    others = tuple(
        timed_fault(Cut, on(ALICE, "release invoke"), ALICE, (node,), lasts_ns=S_NS // 1000) for node in "BC"
    )
    assert stays(run_trial(replace(trial, faults=(*trial.faults, *others)))) == []


@pytest.mark.parametrize(
    ("lock", "expected"),
    [
        ("mutant:undo-overtakes-set", {("unavailable", "leaves-keys")}),
        (f"{LOCKS}.unusual:BreaksOff", {("unavailable", "")}),
        ("tests.unit.examine.odd_locks:BreaksOffOnAll", {("unavailable", "")}),
        (f"{LOCKS}.unusual:FreshConnections", set()),
    ],
)
def test_an_undo_that_is_overtaken_is_no_defect_of_an_attempt_that_claims_nothing(
    lock: str, expected: set[tuple[str, str]]
) -> None:
    """The first of them calls the attempt refused, on one node, which has its key."""
    setting = Setting(lock, OPTIONS) if lock.endswith("OnAll") else on_one(lock)
    when, late_ns = on(ALICE, "acquire invoke", 2), TTL_NS // 12
    slow = timed_fault(Delay, when, ALICE, setting.names, late_ns, S_NS // 200, direction="requests")
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    assert found([setting.with_ttl(2 * TTL_NS).with_clients(clients, (slow,))]) == expected


def test_who_is_cancelled_undoes_on_all_nodes_also_behind_a_silent_one() -> None:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS, cancel_ns=S_NS // 3000),)}
    setting = Setting(f"{LOCKS}.in_turn:InTurn", OPTIONS, 3).with_ttl(2 * TTL_NS)
    silent = [(timed_fault(Cut, at_start(), ALICE, (node,)),) for node in setting.names]
    assert found([setting.with_clients(clients, faults) for faults in silent]) == set()


@pytest.mark.parametrize(
    "lock", [f"{LOCKS}.unusual:BreaksOff", "tests.unit.examine.odd_locks:BreaksOffOnAll"]
)
def test_a_key_of_the_attempt_before_is_no_key_of_this_one(lock: str) -> None:
    """Alice asks again when her SET and what undoes it are held up, and the SET arrives."""
    setting = Setting(lock, OPTIONS) if lock.endswith("OnAll") else on_one(lock)
    held = timed_fault(Hold, on(ALICE, "acquire invoke"), ALICE, setting.names, 0, TTL_NS // 6, "requests")
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    assert found([setting.with_ttl(2 * TTL_NS).with_clients(clients, (held,))]) == {("unavailable", "")}


def test_a_try_that_is_refused_by_a_key_that_came_after_its_undo_left_none() -> None:
    """The second try of one acquire; what was to undo the first had been on the nodes before its SET."""
    setting = Setting("tests.unit.examine.odd_locks:BreaksOffOnAll", {**OPTIONS, "retry_count": 2}, 3)
    slow = timed_fault(
        Delay, on(ALICE, "acquire invoke"), ALICE, ("B", "C"), TTL_NS // 12, S_NS // 200, "requests"
    )
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    assert found([setting.with_ttl(2 * TTL_NS).with_clients(clients, (slow,))]) == {("unavailable", "")}


def test_who_does_not_hear_that_a_script_is_unknown_need_not_send_it() -> None:
    """Her undo reaches the node, which answers NOSCRIPT: she would send the script itself, had she heard."""
    setting = on_one(f"{LOCKS}.plain:Plain")
    deaf = timed_fault(Cut, on(ALICE, "sends", 2), ALICE, ("A",), direction="replies")
    clients: dict[str, tuple[Round, ...]] = {ALICE: (), BOB: (Round(3 * S_NS // 10, 3 * S_NS),)}
    trial = setting.with_ttl(10 * S_NS).with_clients(clients, (deaf,))
    outcome = run_trial(trial, watch=True)
    assert [each for each in outcome.commands if each.name == "EVALSHA" and "NOSCRIPT" in (each.error or "")]
    assert found([trial]) == {("unavailable", "")}
    hears = setting.with_ttl(10 * S_NS).with_clients(clients, ())
    assert found([hears]) == set()


class LoadsFirst(Plain):
    """It loads a script each time before it calls it."""

    async def _run(self, script: str, key: str, *arguments: str | int) -> Any:
        digest = await self._call("SCRIPT", "LOAD", script)
        return await self._call("EVALSHA", digest.decode(), 1, key, *arguments)


def test_who_does_not_hear_that_a_script_is_loaded_need_not_call_it() -> None:
    deaf = timed_fault(Cut, on(ALICE, "sends", 2), ALICE, ("A",), direction="replies")
    clients: dict[str, tuple[Round, ...]] = {ALICE: (), BOB: (Round(3 * S_NS // 10, 3 * S_NS),)}
    setting = on_one(f"{__name__}:LoadsFirst").with_ttl(10 * S_NS)
    assert found([setting.with_clients(clients, (deaf,))]) == {("unavailable", "")}


ALL = tuple("ABCDE")
JUST_AFTER_NS = S_NS // 5_000
"""Until then a release is about to reach its nodes."""


@pytest.mark.parametrize(
    ("setting", "when", "hit", "cut"),
    [
        pytest.param(
            Setting("redlock", OPTIONS),
            on(ALICE, "release invoke"),
            ALL,
            (),
            id="all go down as it is called",
        ),
        pytest.param(
            Setting(f"{LOCKS}.plain:Plain", {}, 1),
            on(ALICE, "release invoke", after_ns=JUST_AFTER_NS),
            ("A",),
            (),
            id="one goes down as it is asked",
        ),
        pytest.param(
            Setting(f"{LOCKS}.on_several:ReleaseStops", OPTIONS),
            on(ALICE, "granted"),
            ALL[:3],
            ALL[:2],
            id="up again, but not asked",
        ),
    ],
)
def test_keys_on_nodes_that_were_restarted_are_not_held_against_a_release_that_found_them_down(
    setting: Setting, when: Trigger, hit: tuple[str, ...], cut: tuple[str, ...]
) -> None:
    """The restart is short, and the key is there after it."""
    faults = [timed_fault(Crash, when, nodes=(node,), lasts_ns=S_NS // 10_000) for node in hit]
    if cut:
        faults.append(timed_fault(Cut, on(ALICE, "release invoke"), ALICE, cut))
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),), BOB: (Round(2 * S_NS, S_NS),)}
    outcome = run_trial(setting.with_clients(clients, tuple(faults)))
    assert ("release", "info") in {(event["f"], event["type"]) for event in outcome.events}
    refused = [event for event in outcome.events if (event["f"], event["type"]) == ("acquire", "fail")]
    assert {event["client"] for event in refused} >= {BOB}
    assert stays(outcome) == []


class ForgetsItsScript(LoadsItsScriptOnce):
    """It does not load the script of its release at all."""

    async def open(self) -> None:
        await super().open()
        self._digest = "0" * 40


def test_a_script_that_was_never_loaded_was_lost_by_no_restart() -> None:
    alone: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    trial = on_one(f"{__name__}:ForgetsItsScript").with_clients(alone, ())
    kept = keep(trial)
    assert any("NOSCRIPT" in event.get("error", "") for event in kept.outcome.events)
    told = [tell(kept, each) for each in breaches(kept)]
    assert told
    assert "does-not-recover" not in {
        name_of(b.kind, t.facts) for b, t in zip(breaches(kept), told, strict=True)
    }


def test_who_waits_for_a_node_that_is_away_keeps_nobody_else_waiting() -> None:
    """Bob asks on without an answer, and the key that Alice is refused by cannot be undone any more."""
    asks = on(BOB, "acquire invoke")
    unheard = timed_fault(Cut, asks, BOB, ("A",), direction="replies")
    away = timed_fault(
        Cut, on(BOB, "acquire invoke", after_ns=3 * S_NS // 2), BOB, ("A",), direction="requests"
    )
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(2 * S_NS, S_NS),), BOB: (Round(0, S_NS),)}
    setting = on_one("tests.unit.examine.odd_locks:AsksOn").with_ttl(6 * S_NS)
    assert found([setting.with_clients(clients, (unheard, away))]) == {("unavailable", "")}
