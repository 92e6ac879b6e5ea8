"""What may not change a verdict, or only soften it.

Histories come from a simulated lock that is now and then broken on purpose, so that both verdicts occur.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker import check
from checker.history.events import Event
from checker.history.history import History
from checker.history.operations import F, Status
from checker.verdict import Severity, Verdict
from tests.fuzzing import examples
from tests.unit.checker.builder import MS, HistoryBuilder

CLIENTS = ("alice", "bob", "carol")
FUZZ = settings(max_examples=examples(150), deadline=None)


@st.composite
def histories(draw: st.DrawFn, keys: tuple[str, ...] = ("k",)) -> HistoryBuilder:
    """Grants at random times, short leases, writes with versions in the order of their returns."""
    built = HistoryBuilder(store_fences=draw(st.booleans()), epsilon_ns=draw(st.sampled_from((0, MS))))
    busy: dict[str, float] = dict.fromkeys(CLIENTS, 0)
    fences = dict.fromkeys(keys, 0)
    pending: list[tuple[float, str, str, str, int]] = []
    for number in range(draw(st.integers(1, 7))):
        who, key = draw(st.sampled_from(CLIENTS)), draw(st.sampled_from(keys))
        call = busy[who] + draw(st.integers(0, 12))
        back = call + draw(st.integers(1, 6))
        grant, fence = f"g{number}", fences[key] + draw(st.sampled_from((1, 1, 1, 0, -1)))
        fences[key] = max(fences[key], fence)
        claimed = draw(st.sampled_from((None, 5.0, 15.0, 40.0)))
        built.acquire(who, grant, call, back, ttl=20, claimed=claimed, key=key, fence=fence)
        busy[who] = back
        for _ in range(draw(st.integers(0, 2))):
            at = busy[who] + draw(st.integers(1, 20))
            pending.append((at + 1, who, key, grant, fence))
            busy[who] = at + 2
        if draw(st.booleans()):
            at = busy[who] + draw(st.integers(1, 10))
            outcome = draw(st.sampled_from(("ok", "extend", "fail")))
            if outcome == "extend":
                built.extend(who, grant, at, at + 1, ttl=20, key=key)
            else:
                built.release(who, grant, at, at + 1, outcome, key=key)
            busy[who] = at + 1
    versions = dict.fromkeys(keys, 0)
    for back, who, key, grant, fence in sorted(pending):
        based = versions[key] - draw(st.sampled_from((0, 0, 0, 1)))
        versions[key] += 1
        built.write(who, grant, back - 1, back, max(based, 0), versions[key], key=key, fence=fence)
    return built


def violations(history: History) -> set[tuple[str, str | None]]:
    verdict = check(history)
    return {(f.name, f.key) for f in verdict.findings if f.severity is Severity.VIOLATION}


def coarse(history: History) -> set[tuple[str, str | None]]:
    """Violations under one name where the same harm goes by a milder name once less is known of it."""
    same = {"stale-write": "late", "unfenced-write": "late", "fence-breach": "late"}
    same |= {"lost-update": "resource", "cycle": "resource"}
    return {(same.get(name, name), key) for name, key in violations(history)}


def reported(history: History) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(f.name, str(f.severity), f.witnesses) for f in check(history).findings]


@FUZZ
@given(histories(), st.integers(-(10**12), 10**12))
def test_shifting_all_times_changes_nothing(built: HistoryBuilder, shift: int) -> None:
    history = built.history()
    moved = [event_at(e, e.time_ns + shift) for e in built.events()]
    shifted = History.from_events(moved, built.params)
    assert check(shifted).to_dict() == check(history).to_dict()


@FUZZ
@given(histories(), st.permutations(("x", "y", "z")))
def test_renaming_processes_changes_nothing(built: HistoryBuilder, new: list[str]) -> None:
    mapping = dict(zip(CLIENTS, new, strict=True))
    renamed = [
        Event(**{**fields(e), "process": mapping[e.process], "client": mapping[e.process]})
        for e in built.events()
    ]
    assert reported(History.from_events(renamed, built.params)) == reported(built.history())


def going_on_as_others(built: HistoryBuilder, changes: list[bool], *, named: bool) -> History:
    """The same, each client with a new process name after an operation where `changes` says so."""
    lives: dict[str | None, int] = {}
    events = []
    for at, event in enumerate(built.events()):
        process = f"{event.client}/{lives.get(event.client, 1)}"
        if event.type != "invoke" and changes[at % len(changes)]:
            lives[event.client] = lives.get(event.client, 1) + 1
        events.append(Event(**{**fields(event), "process": process} | ({} if named else {"grant_id": None})))
    return History.from_events(events, built.params)


@pytest.mark.full
@FUZZ
@given(
    histories(keys=("k", "l")),
    st.lists(st.booleans(), min_size=1, max_size=9),
    st.booleans(),
    st.sampled_from((None, "owner-mutex", "reentrant-mutex", "fenced-mutex")),
)
def test_going_on_under_new_process_names_changes_nothing(
    built: HistoryBuilder, changes: list[bool], named: bool, model: str | None
) -> None:
    same = check(going_on_as_others(built, [False], named=named), model=model)
    renamed = check(going_on_as_others(built, changes, named=named), model=model)
    assert found(renamed) == found(same)


def found(verdict: Verdict) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(f.name, str(f.severity), f.witnesses) for f in verdict.findings]


@pytest.mark.full
@FUZZ
@given(histories(keys=("k", "l", "m")))
def test_keys_apart_equal_keys_together(built: HistoryBuilder) -> None:
    together = violations(built.history())
    apart: set[tuple[str, str | None]] = set()
    for key in ("k", "l", "m"):
        only = [e for e in built.events() if e.key == key]
        if only:
            apart |= violations(History.from_events(only, built.params))
    assert apart == together


@FUZZ
@given(histories(), st.data())
def test_widening_an_interval_never_creates_a_violation(built: HistoryBuilder, data: st.DataObject) -> None:
    """Sound for every operation whose window is not counted from its own call or return alone.

    An earlier call of an acquire moves the guaranteed end earlier, a later return its begin later; an earlier
    call of a release shortens. For an extension, an earlier call lowers the deadline. A write called earlier
    or returned later orders less. Lease honesty is about the interval itself and is left out, as are the
    versions of the store, which are no intervals.
    """
    history = built.history()
    ops = history.ops
    row = data.draw(st.integers(0, len(ops) - 1))
    earlier, later = data.draw(st.integers(0, 10)) * MS, data.draw(st.integers(0, 10)) * MS
    call, back = ops.call_ns.copy(), ops.return_ns.copy()
    call[row] -= earlier
    if ops.status[row] != Status.INFO:
        back[row] += later
    wide = replace(history, ops=replace(ops, call_ns=call, return_ns=back))
    new = {v for v in coarse(wide) if v[0] != "false-validity"}
    assert new <= coarse(history)


@FUZZ
@given(histories(), st.data())
def test_ok_turned_into_info_never_creates_a_violation(built: HistoryBuilder, data: st.DataObject) -> None:
    """What nobody was told proves nothing. (A release counts from its call, so it may be any operation.)"""
    history = built.history()
    ops = history.ops
    row = data.draw(st.integers(0, len(ops) - 1))
    status, back, info = ops.status.copy(), ops.return_ns.copy(), ops.info_ns.copy()
    if status[row] == Status.OK:
        status[row], info[row], back[row] = Status.INFO, back[row], 2**62
    unsure = replace(history, ops=replace(ops, status=status, return_ns=back, info_ns=info))
    assert coarse(unsure) <= coarse(history)


@pytest.mark.full
@FUZZ
@given(histories())
def test_more_uncertainty_never_creates_a_violation(built: HistoryBuilder) -> None:
    history = built.history()
    params = history.params
    found = coarse(history)
    for looser in (
        {"rho": params.rho + 0.1},
        {"epsilon_ns": params.epsilon_ns + 2 * MS},
        {"delta_ns": params.delta_ns + 3 * MS},
    ):
        changed = type(params)(**{**{f: getattr(params, f) for f in params.__struct_fields__}, **looser})
        assert coarse(history.with_params(changed)) <= found


@pytest.mark.full
def test_the_fuzzer_reaches_every_violation_of_windows_fences_and_resource() -> None:
    seen: set[str] = set()

    @settings(max_examples=400, deadline=None, database=None, derandomize=True)
    @given(histories())
    def explore(built: HistoryBuilder) -> None:
        seen.update(name for name, _ in violations(built.history()))

    explore()
    assert seen >= {"overlap", "false-validity", "fence-order", "unfenced-write", "lost-update"}
    assert seen & {"stale-write", "fence-breach"}


def fields(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def event_at(event: Event, time_ns: int) -> Event:
    return Event(**{**fields(event), "time_ns": time_ns})


def test_the_correct_lock_of_the_benchmarks_is_never_accused() -> None:
    from benchmarks.histories import correct_lock

    for seed, info in ((1, 0.0), (2, 0.1), (3, 0.5)):
        history = correct_lock(2_000, clients=7, keys=3, info=info, seed=seed)
        assert violations(history) == set()
        broken = correct_lock(2_000, clients=7, keys=3, info=info, seed=seed, late_violation=True)
        assert {name for name, _ in violations(broken)} >= {"overlap"}
        assert np.count_nonzero(broken.ops.f == F.ACQUIRE) == len(broken.ops) // 4
