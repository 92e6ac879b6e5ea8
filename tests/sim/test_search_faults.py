"""The faults of a trial: injected by ``lab.faults`` at the instant of their moment, each with its receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.faults.reset import Reset
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.cluster import TrialClient, TrialNode
from lab.search.draw import RandomDraw, Space, draw_trial
from lab.search.faults import BY_NAME, KINDS, Kind, moved, nodes_of, timed_fault, with_fields
from lab.search.runner import WIRES, Wire, run_trial, trials
from lab.search.suspicion import named
from lab.search.trial import Round, Trial
from lab.substrates.sim.link import SimLink
from lab.substrates.sim.machine import SimMachine

pytestmark = pytest.mark.full  # hundreds of schedules; scenarios try the same faults in the first part

MS_NS, S_NS = 10**6, 10**9
OPTIONS: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
TWO: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 3 * S_NS),), "bob": (Round(300 * MS_NS, 3 * S_NS),)}
BEGUN = on("alice", "granted")
FAULTS: dict[Kind, Timed] = {
    Cut: timed_fault(Cut, BEGUN, "alice", ("A", "B"), lasts_ns=S_NS),
    Hold: timed_fault(Hold, BEGUN, "alice", ("A",), lasts_ns=S_NS, direction="replies"),
    Delay: timed_fault(Delay, BEGUN, "alice", ("A", "C"), by_ns=200 * MS_NS, lasts_ns=S_NS),
    Pause: timed_fault(Pause, BEGUN, "alice", lasts_ns=S_NS),
    Jump: timed_fault(Jump, BEGUN, nodes=("C",), by_ns=11 * S_NS, lasts_ns=S_NS),
    Crash: timed_fault(Crash, BEGUN, nodes=("C",), lasts_ns=S_NS),
    PowerCut: timed_fault(PowerCut, BEGUN, nodes=("C",), lasts_ns=S_NS),
    Drift: timed_fault(Drift, BEGUN, nodes=("C",), ppm=200_000, lasts_ns=S_NS),
    Reset: timed_fault(Reset, BEGUN, "alice", ("A", "B")),
    ClientCrash: timed_fault(ClientCrash, BEGUN, "alice"),
}


def nemesis(trial: Trial, wire: Wire = "direct") -> list[dict[str, Any]]:
    """What the nemesis did in a trial, and how that ended."""
    with trials(wire):
        events = run_trial(trial, wire).events
    return [event for event in events if event["process"] == "nemesis"]


def said(kind: Kind, wire: Wire = "direct") -> list[tuple[str, dict[str, Any]]]:
    """How the injection and the end of a fault went, with their receipts."""
    events = nemesis(Trial("redlock", TWO, (FAULTS[kind],), options=OPTIONS), wire)
    assert {event["type"] for event in events[::2]} == {"invoke"}
    if FAULTS[kind].ending is not None:
        assert events[3]["time_ns"] - events[1]["time_ns"] == S_NS
    return [(event["type"], dict(event["receipt"])) for event in events[1::2]]


EVIDENCE: dict[Kind, Callable[..., bool]] = {
    Cut: lambda begun, ended: (
        begun["A"]["link"] == ["cut-replies", "cut-requests"] and ended["B"]["probe_through_link_ms"] == 0
    ),
    Hold: lambda begun, ended: begun["A"]["link"] == ["hold-replies"] and "A" in ended,
    Delay: lambda begun, ended: (
        begun["C"]["round_trip_after_ms"] == 400 and ended["C"]["probe_through_link_ms"] == 0
    ),
    Pause: lambda begun, ended: (begun["states_after"], ended["states_after"]) == ("T", "S"),
    Jump: lambda begun, ended: (begun["moved_ms"], ended["offset_after_ms"]) == (11_000, 0),
    Crash: lambda begun, ended: begun["C"]["process"] == "gone" and ended["C"]["run_id_changed"],
    PowerCut: lambda begun, ended: begun["C"]["dropped_bytes"] == 0 and ended["C"]["run_id_changed"],
    Drift: lambda begun, ended: (
        (begun["ppm_before"], begun["ppm"]) == (0, 200_000)
        and (ended["offset_before_ms"], ended["offset_after_ms"]) == (200, 0)
    ),
    Reset: lambda begun, ended: (
        (begun["B"]["open_connection"], begun["B"]["new_connection_ms"]) == ("reset", 0) and ended == begun
    ),
    ClientCrash: lambda begun: (begun["processes_before"], begun["process"]) == (1, "gone"),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
def test_each_kind_of_fault_has_its_receipt_and_so_has_its_end(kind: Kind, wire: Wire) -> None:
    receipts = said(kind, wire)
    assert [how for how, _ in receipts] == (["ok"] if kind is ClientCrash else ["ok", "ok"])
    assert EVIDENCE[kind](*(evidence for _, evidence in receipts))


ACTS: dict[Kind, tuple[type, str]] = {
    Cut: (SimLink, "cut"),
    Hold: (SimLink, "hold"),
    Delay: (SimLink, "delay"),
    Pause: (SimMachine, "pause"),
    Jump: (SimMachine, "jump_clock"),
    Crash: (TrialNode, "kill"),
    PowerCut: (TrialNode, "lose_unsynced"),
    Drift: (SimMachine, "drift_clock"),
    Reset: (SimLink, "reset"),
    ClientCrash: (TrialClient, "kill"),
}


@pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
def test_a_fault_that_does_nothing_has_no_receipt(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any, *_: object, **__: object) -> Any:
        return await self.disk() if kind is PowerCut else None

    owner, act = ACTS[kind]
    monkeypatch.setattr(owner, act, nothing)
    trial = Trial("redlock", TWO, (FAULTS[kind],), options=OPTIONS, persistence="aof-everysec")
    assert nemesis(trial)[1]["type"] == "fail"


def test_what_was_so_already_has_no_receipt() -> None:
    """Nothing is connected over a link that was cut and healed; a drift of 0 changes no clock."""
    cut = timed_fault(Cut, at_start(), "alice", ("A",), lasts_ns=MS_NS)
    late = at_start(2 * MS_NS)
    reset = timed_fault(Reset, late, "alice", ("A", "B"))
    idle: dict[str, tuple[Round, ...]] = {"alice": (Round(S_NS, 0),)}
    events = nemesis(Trial("redlock", idle, (cut, reset), options=OPTIONS))
    assert (events[-1]["f"], events[-1]["type"]) == ("reset", "fail")
    assert [each["open_connection"] for each in events[-1]["receipt"].values()] == ["absent", "reset"]
    drift = timed_fault(Drift, BEGUN, "alice", ppm=8000)
    for faults in (with_fields(drift, ppm=0),), (drift, moved(drift, late)), (drift, drift):
        how = [event["type"] for event in nemesis(Trial("redlock", TWO, faults, options=OPTIONS))[1::2]]
        assert how == (["ok"] if len(faults) > 1 else []) + ["fail"]


def test_what_hits_a_client_that_was_killed_does_not_happen() -> None:
    crash = timed_fault(ClientCrash, BEGUN, "alice")
    late = at_start(4 * S_NS)
    others = (
        timed_fault(ClientCrash, late, "alice"),
        timed_fault(Pause, late, "alice", lasts_ns=S_NS),
        timed_fault(Jump, late, "alice", by_ns=S_NS),
        timed_fault(Drift, late, "alice", ppm=8000),
        timed_fault(Reset, late, "alice", ("A",)),
        timed_fault(Cut, late, "alice", ("A",)),
    )
    assert [event["f"] for event in nemesis(Trial("redlock", TWO, (crash, *others), options=OPTIONS))] == [
        "client_crash",
        "client_crash",
    ]
    pause = timed_fault(Pause, at_start(), "alice", lasts_ns=S_NS)
    killed = timed_fault(ClientCrash, at_start(MS_NS), "alice")
    trial = Trial("redlock", TWO, (pause, killed), options=OPTIONS)
    assert [event["type"] for event in nemesis(trial)] == ["invoke", "ok", "invoke", "ok"], "nothing resumes"


def test_only_what_changes_nothing_goes_without_a_receipt() -> None:
    """A delay of a link that is cut, or that was slower already; a reset of one that is cut or held."""
    draw = RandomDraw(Random(1))
    space = Space("redlock", OPTIONS, 2 * S_NS, horizon_ns=8 * S_NS, all_operations=True)
    seen: Counter[tuple[str, str]] = Counter()
    with trials():
        for _ in range(60):
            for event in run_trial(draw_trial(draw, space, "guided")).events:
                if event["process"] == "nemesis" and event["type"] != "invoke":
                    seen[event["f"], event["type"]] += 1
    assert {f for f, kind in seen if kind == "fail"} <= {"delay", "reset"}
    assert all(seen[f, "ok"] for f in (*BY_NAME, "heal"))


@pytest.mark.parametrize("lock", ["redlock", "tests.sim.campaign_locks:OwnConnections"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_lock_that_makes_its_connections_itself_works_on_both_wires(lock: str, wire: Wire) -> None:
    with trials(wire):
        events = run_trial(Trial(lock, TWO, options=OPTIONS), wire).events
    granted = [event["client"] for event in events if event["f"] == "acquire" and event["type"] == "ok"]
    assert "alice" in granted
    assert {event["type"] for event in events if event["f"] == "release"} == {"invoke", "ok"}


def test_a_fault_of_ones_links_keeps_nobody_else_from_being_served() -> None:
    """Else the checker, which asks who could have been served, would miss what happens to the others."""
    for kind in (Cut, Hold, Delay, Reset):
        (begun, *_) = nemesis(Trial("redlock", TWO, (FAULTS[kind],), options=OPTIONS))
        assert begun["targets"] == ["alice", *nodes_of(FAULTS[kind])]
    clients: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 0),), "bob": ()}
    trial = Trial("mutant:no-release", clients, options=OPTIONS, demand_ns=9 * S_NS)
    cut = timed_fault(Cut, at_start(S_NS), "alice", tuple("ABCDE"))
    with trials():
        outcome = run_trial(replace(trial, faults=(cut,)))
        assert any("bob" in each.clients for each in named(outcome) if each.name == "unavailable")
