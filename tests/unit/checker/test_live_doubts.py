"""Why the live form proves less: each event of the nemesis or the lab that gives a reason, and no other."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from checker.history.events import Event
from checker.live.doubts import LISTED_MAX, Doubts


def reported(*events: Event) -> list[str]:
    doubts = Doubts()
    for at, event in enumerate(events):
        doubts.look(event, at)
    return list(doubts.reasons())


def event(process: str, type: Any, f: str, **more: Any) -> Event:
    return Event(time_ns=0, process=process, type=type, f=f, **more)


@pytest.mark.parametrize(
    ("process", "type", "f"),
    list(product(("lab", "nemesis", "node"), ("ok", "fail", "info"), ("abort", "anchor", "phase"))),
)
def test_only_an_abort_and_an_anchor_that_failed_are_reasons(process: str, type: str, f: str) -> None:
    expected = {
        ("lab", "abort"): ["what failed: why (event 0)"],
        ("lab", "anchor"): ["an anchor never came: why (event 0)"] if type == "fail" else [],
    }
    assert reported(event(process, type, f, error="why", value="what")) == expected.get((process, f), [])


def test_what_is_said_where_no_reason_was_given() -> None:
    assert reported(event("lab", "info", "abort")) == ["the harness failed: no reason given (event 0)"]
    assert reported(event("lab", "fail", "anchor", value="x")) == ["an anchor never came: x (event 0)"]
    assert reported(event("lab", "fail", "anchor")) == ["an anchor never came: ? (event 0)"]


def test_a_fault_needs_its_receipt() -> None:
    asked = event("nemesis", "invoke", "jump", fault_id="a")
    missing = "no receipt for jump (event 0)"
    assert reported(asked) == [missing]
    assert reported(asked, event("nemesis", "ok", "jump", fault_id="a")) == []
    assert reported(asked, event("nemesis", "fail", "jump", fault_id="a")) == [missing]
    assert reported(asked, event("nemesis", "info", "jump", fault_id="a")) == [missing]
    for other in ({"fault_id": "b"}, {"fault_id": "a", "heals": "a"}, {}):
        assert reported(asked, event("nemesis", "ok", "jump", **other)) == [missing]
    assert reported(asked, event("nemesis", "ok", "drift", fault_id="a")) == [missing]
    assert reported(asked, event("lab", "ok", "jump", fault_id="a")) == [missing]
    assert reported(asked, asked, event("nemesis", "ok", "jump", fault_id="a")) == [missing]
    assert reported(asked, asked) == [missing, "no receipt for jump (event 1)"]
    unnamed = event("nemesis", "invoke", "jump")
    assert reported(unnamed, event("nemesis", "ok", "jump")) == []


@pytest.mark.parametrize("many", [LISTED_MAX - 1, LISTED_MAX, LISTED_MAX + 1, LISTED_MAX + 5])
def test_only_the_first_reasons_are_listed(many: int) -> None:
    found = reported(*(event("lab", "info", "abort", error=str(n)) for n in range(many)))
    assert found[:LISTED_MAX] == [
        f"the harness failed: {n} (event {n})" for n in range(min(many, LISTED_MAX))
    ]
    assert len(found) == min(many, LISTED_MAX + 1)
    if many > LISTED_MAX:
        assert str(many - LISTED_MAX) in found[-1]


def test_times_that_go_back_are_told_once_and_what_is_left_out_is_counted() -> None:
    doubts = Doubts()
    assert not doubts.out_of_order
    doubts.disordered(3)
    doubts.disordered(5)
    assert doubts.out_of_order
    assert list(doubts.reasons()) == ["the time goes back at event 3: from there on nothing was judged live"]
    assert list(doubts.left_out()) == []
    for _ in range(2):
        doubts.count("some are odd")
    doubts.count("one is even")
    assert len(list(doubts.left_out())) == 2
    assert sum("2" in what for what in doubts.left_out()) == 1
