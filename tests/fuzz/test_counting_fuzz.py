"""Semaphores and read-write locks against the judge that tries every order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from checker import check
from checker.history.events import Event, Params
from checker.history.history import History
from checker.history.operations import NEVER
from checker.linearizability.model import Op
from checker.verdict import Outcome, Property
from tests.fuzz.brute import possible
from tests.fuzzing import examples

pytestmark = pytest.mark.full

WRITER = 100
HISTORIES = 1_200


def _play(random: Random, *, shared: bool, refusals: bool, named: bool) -> tuple[History, list[Op], int]:
    """A small history, right or wrong; the events in a random order that keeps each client's turns."""
    permits = WRITER if shared else random.randint(1, 3)
    params = Params(
        model="read-write-lock" if shared else "semaphore",
        permits=None if shared else permits,
        refusals=["full"] if refusals else [],
    )
    clients = [f"c{i}" for i in range(random.randint(2, 4))]
    drafts: list[dict[str, Any]] = []
    queues: dict[str, list[int]] = {name: [] for name in clients}
    for name in clients:
        _turns(random, name, drafts, queues[name], shared=shared, refusals=refusals, named=named)
    events: list[Event] = []
    ops: list[Op] = []
    marks: list[dict[str, int]] = [{} for _ in drafts]
    steps = {name: [(at, part) for at in some for part in ("call", "back")] for name, some in queues.items()}
    while any(steps.values()):
        name = random.choice([n for n, left in steps.items() if left])
        at, part = steps[name].pop(0)
        draft = drafts[at]
        marks[at][part] = len(events)
        asked = {} if part == "back" else draft["asked"]
        kind: Any = "invoke" if part == "call" else draft["type"]
        error = draft.get("error") if part == "back" else None
        common = {
            "process": draft["process"],
            "client": name,
            "f": draft["f"],
            "key": "k",
            **draft["identity"],
        }
        events.append(Event(time_ns=len(events) * 1_000, type=kind, error=error, **common, **asked))
    for draft, mark in zip(drafts, marks, strict=True):
        returned = NEVER if draft["type"] == "info" else mark["back"]
        f = "refused acquire" if draft["type"] == "fail" else draft["f"]
        holder = clients.index(draft["client"])
        ops.append(Op(0, f, holder, mark["call"], returned, draft["weight"]))
    return History.from_events(events, params), ops, permits


def _turns(
    random: Random,
    name: str,
    drafts: list[dict[str, Any]],
    mine: list[int],
    *,
    shared: bool,
    refusals: bool,
    named: bool,
) -> None:
    holding: tuple[int, str] | None = None
    for _ in range(random.randint(1, 3)):
        grant = f"{name}-{len(drafts)}"
        if holding is None:
            weight = random.choice([1, WRITER]) if shared else 1
            kind = random.choice(
                [
                    "ok",
                    "ok",
                    "ok",
                    *(["fail"] if refusals else []),
                    *(["info"] if random.random() < 0.3 else []),
                ]
            )
            asked = {"value": "read" if weight == 1 else "write"} if shared else {}
            draft = {
                "f": "acquire",
                "type": kind,
                "weight": weight,
                "asked": asked,
                "error": "full" if kind == "fail" else None,
            }
            holding = (weight, grant) if kind == "ok" else None
        else:
            weight, grant = holding
            kind = "info" if random.random() < 0.15 else "ok"
            draft = {"f": "release", "type": kind, "weight": weight, "asked": {}}
            holding = None
        identity = {"grant_id": grant} if named else {}
        mine.append(len(drafts))
        drafts.append({**draft, "client": name, "process": name, "identity": identity})
        if kind == "info":
            return  # a client that goes on would go on under another name


def _rule(permits: int, *, shared: bool) -> Any:
    """State: what each holder holds, as sorted pairs."""

    def rule(state: tuple[tuple[int, int], ...], op: Op) -> Any:
        held, weight = dict(state), int(str(op.value))
        total = sum(held.values())
        if op.f == "acquire":
            if total + weight > permits:
                return None
            held[op.process] = held.get(op.process, 0) + weight
        elif op.f == "release":
            if held.get(op.process, 0) < weight:
                return None
            held[op.process] -= weight
        elif total + weight <= permits:
            return None
        return tuple(sorted((who, some) for who, some in held.items() if some))

    return rule


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("shared", [True, False], ids=["read-write", "semaphore"])
def test_sessions_without_refusals_are_judged_exactly(shared: bool, named: bool) -> None:
    random = Random(7)
    tally = {True: 0, False: 0}
    for _ in range(examples(HISTORIES)):
        history, ops, permits = _play(random, shared=shared, refusals=False, named=named)
        truth = possible(ops, _rule(permits, shared=shared), ())
        violated = check(history)[Property.MUTUAL_EXCLUSION].outcome is Outcome.VIOLATED
        assert violated == (not truth), list(history.events())
        tally[truth] += 1
    assert min(tally.values()) > HISTORIES // 20, tally


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("shared", [True, False], ids=["read-write", "semaphore"])
def test_refusals_are_never_accused_wrongly(shared: bool, named: bool) -> None:
    random = Random(8)
    found = 0
    for _ in range(examples(HISTORIES)):
        history, ops, permits = _play(random, shared=shared, refusals=True, named=named)
        verdict = check(history)[Property.MUTUAL_EXCLUSION]
        if verdict.outcome is Outcome.VIOLATED:
            assert not possible(ops, _rule(permits, shared=shared), ()), list(history.events())
            found += any(f.name == "refused-with-room" for f in verdict.findings)
    assert found > HISTORIES // 50
