"""Locks that misunderstand an error reply: found where a node answers with one, and a correct lock is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from msgspec.structs import replace

from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.naming import causes_of
from lab.examine.programs import ALICE, BOB, PROGRAMS, S_NS, Setting
from lab.examine.schedules.boundaries import boundaries, single_faults
from lab.examine.violations.judge import RENEWAL
from lab.faults.answers import Answers
from lab.faults.fill_memory import FillMemory
from lab.faults.pause import Pause
from lab.scenario.tracks import Timed
from lab.scenario.triggers import on
from lab.search.as_scenario import scenarios_of
from lab.search.faults import Kind as FaultKind
from lab.search.faults import is_a, timed_fault
from lab.search.runner import WIRES, Wire, run_trial, trials
from lab.search.trial import Round, Trial

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test"
OPTIONS: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
BRIEFLY_NS = 5_000_000
LATER_NS: Final = 21 * S_NS // 4
"""When Alice's first lease is over."""


def refused(lock: str, at: str, bob_asks_ns: int = LATER_NS) -> Trial:
    """Alice's first such call is answered with an error."""
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, 9 * S_NS, extends=2),),
        BOB: (Round(bob_asks_ns, S_NS // 2),),
    }
    busy = timed_fault(Answers, on(ALICE, at), ALICE, ("A",), lasts_ns=BRIEFLY_NS, error="BUSY")
    return Setting(f"{LOCKS}.{lock}", OPTIONS, 1).with_clients(clients, (busy,))


@pytest.fixture(autouse=True)
def _trials() -> Iterator[None]:
    with trials():
        yield


@pytest.mark.parametrize(
    ("lock", "at", "bob_asks_ns", "cause"),
    [
        ("by_error:TakenByError", "acquire invoke", S_NS, "too-few-votes"),
        ("by_error:ExtendedByError", "extend invoke", LATER_NS, "extension-not-kept"),
    ],
)
def test_an_error_that_is_taken_for_success_is_the_cause(
    lock: str, at: str, bob_asks_ns: int, cause: str
) -> None:
    trial = refused(lock, at, bob_asks_ns)
    assert "overlap" in all_violations(run_trial(trial))
    assert [each.kind for each in causes_of(trial, "overlap")][:1] == [cause]
    assert "overlap" not in all_violations(run_trial(replace(trial, faults=())))


def full(lock: str, nodes: int = 1) -> Trial:
    """The memory of all nodes is full when Alice asks, and for a moment after that."""
    setting = Setting(f"{LOCKS}.{lock}" if ":" in lock else lock, OPTIONS, nodes)
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 2 * S_NS),), BOB: (Round(S_NS, S_NS),)}
    fills = timed_fault(FillMemory, on(ALICE, "sends"), nodes=setting.names, lasts_ns=S_NS // 2)
    return setting.with_clients(clients, (fills,))


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_within_a_script_that_is_taken_for_success_is_found(wire: Wire) -> None:
    trial = full("by_error:TakenByTable")
    with trials(wire):
        outcome = run_trial(trial, wire)
        assert "overlap" in all_violations(outcome)
        (cause,) = causes_of(trial, "overlap")
    assert cause.kind == "too-few-votes"
    assert "A changed nothing by EVAL" in cause.seen
    begun = [event for event in outcome.events if (event["f"], event["type"]) == ("fill_memory", "ok")]
    filled = [event["receipt"]["A"] for event in begun]
    assert [each["write"] for each in filled] == ["OOM"]


@pytest.mark.parametrize("lock", ["by_error:LooksAtTable", "plain:Plain", "single", "redlock"])
def test_who_takes_a_full_memory_for_what_it_is_does_nothing_wrong(lock: str) -> None:
    assert all_violations(run_trial(full(lock, 5 if lock == "redlock" else 1))) == {}


def test_what_a_full_memory_shows_is_a_scenario_with_that_limit() -> None:
    scenario = scenarios_of(full("by_error:TakenByTable"), "overlap", command="lab test")[0]
    assert dict(scenario.cluster.config) == {"maxmemory": "8mb"}
    assert scenario.expect.findings == ("overlap",)


@pytest.mark.parametrize("lock", ["plain:Plain", "watchdog:Watchdog", "unusual:InTransaction"])
@pytest.mark.parametrize("at", ["acquire invoke", "extend invoke", "release invoke"])
def test_who_takes_an_error_for_what_it_is_does_nothing_wrong(lock: str, at: str) -> None:
    assert all_violations(run_trial(refused(lock, at))) == {}


def held_for(ttls: int, lock: str, *faults: Timed) -> Trial:
    """Alice holds it for so many leases, and releases it."""
    setting = Setting(f"{LOCKS}.{lock}", OPTIONS, 1)
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttls * setting.ttl_ns),),
        BOB: (Round(S_NS, S_NS // 2),),
    }
    return setting.with_clients(clients, faults)


def at_renewal(nth: int, lasts_ns: int = BRIEFLY_NS) -> Timed:
    """The ``nth`` thing that Alice sends is answered with an error, and what she sends for some time."""
    return timed_fault(Answers, on(ALICE, "sends", nth), ALICE, ("A",), lasts_ns=lasts_ns, error="BUSY")


@pytest.mark.parametrize("nth", [3, 4, 6])
def test_a_renewal_that_an_error_ends_for_ever_is_found_and_one_that_goes_on_is_not(nth: int) -> None:
    ended = held_for(4, "by_error:EndsAtAnError", at_renewal(nth))
    found = all_violations(run_trial(ended))
    assert RENEWAL in found
    (cause,) = causes_of(ended, RENEWAL)
    assert cause.kind == "renewal-stops"
    assert "EndsAtAnError._go_on" in {place.function for place in cause.places}
    assert all_violations(run_trial(held_for(4, "watchdog:Watchdog", at_renewal(nth)))) == {}


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(held_for(4, "by_error:EndsAtAnError"), id="without an error it goes on"),
        pytest.param(
            held_for(4, "by_error:EndsAtAnError", at_renewal(3, 40 * S_NS)), id="an error all the time"
        ),
        pytest.param(
            held_for(4, "by_error:EndsAtAnError", at_renewal(4, 3 * S_NS)),
            id="little is left of the lease then",
        ),
        pytest.param(held_for(4, "plain:Plain", at_renewal(3)), id="a lock that renews nothing"),
        pytest.param(
            held_for(
                4,
                "by_error:EndsAtAnError",
                at_renewal(3),
                timed_fault(Pause, on(ALICE, "granted", after_ns=2 * S_NS), ALICE, lasts_ns=S_NS),
            ),
            id="its holder stands still",
        ),
    ],
)
def test_a_lease_that_may_end_is_no_finding(trial: Trial) -> None:
    assert RENEWAL not in all_violations(run_trial(trial))


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_answered_with_an_error_is_not_executed_and_has_its_receipt(wire: Wire) -> None:
    with trials(wire):
        outcome = run_trial(refused("plain:Plain", "acquire invoke"), wire, watch=True)
    (begun, ended) = [
        event for event in outcome.events if event["process"] == "nemesis" and event["type"] == "ok"
    ]
    assert [each[:12] for each in begun["receipt"]["A"]["link"]] == ["answers BUSY"]
    assert ended["receipt"]["A"]["probe_through_link_ms"] == 0
    between = [each for each in outcome.commands if begun["time_ns"] <= each.time_ns < ended["time_ns"]]
    assert between == []
    calls = [
        event["type"] for event in outcome.events if event.get("client") == ALICE and event["f"] == "acquire"
    ]
    assert calls[:2] == ["invoke", "info"]


@pytest.mark.parametrize("kind", [Answers, FillMemory])
def test_errors_are_among_the_faults_that_every_lock_meets(kind: FaultKind) -> None:
    trial = Setting("single", OPTIONS, 1).trial(PROGRAMS[0])
    answered = [fault for fault in single_faults(trial) if is_a(fault, kind)]
    assert len(answered) == len(boundaries(trial))
