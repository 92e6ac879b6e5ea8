"""What a check answers: properties, outcomes, findings with their witnesses, and how they compose."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Property(StrEnum):
    """What a lock promises, one verdict each; the last two only where the record says that it does."""

    MUTUAL_EXCLUSION = "mutual_exclusion"
    LEASE_HONESTY = "lease_honesty"
    FENCING = "fencing"
    RESOURCE = "resource"
    DEADLOCK_FREEDOM = "deadlock_freedom"
    FAULT_TOLERANCE = "fault_tolerance"
    FAIRNESS = "fairness"
    TIMELINESS = "timeliness"


class Outcome(StrEnum):
    """Three-valued, and `absent` for a lock that offers no fence and was never in need of one.

    `unknown` is never a pass.
    """

    OK = "ok"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    VIOLATED = "violated"


class Severity(StrEnum):
    """A violation breaks the property; a warning is about the client; information explains."""

    VIOLATION = "violation"
    WARNING = "warning"
    INFORMATION = "information"


_BADNESS = {outcome: rank for rank, outcome in enumerate(Outcome)}


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The worst of several: violated > unknown > absent > ok; nothing at all is unknown."""
    return max(outcomes, key=_BADNESS.__getitem__, default=Outcome.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Cause:
    """What was seen to have taken a holder's key away, or to have left it, before another was granted it.

    `kind` is "command" (a command deleted, overwrote or shortened the key), "clock" (a node's clock was
    moved), "node" (the node went down), "expiry" (the key outlived its TTL there by the node's own clock) or
    "minority" (the key never lay on a majority). `actor` is the client or the fault, "" if it is not known;
    `nodes` are those on which it was seen, `command` what they executed, `event` the position of the event
    that shows it, `offset_ns` when that was, since the history's time zero. `text` is all of it in
    a sentence.
    """

    kind: str
    actor: str
    nodes: tuple[str, ...]
    command: str | None
    event: int
    offset_ns: int
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "nodes": list(self.nodes)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was seen, with the events that prove it and one plain sentence.

    `why` is the whole sentence; `headline` is the part of it that can be said aloud, and `evidence` the lines
    behind that, none where the headline says it all. `cause` is what was seen to have led to it, if anything.

    `broken_assumption` says which assumption was broken before, and `fault` is the position of the event by
    which the nemesis broke it; None if none was.

    `name` is that of the table of findings. `witnesses` are event indices, ascending. `details` holds the
    numbers behind the sentence (an `offset_ns` counts from the history's time zero); `count` in it tells how
    many such findings there are in all when only the first few are listed.
    """

    name: str
    property: Property
    severity: Severity
    why: str
    key: str | None = None
    witnesses: tuple[int, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    clients: tuple[str, ...] = ()
    broken_assumption: str | None = None
    headline: str = ""
    evidence: tuple[str, ...] = ()
    cause: Cause | None = None
    fault: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "property": str(self.property),
            "severity": str(self.severity),
            "key": self.key,
            "witnesses": list(self.witnesses),
            "why": self.why,
            "headline": self.headline or self.why,
            "evidence": list(self.evidence),
            "cause": None if self.cause is None else self.cause.to_dict(),
            "details": dict(self.details),
            "clients": list(self.clients),
            "broken_assumption": self.broken_assumption,
        }


@dataclass(frozen=True, slots=True)
class PropertyVerdict:
    """The outcome of one property, why, and its findings (violations first)."""

    property: Property
    outcome: Outcome
    why: str
    findings: tuple[Finding, ...] = ()

    @builtins.property  # the field above has taken the name
    def violations(self) -> tuple[Finding, ...]:
        """The findings that break the property."""
        return tuple(f for f in self.findings if f.severity is Severity.VIOLATION)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "outcome": str(self.outcome),
            "why": self.why,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def judge(
    property: Property,
    findings: Sequence[Finding],
    *,
    otherwise: Outcome = Outcome.OK,
    why: str,
) -> PropertyVerdict:
    """A property is violated by any violation among its findings, else it is `otherwise` for reason `why`."""
    if not findings:
        return PropertyVerdict(property, otherwise, why)
    violations = [f for f in findings if f.severity is Severity.VIOLATION]
    rank = list(Severity)
    ordered = tuple(sorted(findings, key=lambda f: rank.index(f.severity)))
    if violations:
        return PropertyVerdict(property, Outcome.VIOLATED, violations[0].why, ordered)
    return PropertyVerdict(property, otherwise, why, ordered)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdicts of all properties, why this run proves less than it should, and what else to know."""

    properties: Mapping[Property, PropertyVerdict]
    unknown_reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The worst outcome of all properties."""
        return worst(p.outcome for p in self.properties.values())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, property by property."""
        return tuple(f for p in self.properties.values() for f in p.findings)

    def __getitem__(self, name: Property | str) -> PropertyVerdict:
        return self.properties[Property(name)]

    def named(self, name: str) -> tuple[Finding, ...]:
        """The findings of one name, e.g. "overlap"."""
        return tuple(f for f in self.findings if f.name == name)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as written to verdict.json."""
        return {
            "outcome": str(self.outcome),
            "properties": {str(name): verdict.to_dict() for name, verdict in self.properties.items()},
            "unknown_reasons": list(self.unknown_reasons),
            "remarks": list(self.remarks),
        }


def compose(
    verdicts: Iterable[PropertyVerdict], unknown_reasons: Sequence[str], remarks: Sequence[str] = ()
) -> Verdict:
    """One verdict of all properties.

    A reason to doubt the run turns `ok` and `absent` into `unknown`; a definite violation stays one.
    """
    composed = {}
    for verdict in verdicts:
        if unknown_reasons and verdict.outcome in (Outcome.OK, Outcome.ABSENT):
            why = f"{unknown_reasons[0]}; otherwise: {verdict.outcome} ({verdict.why})"
            verdict = replace(verdict, outcome=Outcome.UNKNOWN, why=why)
        composed[verdict.property] = verdict
    return Verdict(composed, tuple(unknown_reasons), tuple(remarks))
