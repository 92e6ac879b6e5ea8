"""The offline checks on the operations that are kept: what they find there is violated in the whole history.

Why a part is enough: every condition compares operations of two grants, or two writes, and nothing else, so
leaving other operations out can hide a violation and never make one. What is still open is closed against
the accusation: a grant that was not released counts as released now; an extension under way is one of
unknown outcome; a claim is looked at as if its client had stood still during the whole call; and a write is
no read-modify-write for `lost-update` while an earlier write of its own grant is missing or under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from checker.history.events import STALL, Event, Params
from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import NEVER
from checker.history.pairing import columns_of, pair
from checker.live.window import Grant, Operation
from checker.properties import fencing, mutual_exclusion, resource
from checker.properties import lease_honesty as honesty
from checker.verdict import Finding, Property, Severity

JUDGED: Final[Mapping[Property, frozenset[str]]] = {
    Property.MUTUAL_EXCLUSION: frozenset(("overlap", "continuity-loss")),
    Property.LEASE_HONESTY: frozenset(("false-validity",)),
    Property.FENCING: frozenset(("fence-order", "fence-breach", "stale-write", "unfenced-write")),
    Property.RESOURCE: frozenset(("lost-update",)),
}
"""Which findings are judged live."""
_CHECKS: Final[Mapping[Property, Callable[[Evidence], Sequence[Finding]]]] = {
    Property.MUTUAL_EXCLUSION: lambda evidence: mutual_exclusion.check(evidence).findings,
    Property.LEASE_HONESTY: lambda evidence: honesty.check(evidence).findings,
    Property.FENCING: lambda evidence: fencing.check(evidence).findings,
    Property.RESOURCE: lambda evidence: resource.lost_updates(evidence)[0],
}
_MADE_UP: Final = 2**61
"""Positions from here on are those of events that stand for what is still open."""


def violations(
    property: Property,
    grants: Iterable[Grant],
    loose: Iterable[Operation],
    others: Iterable[tuple[int, Event]],
    *,
    params: Params,
    start_ns: int,
    now_ns: int | None,
    excused: bool = True,
) -> list[Finding]:
    """The violations of one property among operations; `now_ns` is None when the history has ended.

    With `excused`, clients count as having stood still during all of their calls.

    Raises:
        HistoryError: events that contradict each other, as for a whole history.
    """
    events: dict[int, Event] = {}
    grants = list(grants)
    for grant in grants:
        for operation in grant.operations():
            events.update(operation.events())
    for operation in loose:
        events.update(operation.events())
    based = property is Property.RESOURCE
    for at in _uncertain(grants, loose) if based else ():
        events[at] = msgspec.structs.replace(events[at], version_read=None)
    made_up = list(_closing(grants, now_ns))
    if property is Property.LEASE_HONESTY and excused:
        others = [*others, *((_MADE_UP + i, e) for i, e in enumerate(_standing_still(events.values())))]
    indices = sorted(events)
    columns = columns_of(
        [*(events[at] for at in indices), *made_up],
        [*indices, *range(_MADE_UP, _MADE_UP + len(made_up))],
    )
    last = max((event.time_ns for event in events.values()), default=start_ns)
    history = History(
        ops=pair(columns), params=params, start_ns=start_ns, end_ns=last if now_ns is None else now_ns
    )
    evidence = Evidence(history.with_others(list(others)))
    ends = {event.time_ns for event in made_up}
    closed = {
        f"until {evidence.at(end - params.epsilon_ns)} (it called release then)": end == now_ns
        for end in sorted(ends)
    }
    return [
        _as_of_now(finding, closed)
        for finding in _CHECKS[property](evidence)
        if finding.severity is Severity.VIOLATION and finding.name in JUDGED[property]
    ]


def _closing(grants: Sequence[Grant], now_ns: int | None) -> Iterable[Event]:
    """A release of unknown outcome for each grant that nobody released before, by a process of its own."""
    for number, grant in enumerate(grants):
        end = min(grant.closed_ns, NEVER if now_ns is None else now_ns)
        if end < (NEVER if grant.release is None else grant.release.call.time_ns):
            yield Event(
                time_ns=end,
                process=f"release of {number}",
                type="invoke",
                f="release",
                key=grant.key,
                grant_id=grant.id,
            )


def _standing_still(events: Iterable[Event]) -> Iterable[Event]:
    """A stall of every client from its first event to its last."""
    first: dict[tuple[str, str | None], int] = {}
    last: dict[tuple[str, str | None], int] = {}
    for event in events:
        who = (event.process, event.client)
        first[who] = min(first.get(who, event.time_ns), event.time_ns)
        last[who] = max(last.get(who, event.time_ns), event.time_ns)
    for (process, client), start in first.items():
        duration = last[process, client] - start
        yield Event(
            time_ns=start,
            process=process,
            client=client,
            type="info",
            f=STALL,
            start_ns=start,
            duration_ns=duration,
        )


def _uncertain(grants: Sequence[Grant], loose: Iterable[Operation]) -> Iterable[int]:
    """Positions of the events that say what a write was based on, where a write before it may be missing."""
    unsure = [write for write in loose if write.get("grant_id") is not None]
    for grant in grants:
        unsure += grant.writes if grant.writing else grant.writes[:1] if grant.writes_cut else []
    for write in unsure:
        yield from (at for at, event in write.events() if event.version_read is not None)


def _as_of_now(finding: Finding, closed: Mapping[str, bool]) -> Finding:
    """The finding without what was made up.

    `closed` are the words on the ends that windows were given, and whether that is the moment.
    """
    finding = replace(finding, witnesses=tuple(at for at in finding.witnesses if at < _MADE_UP))
    for words, now in closed.items():
        if words in finding.why:
            truly = "it had not released it so far" if now else "what came then may have ended it"
            so_far = words.replace("it called release then", f"at least; {truly}")
            lines = tuple(line.replace(words, so_far) for line in finding.evidence)
            finding = replace(finding, why=finding.why.replace(words, so_far), evidence=lines)
    return finding
