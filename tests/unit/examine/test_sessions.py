"""A history of a lock that its holder may take again, told as one of sessions."""

from __future__ import annotations

from typing import Any

import pytest

from lab.examine.violations.sessions import NOT_COUNTED, in_sessions
from lab.search.runner import Outcome
from lab.search.trial import Trial

S = 10**9
TTL_S = 10
Call = tuple[str, str, float, str]
"""What is called, of which grant, when (in seconds), and how it ends, a moment later."""


def told(*calls: Call, claims: bool = False, reentrant: bool = True) -> list[dict[str, Any]]:
    """The events of Alice's calls, as sessions; each call lasts for 10 ms."""
    events: list[dict[str, Any]] = []
    for f, grant_id, at_s, how in calls:
        event: dict[str, Any] = {
            "f": f,
            "grant_id": grant_id,
            "key": "k",
            "client": "alice",
            "process": "alice",
        }
        event |= {"ttl_ns": TTL_S * S} if f != "release" else {}
        events.append(event | {"type": "invoke", "time_ns": int(at_s * S)})
        more = {"claimed_ns": (TTL_S - 1) * S} if claims and how == "ok" and f == "acquire" else {}
        events.append(event | more | {"type": how, "time_ns": int(at_s * S) + S // 100})
    trial = Trial("single", {"alice": ()}, ttl_ns=TTL_S * S, reentrant=reentrant)
    return in_sessions(Outcome(trial, events, frozenset())).events


def ends(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """How each call ended: what it is told as, of which grant, and how."""
    return [(e["f"], e["grant_id"], e["type"]) for e in events if e["type"] != "invoke"]


TWICE: tuple[Call, ...] = (("acquire", "g1", 0, "ok"), ("acquire", "g2", 1, "ok"))


def test_of_a_lock_that_nobody_may_take_again_the_history_stays_as_it_is() -> None:
    assert ends(told(*TWICE, reentrant=False)) == [("acquire", "g1", "ok"), ("acquire", "g2", "ok")]


def test_what_is_taken_and_given_back_within_a_session_does_not_end_it() -> None:
    events = told(*TWICE, ("release", "g2", 2, "ok"), ("release", "g1", 3, "ok"))
    assert ends(events) == [
        ("acquire", "g1", "ok"),
        ("extend", "g1", "info"),
        ("extend", "g1", "info"),
        ("release", "g1", "ok"),
    ]


@pytest.mark.parametrize(("claims", "how"), [(True, "ok"), (False, "info")])
def test_a_nested_acquire_prolongs_a_session_for_certain_if_it_says_so(claims: bool, how: str) -> None:
    assert ends(told(*TWICE, claims=claims))[1] == ("extend", "g1", how)


@pytest.mark.parametrize(("at_s", "how"), [(1.0, "info"), (12.0, "ok")])
def test_what_may_not_have_been_given_back_may_be_there_after_the_next_release(at_s: float, how: str) -> None:
    events = told(
        ("acquire", "g1", 0, "ok"),
        ("release", "g1", 0.5, "info"),
        ("acquire", "g2", at_s, "ok"),
        ("release", "g2", at_s + 1, "ok"),
    )
    assert ends(events)[2:] == [("acquire", "g2", "ok"), ("release", "g2", how)]
    assert (events[-1].get("error") == NOT_COUNTED) == (how == "info")


def test_an_acquire_after_the_end_of_a_lease_begins_another_session() -> None:
    assert ends(told(("acquire", "g1", 0, "ok"), ("acquire", "g2", 12, "ok")))[1] == ("acquire", "g2", "ok")


@pytest.mark.parametrize(("f", "how"), [("acquire", "ok"), ("release", "info")])
def test_what_a_nested_call_of_unknown_outcome_has_left_outlasts_a_session_if_that_was_a_release(
    f: str, how: str
) -> None:
    """What an acquire has set its client could have undone; it must not prolong that for ever."""
    lost: tuple[Call, ...] = (("acquire", "g1", 0, "ok"), ("acquire", "g2", 1, "info"))
    if f == "release":
        lost = (*TWICE, ("release", "g2", 1.5, "info"))
    events = told(
        *lost,
        ("release", "g1", 2, "ok"),
        ("acquire", "g3", 3, "ok"),
        ("release", "g3", 4, "ok"),
        ("acquire", "g4", 5, "ok"),
        ("release", "g4", 6, "ok"),
    )
    last = ends(events)[-4:]
    assert last == [
        ("acquire", "g3", "ok"),
        ("release", "g3", how),
        ("acquire", "g4", "ok"),
        ("release", "g4", how),
    ]
