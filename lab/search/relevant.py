"""Which part of a trial's history a finding needs: the events up to the last one that proves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.run.tracks import PAUSE_NS
from lab.search.runner import Event, Outcome
from lab.search.suspicion import named

RESOURCE: Final = ("read", "held", "write")
WAITS: Final = ("leak", "unavailable")
"""Findings that come of asking in vain for long enough."""
MARGIN_NS: Final = 2_000_000_000
"""How much longer than it must be a series of vain acquires is: operations do not always last as long."""
UNATTENDED: Final = ("/renewal of ", "/report on ")
"""How processes are named that do something in the background: a watchdog, a library that reports a loss."""


def is_unattended(event: Event) -> bool:
    """Whether an event is no operation that its client called."""
    return any(name in event["process"] for name in UNATTENDED)


Series = tuple[str, ...]
"""The ids of the grants that a client asked for one after the other, each a moment after the last refusal."""


class NotExpressible(ValueError):
    """A trial that has no scenario in directed steps; its text says why. The trial itself can be kept."""


@dataclass(frozen=True)
class Proven:
    """A finding and the events that it needs.

    ``property`` is the checker's name for what is violated.
    """

    events: list[Event]
    whole: list[Event]
    """All events up to the last of them, also those that look as if nothing depended on them."""
    property: str
    insisting: Mapping[str, Series]
    """By client, the acquires with which it asked for the lock again and again, if any are left."""

    def called_ns(self, grant: str) -> int:
        """When an acquire was called."""
        return next(
            int(each["time_ns"])
            for each in self.whole
            if _is(each, "acquire", "invoke") and _grant(each) == grant
        )


def relevant(outcome: Outcome, finding: str) -> Proven:
    """What of a history shows the finding.

    Raises:
        NotExpressible: the history does not show it, or as an observation only, which violates nothing.
    """
    hits = [each for each in _found(outcome, outcome.events, finding) if each.severity == "violation"]
    if not hits:
        raise NotExpressible(f"its history alone does not show {finding}")
    events = [event for event in outcome.events if not is_unattended(event)]

    def shows(part: list[Event]) -> bool:
        return any(each.severity == "violation" for each in _found(outcome, part, finding))

    if not shows(events):
        raise NotExpressible("the lock extends its leases unasked, and the finding needs that")
    events = _shortest(events, shows, beyond_ns=MARGIN_NS if finding in WAITS else 0)
    whole, series = events, _insisting(outcome, events)
    if finding in WAITS:
        idle, again = _vain(outcome, events), {grant for each in series.values() for grant in each}
        for client in outcome.trial.clients:
            asked = set(series.get(client, ()))
            for unneeded in (idle - again, asked if asked <= idle else set()):
                rest = [
                    event
                    for event in events
                    if event.get("client") != client or _grant(event) not in unneeded
                ]
                events = _kept_if(shows, rest, events)
    without = [event for event in events if event["f"] not in RESOURCE]
    events = _kept_if(shows, without, events)
    left = {_grant(event) for event in events}
    return Proven(
        events, whole, str(hits[0].property), {who: each for who, each in series.items() if left & {*each}}
    )


def _found(outcome: Outcome, events: list[Event], finding: str) -> list[Any]:
    part = Outcome(outcome.trial, [_plain(event) for event in events], outcome.covered)
    return [each for each in named(part) if each.name == finding]


def _plain(event: Event) -> Event:
    return {name: value for name, value in event.items() if not name.startswith("_")}


def _kept_if(shows: Callable[[list[Event]], bool], less: list[Event], events: list[Event]) -> list[Event]:
    return less if shows(less) else events


def _shortest(events: list[Event], shows: Callable[[list[Event]], bool], *, beyond_ns: int) -> list[Event]:
    """The shortest beginning that shows it and ends with a completion, and what ends so soon after that."""
    ends = [at for at, event in enumerate(events) if "client" in event and event["type"] != "invoke"]
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if shows(events[: ends[middle] + 1]):
            high = middle
        else:
            low = middle + 1
    if not ends:
        return events
    until_ns = events[ends[low]]["time_ns"] + beyond_ns
    return events[: max(at for at in ends if at <= ends[low] or events[at]["time_ns"] <= until_ns) + 1]


def _vain(outcome: Outcome, events: list[Event]) -> set[str]:
    """The acquires that were refused and left nothing behind on any node, by the id of the grant."""
    called_ns = {_grant(event): event["time_ns"] for event in events if _is(event, "acquire", "invoke")}
    changing = [(each, each.changes()) for each in outcome.commands]
    changing = [(each, changes) for each, changes in changing if changes]

    def left_something(event: Event) -> bool:
        token, since_ns, until_ns = event.get("token"), called_ns[_grant(event)], event["time_ns"]
        holding: set[tuple[str, str]] = set()
        for each, changes in changing:
            if token is None and each.client == event["client"] and since_ns <= each.time_ns <= until_ns:
                return True
            for key, old, new in changes:
                if token in each.words and old not in (None, token):
                    return True  # it changed what was another's
                if new == token and token is not None:
                    holding.add((each.node, key))
                elif old == token and each.time_ns <= until_ns:
                    holding.discard((each.node, key))
        return bool(holding)

    return {_grant(event) for event in events if _is(event, "acquire", "fail") and not left_something(event)}


def _insisting(outcome: Outcome, events: list[Event]) -> dict[str, Series]:
    """By client, the acquires at the end of its trial with which it asked for the lock again and again."""
    found = {}
    for client in outcome.trial.clients if outcome.trial.demand_ns else ():
        calls: list[Event] = []
        ends: dict[str, Event] = {}
        for event in events:
            if event.get("client") == client and event["type"] == "invoke":
                calls.append(event)
            elif event.get("client") == client and event["f"] == "acquire":
                ends[_grant(event)] = event
        series: list[Event] = []
        for call in reversed(calls):
            end = ends.get(_grant(call)) if call["f"] == "acquire" else None
            if series and (end is None or end["type"] == "ok" or not _soon_after(end, series[0])):
                break
            if call["f"] != "acquire":
                break
            series.insert(0, call)
        if len(series) > 1:
            found[client] = tuple(map(_grant, series))
    return found


def _soon_after(end: Event, call: Event) -> bool:
    """Whether a client asked again as soon as one does that insists."""
    waited_ns: int = call["time_ns"] - end["time_ns"]
    return abs(waited_ns - PAUSE_NS) <= PAUSE_NS // 10


def _grant(event: Event) -> str:
    return str(event.get("grant_id", ""))


def _is(event: Event, f: str, kind: str) -> bool:
    return bool(event["f"] == f and event["type"] == kind)
