"""The picture of a defect: its smallest schedule, with the numbers that the text has of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from checker import check
from checker.history.events import NODE, Event
from checker.verdict import Severity, Verdict
from lab.examine.answer.words import assumptions_of, cause_of
from lab.examine.result import Defect
from lab.examine.violations.evidence import MS_NS, NEVER, Evidence
from lab.faults.down import DownFault
from lab.report.timeline.data import extract
from lab.report.timeline.model import FindingText, Loss, Timeline
from lab.report.timeline.words import clean
from lab.search.faults import is_a
from lab.search.runner import ZERO_NS, Outcome, run_trial
from lab.search.suspicion import history_of
from lab.search.trial import KEY


def timeline_of(defect: Defect) -> Timeline:
    """What a defect's picture shows; only inside ``trials``.

    Raises:
        UnknownOutcome: a client ended with an exception.
    """
    outcome = run_trial(defect.trial, watch=True)
    told = [
        {name: value for name, value in event.items() if not name.startswith("_")} for event in outcome.events
    ]
    history = history_of(replace(outcome, events=told))
    nodes = sorted(_node_events(outcome), key=lambda event: event.time_ns)
    drawn = history.with_others([*history.others, *enumerate(nodes, len(outcome.events) + 1)])
    timeline = extract(drawn, _of_defect(check(history), defect), cause_of(defect).what)
    first, *_ = defect.findings
    why = clean(": ".join(part for part in (defect.headline, "; ".join(defect.evidence)) if part), 500)
    others = [found for found in timeline.findings if found.name != first]
    timeline.findings = [FindingText(first, "violation", why), *others]
    timeline.notes.append(assumptions_of(defect))
    _name_owners(timeline, Evidence(outcome))
    _blame(timeline, outcome)
    return timeline


def _of_defect(verdict: Verdict, defect: Defect) -> Verdict:
    """The violations that count as this defect, and nothing else."""
    properties = {}
    for name, found in verdict.properties.items():
        of_it = [one for one in found.violations if one.name in defect.findings]
        if of_it and all(one.severity is Severity.VIOLATION for one in of_it):
            properties[name] = replace(found, findings=tuple(of_it))
    return Verdict(properties)


def _name_owners(timeline: Timeline, evidence: Evidence) -> None:
    """Give the keys whose token no grant has to the one client that wrote their value."""
    for node in timeline.nodes:
        for at, life in enumerate(node.lives):
            writers = evidence.writers.get(life.token or "", set())
            if life.owner is None and len(writers) == 1:
                node.lives[at] = replace(life, owner=next(iter(writers)))


def _blame(timeline: Timeline, outcome: Outcome) -> None:
    """Mark the commands that took another client's key away too early, up to the first overlap."""
    until_ns = min((band.span.start_ns for band in timeline.bands), default=NEVER)
    for node in timeline.nodes:
        ends = {life.span.end_ns: life for life in node.lives if life.promised_ns is not None}
        for entry in outcome.commands:
            at_ns = entry.time_ns - ZERO_NS
            life = ends.get(at_ns) if entry.node == node.name and entry.changes() else None
            if life is not None and at_ns <= until_ns and life.owner not in (None, entry.client):
                node.losses.append(Loss(at_ns, f"{entry.client}’s {entry.name}"))


def _node_events(outcome: Outcome) -> Iterator[Event]:
    """What nodes kept under the keys of the lock, from the commands that they executed."""
    tokens = sorted({e["token"] for e in outcome.events if e.get("token") and e.get("key", KEY) == KEY})
    known: dict[tuple[str, str], tuple[str, int | None]] = {}
    downs = list(_downs(outcome))
    yield from downs
    for entry in outcome.commands:
        for down in downs:
            if down.f == "node-down" and down.node == entry.node and down.time_ns <= entry.time_ns:
                known = {place: kept for place, kept in known.items() if place[0] != entry.node}
        for key in {**entry.before, **entry.after}:
            place, kept = (entry.node, key), entry.after.get(key)
            before = known.get(place)
            token = None if kept is None else _token_in(kept[0], tokens)
            if kept is not None and (token is not None or (not tokens and kept[1] is not None)):
                known[place] = kept
                if before is None or before[0] != kept[0] or _is_prolonged(entry.before.get(key), kept):
                    yield _event(entry.node, entry.time_ns, "key-set", token or kept[0], kept[1])
            elif before is not None:
                del known[place]
                yield _event(entry.node, entry.time_ns, "key-deleted", None, None)


def _token_in(value: str, tokens: list[str]) -> str | None:
    """The token that a key's value has, whatever else stands in it."""
    return next((token for token in tokens if token in value), None)


def _is_prolonged(before: tuple[str, int | None] | None, after: tuple[str, int | None]) -> bool:
    return before is not None and before[1] != after[1]


def _event(node: str, time_ns: int, f: str, token: str | None, left_ms: int | None) -> Event:
    left_ns = None if left_ms is None else left_ms * MS_NS
    return Event(
        time_ns=time_ns, process=NODE, type="info", f=f, node=node, key=KEY, token=token, ttl_left_ns=left_ns
    )


def _downs(outcome: Outcome) -> Iterator[Event]:
    """When nodes went down, and when they were up again."""
    downs = {f"f{at}" for at, fault in enumerate(outcome.struck, 1) if is_a(fault, DownFault)}
    for event in outcome.events:
        begun = event.get("heals") or event.get("fault_id")
        if event["process"] == "nemesis" and event["type"] == "ok" and begun in downs:
            f = "node-up" if event.get("heals") else "node-down"
            for node in event["targets"]:
                yield Event(time_ns=event["time_ns"], process=NODE, type="info", f=f, node=node)
