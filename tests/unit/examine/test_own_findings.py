"""What an examination finds by looking at its nodes, where the checker must leave it open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from lab.examine.kinds import Kind
from lab.examine.ledger.breaches import APART
from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.naming import causes_of
from lab.examine.ledger.rules import certain
from lab.examine.profile.probes import Profile
from lab.examine.programs import ALICE, BOB, S_NS, TTL_NS, Setting
from lab.examine.schedules.slow_replies import slow_replies
from lab.examine.violations.judge import violations
from lab.faults.cut import Cut
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.locks.base import Lease
from lab.scenario.triggers import on
from lab.search.command import OPTIONS
from lab.search.faults import timed_fault
from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial
from tests.locks_to_test.plain import MS_NS, Plain

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test"


def late_replies(lock: str) -> Trial:
    """The answer to Alice's acquire comes when her lease is over."""
    held = timed_fault(Hold, on(ALICE, "acquire invoke", 2), ALICE, ("A",), 0, TTL_NS * 13 // 10, "replies")
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS), Round(0, S_NS))}
    return Setting(f"{LOCKS}.{lock}", {}, 1).with_clients(clients, (held,), demand=False)


def lost_release(lock: str) -> Trial:
    """Alice's release is lost; Bob asks from then on."""
    gone = timed_fault(Cut, on(ALICE, "release invoke"), ALICE, ("A",), lasts_ns=S_NS)
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),), BOB: (Round(2 * S_NS, S_NS),)}
    return replace(Setting(f"{LOCKS}.{lock}", {}, 1).with_clients(clients, (gone,)), seed=1)


def taken_after_its_end(lock: str) -> Trial:
    """Alice keeps the lock, and asks for it again when her lease is over."""
    rounds = (Round(0, TTL_NS // 2, ends="keep"), Round(TTL_NS, TTL_NS // 10))
    alone = Setting(f"{LOCKS}.{lock}", {}, 1).with_clients({ALICE: rounds}, demand=False)
    return replace(alone, reentrant=True)


def first_is_slow(lock: str) -> Trial:
    """Alice reaches three nodes of five, and the first of them answers late, but in time."""
    setting = Setting(lock, {**OPTIONS, "node_timeout": "200ms"})
    *_, trial, _ = slow_replies(setting, Profile(Kind(True, sequential=True), waits_ns=S_NS // 5))
    return trial


@pytest.mark.parametrize(
    ("make", "lock"),
    [
        (taken_after_its_end, "quietly_broken:ReturnsOldLease"),
        (first_is_slow, f"{LOCKS}.on_several:CountsFromFirstReply"),
    ],
)
def test_a_lease_that_counts_from_too_late_is_found_with_its_cause(
    make: Callable[[str], Trial], lock: str
) -> None:
    with trials():
        trial = make(lock)
        violation = all_violations(run_trial(trial))["false-validity"]
        assert causes_of(trial, violation.finding)[0].kind == "late-deadline"


@pytest.mark.parametrize(
    ("make", "lock"), [(taken_after_its_end, "unusual:Reentrant"), (first_is_slow, "redlock-sequential")]
)
def test_a_lease_that_counts_from_the_call_is_none(make: Callable[[str], Trial], lock: str) -> None:
    with trials():
        outcome = run_trial(make(lock))
        assert all_violations(outcome) == {}
        assert sum(each["f"] == "acquire" and each["type"] == "ok" for each in outcome.events) >= 2


@pytest.mark.parametrize(
    ("trial", "finding", "cause"),
    [
        (late_replies("quietly_broken:LateSuccess"), "false-validity", "late-deadline"),
        (lost_release("quietly_broken:OutlivesLostRelease"), "leak", "renews-after-release"),
    ],
)
def test_what_the_checker_leaves_open_is_found_with_its_cause(trial: Trial, finding: str, cause: str) -> None:
    with trials():
        outcome = run_trial(trial)
        assert finding not in violations(outcome)
        violation = all_violations(outcome)[finding]
        assert causes_of(trial, violation.finding)[0].kind == cause


@pytest.mark.parametrize("trial", [late_replies("plain:Plain"), lost_release("watchdog:Watchdog")])
def test_a_correct_lock_has_neither(trial: Trial) -> None:
    with trials():
        assert all_violations(run_trial(trial)) == {}


def test_a_lease_is_looked_for_under_the_token_that_its_extension_gave_it() -> None:
    """Two nodes that miss the extension keep the token before it, and for less time than is claimed."""
    cut = timed_fault(Cut, on(ALICE, "extend invoke"), ALICE, ("D", "E"))
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, TTL_NS, extends=1),)}
    setting = Setting(f"{LOCKS}.new_tokens:NewTokens", OPTIONS)
    with trials():
        outcome = run_trial(setting.with_clients(clients, (cut,)))
        assert all_violations(outcome) == {}
    extended = next(each for each in outcome.events if (each["f"], each["type"]) == ("extend", "ok"))
    granted = next(each for each in outcome.events if (each["f"], each["type"]) == ("acquire", "ok"))
    assert extended["token"] != granted["token"]


def test_a_pause_explains_a_late_success() -> None:
    """Who is stopped when the answer is there may have looked at the clock before."""
    lock = f"{LOCKS}.quietly_broken:LateSuccess"
    stopped = timed_fault(Pause, on(ALICE, "acquire invoke", 2, 100_000), ALICE, lasts_ns=TTL_NS * 13 // 10)
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS), Round(0, S_NS))}
    trial = Setting(lock, {}, 1).with_clients(clients, (stopped,), demand=False)
    with trials():
        assert "false-validity" not in all_violations(run_trial(trial))


def test_a_node_whose_clock_is_moved_explains_a_key_that_stays() -> None:
    trial = lost_release("quietly_broken:OutlivesLostRelease")
    jump = timed_fault(Jump, on(ALICE, "granted"), nodes=("A",), by_ns=-TTL_NS)
    with trials():
        assert "leak" not in all_violations(run_trial(replace(trial, faults=(*trial.faults, jump))))


def test_an_acquire_that_sleeps_while_the_lock_is_free_is_named_so() -> None:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 3 * S_NS),), BOB: (Round(S_NS, S_NS),)}
    trial = Setting(f"{LOCKS}.quietly_broken:SleepsOn", {}, 1).with_clients(clients)
    with trials():
        violation = all_violations(run_trial(trial))["unavailable"]
        assert causes_of(trial, violation.finding)[0].kind == "sleeps-on"


def kinds(trial: Trial, finding: str) -> set[str]:
    with trials():
        violation = all_violations(run_trial(trial))[finding]
        return {each.kind for each in causes_of(trial, violation.finding)}


def test_a_new_acquire_that_prolongs_an_old_key_is_no_watchdog() -> None:
    gone = timed_fault(Cut, on(ALICE, "release invoke"), ALICE, ("A",), lasts_ns=S_NS)
    alone: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    trial = Setting(f"{LOCKS}.quietly_broken:ProlongsInAnyCase", {}, 1).with_clients(alone, (gone,))
    assert "renews-after-release" not in kinds(trial, "unavailable")


def test_who_waits_for_a_key_of_its_own_does_not_wait_for_a_free_lock() -> None:
    cancelled: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS, cancel_ns=100_000),)}
    trial = Setting(f"{LOCKS}.quietly_broken:GoesOnWhenCancelled", {}, 1).with_clients(cancelled)
    assert "sleeps-on" not in kinds(trial, "unavailable")


class NotesWhoHadIt(Plain):
    """It notes who had the lock last, for longer than a lease, under a key that is no lock."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        lease = await super().acquire(key, ttl_ns)
        await self._call("SET", f"{key}:last", lease.token, "PX", 3 * ttl_ns // MS_NS)
        return lease


def one_after_the_other(lock: str) -> Trial:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),), BOB: (Round(2 * S_NS, S_NS),)}
    return replace(Setting(lock, {}, 1).with_clients(clients), closely=True)


@pytest.mark.parametrize(
    ("lock", "finding"),
    [
        (f"{LOCKS}.plain:Plain", set()),
        (f"{__name__}:NotesWhoHadIt", set()),
        ("mutant:no-release", {"release-without-effect"}),
    ],
)
def test_what_is_left_is_a_finding_only_if_it_keeps_somebody_out(lock: str, finding: set[str]) -> None:
    with trials():
        assert finding <= all_violations(run_trial(one_after_the_other(lock))).keys()
        assert finding or not all_violations(run_trial(one_after_the_other(lock)))


def late_release(lock: str) -> Trial:
    """Alice gives the lock back when her lease is over and Bob holds it; Bob asks for nothing afterwards."""
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, TTL_NS * 13 // 10),),
        BOB: (Round(TTL_NS * 11 // 10, S_NS),),
    }
    return replace(Setting(lock, OPTIONS, 1).with_clients(clients, demand=False), closely=True)


@pytest.mark.parametrize(("lock", "is_found"), [("single", False), ("mutant:bare-del", True)])
def test_to_delete_anothers_key_is_a_finding_though_it_does_no_harm(lock: str, is_found: bool) -> None:
    trial = late_release(lock)
    with trials():
        outcome = run_trial(trial)
        assert violations(outcome) == {}
        found = all_violations(outcome)
        assert ("others-key" in found) == is_found
        if is_found:
            assert [each.kind for each in causes_of(trial, "others-key")] == ["deletes-others-key"]
            assert "deletes the key of bob's lease" in found["others-key"].headline


class NotesThatOneAsks(Plain):
    """Who is refused sets a number beside the lock for a moment: others are asking."""

    script = """
        if redis.call('exists',KEYS[1]) == 0 then
          redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2])
          return 1
        end
        redis.call('incr',KEYS[1] .. ':asking')
        redis.call('pexpire',KEYS[1] .. ':asking',2000)
        return 0
    """

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        return await self._run(self.script, key, token, ttl_ns // MS_NS)


def test_what_a_refused_acquire_sets_beside_the_lock_is_no_lock_under_another_name() -> None:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 2 * S_NS),), BOB: (Round(S_NS, S_NS),)}
    trial = Setting(f"{__name__}:NotesThatOneAsks", {}, 1).with_clients(clients, demand=False)
    with trials():
        kept = keep(trial)
    noted = [each for entry in kept.ledger.entries for each in entry.breaches if each is not None]
    assert APART in {each.whose for each in noted}
    assert APART not in {found.kind.whose for found in certain(kept)}
