"""Fairness, elections and circles of waits against judges that try everything, on small random histories."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest

from checker import check
from checker.history.events import Event, Params
from checker.history.history import History
from checker.verdict import Outcome, Property
from tests.fuzzing import examples

pytestmark = pytest.mark.full

HISTORIES = 1_500
Session = tuple[int, int, int, int]
"""Call and return of the acquire, call and return of the release; positions in the history."""


def _shuffled(random: Random, turns: dict[str, list[Event]]) -> list[Event]:
    """The events of all clients in one random order; each client's own order stays, times grow."""
    left = {name: list(events) for name, events in turns.items()}
    out: list[Event] = []
    while any(left.values()):
        event = left[random.choice([name for name, events in left.items() if events])].pop(0)
        event.time_ns = len(out)
        out.append(event)
    return out


def _sessions(name: str, key: str, *, number: int) -> list[Event]:
    def event(type: Any, f: str) -> Event:
        return Event(
            time_ns=0, process=name, client=name, key=key, f=f, type=type, grant_id=f"{name}{number}"
        )

    return [event(t, f) for f in ("acquire", "release") for t in ("invoke", "ok")]


def _explained(sessions: list[Session], slack: int) -> bool:
    """Whether some order of the sessions keeps them apart and grants whoever surely queued first, first."""
    for order in permutations(sessions):
        fair = all(not a[0] > b[0] + slack for i, a in enumerate(order) for b in order[i + 1 :])
        free, apart = -1.0, True
        for call, returned, release_call, release_return in order:
            begin = max(free, call)
            apart &= begin < returned
            free = max(begin, release_call)
            apart &= free < release_return
        if fair and apart:
            return True
    return False


def test_an_order_of_the_queue_is_found_if_there_is_one() -> None:
    random = Random(5)
    tally = {True: 0, False: 0}
    for _ in range(examples(HISTORIES)):
        slack = random.choice([0, 1, 3])
        turns = {name: _sessions(name, "k", number=0) for name in "abcd"[: random.randint(2, 4)]}
        events = _shuffled(random, turns)
        history = History.from_events(events, Params(model="owner-mutex", fifo_ns=slack))
        at = {name: [i for i, e in enumerate(events) if e.process == name] for name in turns}
        sessions: list[Session] = [(p[0], p[1], p[2], p[3]) for p in at.values()]
        verdict = check(history)
        if verdict[Property.MUTUAL_EXCLUSION].outcome is Outcome.VIOLATED:
            assert not _explained(sessions, slack)
            continue
        truth = _explained(sessions, slack)
        assert (verdict[Property.FAIRNESS].outcome is Outcome.VIOLATED) == (not truth), events
        tally[truth] += 1
    assert min(tally.values()) > 10, tally


def test_terms_are_judged_as_by_looking_at_every_pair() -> None:
    random = Random(6)
    tally = {True: 0, False: 0}
    for _ in range(examples(HISTORIES)):
        turns: dict[str, list[Event]] = {}
        for name in "abc":
            turns[name] = []
            for number in range(random.randint(1, 2)):
                invoke, done = _sessions(name, "g", number=number)[:2]
                done.type = random.choice(["ok", "ok", "ok", "info"])
                done.fence = random.randint(1, 6)
                if done.type == "info":
                    done.fence = None
                turns[name] += [invoke, done]
                if done.type == "info":
                    break
        events = _shuffled(random, turns)
        found = [(events.index(e), e) for e in events if e.type == "ok"]
        calls = {e.grant_id: i for i, e in enumerate(events) if e.type == "invoke"}
        wrong = False
        for i, first in found:
            for _, second in found:
                if first is second or first.fence is None or second.fence is None:
                    continue
                shared = first.fence == second.fence and first.process != second.process
                again = first.fence == second.fence and first.process == second.process
                wrong |= shared or (i < calls[second.grant_id] and second.fence <= first.fence and not again)
        verdict = check(History.from_events(events, Params(model="leader-election")))
        outcome = verdict[Property.MUTUAL_EXCLUSION].outcome
        assert (outcome is Outcome.VIOLATED) == wrong, events
        tally[wrong] += 1
    assert min(tally.values()) > HISTORIES // 20, tally


def _circle(events: list[Event]) -> bool:
    """Whether clients wait for each other in a circle at any instant between two events."""
    for now in range(len(events)):
        held: dict[str, str] = {}
        wanted: dict[str, str] = {}
        for event in events[: now + 1]:
            who, key = event.process, str(event.key)
            if event.f == "acquire" and event.type == "invoke":
                wanted[who] = key
            elif event.f == "acquire":
                wanted.pop(who)
                if event.type == "ok":
                    held[key] = who
            elif event.type == "invoke" and held.get(key) == who:
                del held[key]
        for who in wanted:
            seen, at = set(), who
            while at in wanted and wanted[at] in held and at not in seen and at in held.values():
                seen.add(at)
                at = held[wanted[at]]
                if at == who and len(seen) > 1:
                    return True
    return False


def test_circles_of_waits_are_found_as_by_looking_at_every_instant() -> None:
    random = Random(9)
    tally = {True: 0, False: 0}
    for _ in range(examples(HISTORIES)):
        turns: dict[str, list[Event]] = {}
        for name in "abc"[: random.randint(2, 3)]:
            first, second = random.sample(["x", "y", "z"], 2)
            outer, inner = _sessions(name, first, number=0), _sessions(name, second, number=1)
            if random.random() < 0.5:
                inner[1].type = "fail"
                inner = inner[:2]
            turns[name] = [*outer[:2], *inner, *outer[2:]]
        events = _shuffled(random, turns)
        verdict = check(History.from_events(events, Params(model="owner-mutex")))
        if verdict[Property.MUTUAL_EXCLUSION].outcome is Outcome.VIOLATED:
            continue  # two held one lock: who waits for whom has no answer
        assert bool(verdict.named("deadlock")) == _circle(events), events
        tally[_circle(events)] += 1
    assert min(tally.values()) > 10, tally
