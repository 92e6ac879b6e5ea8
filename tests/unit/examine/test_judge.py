"""What counts as a violation of a trial, and what of a trial leaves the assumptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import TypeVar

import pytest
from msgspec.structs import replace

from checker.verdict import Severity
from lab.examine.kinds import CLOCKS, LATE, Kind
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.naming import causes_of
from lab.examine.ledger.rules import IS_LATE, NEVER_ENDS, breaches
from lab.examine.programs import PROGRAMS, Setting, split
from lab.examine.schedules.beyond import late_votes
from lab.examine.violations.evidence import Evidence
from lab.examine.violations.judge import HANG, labels, unfinished, violations
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.locks.single import Single
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.draw import RandomDraw, Space, draw_trial
from lab.search.faults import KINDS, timed_fault
from lab.search.runner import run_trial, trials
from lab.search.suspicion import named, suspected
from lab.search.trial import Round, Trial
from lab.substrates.sim.clock import MONOTONIC_START_NS
from tests.unit.examine.odd_locks import Blocking, Watched

pytestmark = pytest.mark.usefixtures("_patched")

T = TypeVar("T")
S_NS = 10**9
OPTIONS: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}


class WaitsForAMinute(Single):
    """It gives a node as long as a socket of PHP does: the trial is over before."""

    name = "waits-for-a-minute"

    async def _in_time(self, call: Awaitable[T]) -> T:
        return await asyncio.wait_for(call, 60.0)


class WaitsForRenewed(Blocking, Watched):
    """Asks until the lock is free, and renews what it got."""

    name = "waits-for-renewed"


def setting(lock: str, nodes: int = 5) -> Setting:
    return Setting(lock, OPTIONS, nodes)


@pytest.mark.parametrize(
    "lock", ["redlock", "mutant:bare-del", "mutant:extension-adds-up", "mutant:no-release"]
)
def test_the_first_look_misses_nothing_that_the_checker_finds(lock: str) -> None:
    draw = RandomDraw(Random(5))
    space = Space(
        lock,
        dict(OPTIONS),
        2 * S_NS,
        kinds=KINDS,
        horizon_ns=20 * S_NS,
        all_operations=True,
        demand_ns=8 * S_NS,
    )
    seen = 0
    with trials():
        for _ in range(40):
            outcome = run_trial(draw_trial(draw, space, "guided"))
            found = [each for each in named(outcome) if each.severity is Severity.VIOLATION]
            seen += bool(found)
            only = suspected(outcome)
            missed = {each.name for each in found if each.property not in only}
            assert not missed, (missed, outcome.trial.key())
            of_some = [each for each in named(outcome, only) if each.severity is Severity.VIOLATION]
            assert of_some == found, outcome.trial.key()
    assert seen or lock == "redlock"


def test_every_program_is_clean_with_redlock_and_without_faults() -> None:
    with trials():
        for program in PROGRAMS:
            assert violations(run_trial(setting("redlock").trial(program))) == {}, program.name


def test_clients_of_two_minorities_both_hold_a_lock_that_counts_wrong() -> None:
    with trials():
        assert "overlap" in violations(run_trial(split(setting("mutant:quorum-off-by-one"), 2, 2)))
        assert violations(run_trial(split(setting("redlock"), 2, 2))) == {}


def test_a_call_without_an_end_is_a_hang_only_if_there_was_time_for_it() -> None:
    program = next(each for each in PROGRAMS if each.name == "contend")
    lost = timed_fault(Cut, on("alice", "release invoke"), "alice", ("A",))
    with trials():
        outcome = run_trial(replace(setting("mutant:no-time-out", 1).trial(program), faults=(lost,)))
        assert [event["f"] for event in unfinished(outcome)] == ["release"]
        assert HANG in violations(outcome)
        clean = run_trial(replace(setting("single", 1).trial(program), faults=(lost,)))
        assert HANG not in violations(clean)
        short = replace(outcome.trial, horizon_ns=2 * S_NS)
        assert HANG not in violations(run_trial(short))


@pytest.mark.parametrize(
    ("lock", "hangs"), [(f"{__name__}:WaitsForAMinute", False), ("mutant:no-time-out", True)]
)
def test_a_call_that_a_long_time_out_ends_is_late_and_no_hang(lock: str, hangs: bool) -> None:
    program = next(each for each in PROGRAMS if each.name == "contend")
    lost = timed_fault(Cut, on("alice", "release invoke"), "alice", ("A",))
    trial = replace(Setting(lock, {}, 1).trial(program), faults=(lost,))
    with trials():
        outcome = run_trial(trial)
        late = {each.kind.effect for each in breaches(keep(trial)) if each.kind.call == "release"}
        assert [event["f"] for event in unfinished(outcome)] == ["release"]
        assert (HANG in violations(outcome)) is hangs
    assert late == {NEVER_ENDS if hangs else IS_LATE}


def test_a_client_that_repeats_by_itself_is_slow_and_not_hung() -> None:
    program = next(each for each in PROGRAMS if each.name == "contend")
    lost = timed_fault(Cut, on("alice", "release invoke"), "alice", ("A",))
    ordinary = Setting("tests.locks_to_test.ordinary.with_asyncio:InScripts", {}, 1).trial(program)
    with trials():
        outcome = run_trial(replace(ordinary, faults=(lost,), ttl_ns=S_NS, horizon_ns=20 * S_NS))
        calls = [event["type"] for event in outcome.events if event["f"] == "release"]
        assert calls.count("invoke") > calls.count("ok") + calls.count("info")
        assert HANG not in violations(outcome)


def test_an_acquire_may_wait_for_ever_unless_it_was_told_how_often_to_try() -> None:
    program = next(each for each in PROGRAMS if each.name == "contend")
    gone = timed_fault(Crash, on("alice", "sends"), nodes=("A",))

    def found(lock: str, **options: int) -> list[str]:
        trial = Setting(lock, options, 1).trial(program, (gone,))
        return [event["f"] for event in unfinished(run_trial(trial))]

    with trials():
        assert found("mutant:retries-for-ever", retry_count=1) == ["acquire"] * 2
        assert found("mutant:retries-for-ever") == []
        assert found("single", retry_count=1) == []


def cancelled(lock: str, options: dict[str, str | int | float | bool]) -> list[Trial]:
    """Alice's acquire is cancelled early, and Bob asks later, or before her."""
    of = Setting(f"tests.locks_to_test.{lock}", options)
    alice = Round(0, 0, cancel_ns=100_000)
    return [
        of.with_clients({"alice": (alice,), "bob": (Round(begins_ns, S_NS),)}) for begins_ns in (S_NS // 2, 0)
    ]


@pytest.mark.parametrize("options", [OPTIONS, {}])
def test_an_acquire_that_waits_for_a_free_lock_without_faults_is_a_hang(
    options: dict[str, str | int | float | bool],
) -> None:
    def found(lock: str) -> set[str]:
        return {name for trial in cancelled(lock, options) for name in violations(run_trial(trial))}

    with trials():
        assert found("on_several:OneAcquireAtATime") == {HANG}
        assert found("unusual:Blocking") == set()
        for trial in cancelled("on_several:OneAcquireAtATime", options):
            violation = violations(run_trial(trial))[HANG]
            assert [each.kind for each in causes_of(trial, violation.finding)] == ["hangs"]


def test_an_acquire_may_wait_as_long_as_a_kept_lock_is_renewed() -> None:
    clients: dict[str, tuple[Round, ...]] = {
        "alice": (Round(0, S_NS, ends="keep"),),
        "bob": (Round(2 * S_NS, S_NS),),
    }
    trial = Setting(f"{__name__}:WaitsForRenewed", {}, 1).with_clients(clients, demand=False)
    with trials():
        outcome = run_trial(trial)
    assert outcome.events[-1]["type"] == "invoke"
    assert outcome.events[-1]["time_ns"] < MONOTONIC_START_NS + 3 * S_NS
    assert unfinished(outcome) == []


def test_what_a_watchdog_does_is_no_operation_that_its_client_called() -> None:
    program = next(each for each in PROGRAMS if each.name == "contend")
    with trials():
        outcome = run_trial(setting("tests.locks_to_test.watchdog:Watchdog", 1).trial(program), watch=True)
    assert "extend" in {event["f"] for event in outcome.events}
    assert all(each.f != "extend" and each.how != "open" for each in Evidence(outcome).operations)


def test_the_first_look_sees_a_grant_within_an_extended_lease() -> None:
    with trials():
        for trial in late_votes(setting("mutant:extends-where-granted")):
            assert "overlap" in violations(run_trial(trial))
        for trial in late_votes(setting("redlock")):
            assert violations(run_trial(trial)) == {}


@pytest.mark.parametrize(
    ("fault", "label"),
    [
        (timed_fault(Jump, at_start(), nodes=("A",), by_ns=S_NS), "a node's clock jumps"),
        (timed_fault(Jump, at_start(), "alice", by_ns=S_NS), "a client's clock jumps"),
        (timed_fault(Drift, at_start(), nodes=("A",), ppm=8_000), None),
        (timed_fault(Drift, at_start(), nodes=("A",), ppm=200_000), "a node's clock drifts"),
        (timed_fault(Pause, at_start(), "alice", lasts_ns=S_NS), "a client is paused"),
        (timed_fault(ClientCrash, at_start(), "alice"), "a client dies"),
        (timed_fault(Hold, at_start(), "alice", ("A",), lasts_ns=S_NS // 10, direction="replies"), None),
        (timed_fault(Hold, at_start(), "alice", ("A",), direction="replies"), "packets are held up for long"),
        (timed_fault(Delay, at_start(), "alice", ("A",), by_ns=S_NS // 10), None),
        (timed_fault(Delay, at_start(), "alice", ("A",), by_ns=2 * S_NS), "packets are held up for long"),
        (timed_fault(Cut, at_start(), "alice", ("A",)), None),
        (timed_fault(Crash, at_start(), nodes=("A",)), None),
    ],
)
def test_what_leaves_the_assumptions_has_a_label(fault: Timed, label: str | None) -> None:
    trial = Trial("redlock", {"alice": (), "bob": ()}, (fault,))
    assert labels(trial) == ({label} if label else set())


def test_a_node_forgets_only_what_it_does_not_sync() -> None:
    crash = timed_fault(Crash, at_start(), nodes=("A",), lasts_ns=S_NS)
    cut = timed_fault(PowerCut, at_start(), nodes=("A",), lasts_ns=S_NS)
    trial = Trial("redlock", {"alice": ()}, (crash,), persistence="none")
    assert labels(trial) == {"a node forgets"}
    assert labels(replace(trial, persistence="aof-everysec")) == set()
    assert labels(replace(trial, persistence="aof-everysec", faults=(cut,))) == {"a node forgets"}


def test_a_fence_takes_limits_away() -> None:
    assert Kind(True).limits("stale-write") > CLOCKS
    assert Kind(True, fenced=True).limits("stale-write") == CLOCKS
    assert not Kind(True).limits("false-validity")
    assert not Kind(True, states_validity=False).limits("false-validity")
    assert Kind(False).limits("false-validity") == CLOCKS
    assert Kind(False, states_validity=False).limits("false-validity") == CLOCKS | LATE
