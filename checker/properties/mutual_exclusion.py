"""Mutual exclusion: may two grants of one key have been held at the same time?

`overlap` is definite: two guaranteed windows meet, so in no execution in which nodes keep keys for their TTL,
or for as long as the lock itself claims, could both have been granted. It is sound and incomplete: timed
leases of mixed TTLs are strongly NP-hard to decide (sequencing within intervals). Where every release is
called before its lease ends, the windows are the cores of an owner-aware mutex, and the test is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checker.history.arrays import largest_before, running_max, sort_grouped, which_before
from checker.history.evidence import LISTED_MAX, Evidence, latest, limited
from checker.history.masks import count, positions, some
from checker.history.operations import I64, NEVER, Index, Status
from checker.history.windows import Segments, possible, promised
from checker.properties.cause import cause_of
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, judge
from checker.words import in_words

EXCLUSION = Property.MUTUAL_EXCLUSION


@dataclass(frozen=True, slots=True)
class Meetings:
    """Pairs of segments that meet: grants (rows) and the time both cover. `count` may exceed the pairs."""

    first: Index
    second: Index
    start_ns: I64
    end_ns: I64
    count: int


def check(evidence: Evidence) -> PropertyVerdict:
    """The verdict on mutual exclusion from windows and extensions, for locks that belong to their holder."""
    findings = [*overlaps(evidence), *continuity_losses(evidence), *belief_overlaps(evidence)]
    evidence.forget_windows()
    findings = findings or possible_overlaps(evidence)
    held = count(evidence.grants.held)
    why = f"{held} grants, and no two of one key were surely held at the same time"
    if any(f.name == "belief-overlap" for f in findings):
        why = (
            f"{held} grants, and no two of one key were surely held at the same time, though two clients "
            "believed "
            "that they held it at once"
        )
    return unless_open(evidence, judge(EXCLUSION, findings, why=why), _overlaps_by_process)


def unless_open(
    evidence: Evidence, verdict: PropertyVerdict, violated: Callable[[Evidence], bool]
) -> PropertyVerdict:
    """Unknown in place of `ok`, if all depends on which grant an operation without a grant was about.

    `violated` decides on the same history as if each was about the last of its own process.
    """
    doubt = evidence.open_why()
    if doubt is None or not violated(Evidence(evidence.history, evidence.model, by_process=True)):
        return verdict
    return judge(EXCLUSION, verdict.findings, otherwise=Outcome.UNKNOWN, why=doubt)


def _overlaps_by_process(evidence: Evidence) -> bool:
    return meetings(evidence.guaranteed, evidence.grants.key, 1).count > 0


def meetings(segments: Segments, key: np.ndarray, limit: int) -> Meetings:
    """Segments of different grants of one key that meet, O(n log n), the earliest `limit` of them.

    `key` has one code per grant. Every segment that begins inside an earlier one counts once, paired with
    the earlier one that ends last: linear in number, though the pairs may be quadratically many.
    """
    group = key[segments.grant]
    order = sort_grouped(group, segments.start_ns)
    start, end, group = segments.start_ns[order], segments.end_ns[order], group[order]
    touching = (end[:-1] > start[1:]) & (group[1:] == group[:-1])
    if not some(touching):
        nothing = order[:0]
        return Meetings(nothing, nothing, nothing, nothing, 0)
    end = np.minimum(end, max(latest(end), latest(start)) + 1)
    reach = running_max(end, group)
    inside = positions((reach[:-1] > start[1:]) & (group[1:] == group[:-1])) + 1
    picked = inside[np.argsort(start[inside], kind="stable")[:limit]]
    first = np.array([_reaching(end, group, at) for at in picked.tolist()], np.int64)
    grant = segments.grant[order]
    return Meetings(
        grant[first],
        grant[picked],
        start[picked],
        np.minimum(end[first], end[picked]),
        int(inside.size),
    )


def _reaching(end: I64, group: np.ndarray, at: int) -> int:
    begin = int(np.searchsorted(group, group[at]))
    return begin + int(np.argmax(end[begin:at]))


def overlaps(evidence: Evidence) -> list[Finding]:
    """`overlap`: the guaranteed windows of two grants of one key meet."""
    grants = evidence.grants
    found = meetings(evidence.guaranteed, grants.key, LISTED_MAX)
    findings = [_overlap(evidence, found, i) for i in range(found.first.size)]
    return limited(findings, found.count)


def _overlap(evidence: Evidence, found: Meetings, i: int) -> Finding:
    grants, ops = evidence.grants, evidence.ops
    g, h = int(found.first[i]), int(found.second[i])
    start, end = int(found.start_ns[i]), int(found.end_ns[i])
    a, b = evidence.holder(g), evidence.holder(h)
    key = int(grants.key[g])
    both = (
        f"{a} held {evidence.key(key)!r} twice" if a == b else f"{a} and {b} both held {evidence.key(key)!r}"
    )
    cause = cause_of(evidence, g, h)
    lines = [f"{a}: {_until(evidence, g)} · {b}: acquired at {evidence.at(grants.acquired_ns[h])}"]
    if cause is not None:
        lines.append(f"cause: {cause.text}")
    witnesses = [evidence.completion(int(grants.row[g])), evidence.completion(int(grants.row[h]))]
    if grants.release_row[g] >= 0:
        witnesses.append(int(ops.call_index[grants.release_row[g]]))
    return evidence.finding(
        "overlap",
        EXCLUSION,
        Severity.VIOLATION,
        headline=f"{both} for at least {in_words(end - start, at_least=True)}",
        evidence=lines,
        cause=cause,
        key=key,
        witnesses=witnesses,
        clients=(a, b),
        forgotten=evidence.forgotten(g, h),
        overlap_ns=end - start,
        start_offset_ns=start - evidence.history.zero_ns,
        end_offset_ns=end - evidence.history.zero_ns,
        grants=[ops.name("grant", int(grants.row[g])), ops.name("grant", int(grants.row[h]))],
    )


def _until(evidence: Evidence, g: int) -> str:
    segments = evidence.guaranteed
    mine = segments.grant == g
    end = int(segments.end_ns[mine].max())
    if end >= NEVER - evidence.params.epsilon_ns:
        return "held until it released it, which it never did"
    called = end == evidence.grants.release_call_ns[g] - evidence.params.epsilon_ns
    why = "its claim" if _is_claimed_until(evidence, g, end + evidence.params.epsilon_ns) else "its TTL"
    why = "it called release then" if called else f"{why} ends then at the earliest"
    if end == evidence.gap_ns[g] - evidence.params.epsilon_ns:
        why = "what it did then is not recorded"
    elif end == evidence.open_ns[g] - evidence.params.epsilon_ns:
        why = "a release or an extension then may have been of it"
    return f"guaranteed until {evidence.at(end)} ({why})"


def _is_claimed_until(evidence: Evidence, g: int, end_ns: int) -> bool:
    grants, rho = evidence.grants, evidence.params.rho
    mine = grants.extensions.grant == g
    ends = (
        promised(grants.acquired_ns[[g]], grants.claimed_ns[[g]], rho),
        promised(grants.extensions.return_ns[mine], grants.extensions.claimed_ns[mine], rho),
    )
    return any(some(each == end_ns) for each in ends)


def _within(evidence: Evidence, h: int) -> str:
    grants = evidence.grants
    return f"between {evidence.at(grants.called_ns[h])} and {evidence.at(grants.acquired_ns[h])}"


def belief_overlaps(evidence: Evidence) -> list[Finding]:
    """`belief-overlap`: two clients both believed; a warning, for the lock had kept its promise."""
    grants, ops = evidence.grants, evidence.ops
    found = meetings(evidence.believed, grants.key, 5 * LISTED_MAX)
    pairs = zip(found.first.tolist(), found.second.tolist(), strict=True)
    mild = [i for i, (g, h) in enumerate(pairs) if not _guaranteed_meet(evidence, g, h)]
    findings = []
    for i in mild[:LISTED_MAX]:
        g, h = int(found.first[i]), int(found.second[i])
        start, end = int(found.start_ns[i]), int(found.end_ns[i])
        a, b = evidence.holder(g), evidence.holder(h)
        name = evidence.key(int(grants.key[g]))
        headline = f"{a} and {b} both believed to hold {name!r} for {in_words(end - start)}"
        lines = (
            f"{a}: believed until {evidence.at(_believed_until(evidence, g))} · "
            f"{b}: acquired at {evidence.at(grants.acquired_ns[h])}",
            f"{a}'s lease may have been over by then, so that the nodes need not have granted it to both "
            "at once",
        )
        findings.append(
            evidence.finding(
                "belief-overlap",
                EXCLUSION,
                Severity.WARNING,
                headline=headline,
                evidence=lines,
                key=int(grants.key[g]),
                witnesses=(evidence.completion(int(grants.row[g])), evidence.completion(int(grants.row[h]))),
                clients=(a, b),
                overlap_ns=end - start,
                start_offset_ns=start - evidence.history.zero_ns,
                end_offset_ns=end - evidence.history.zero_ns,
                grants=[ops.name("grant", int(grants.row[x])) for x in (g, h)],
            )
        )
    return limited(findings, found.count - (found.first.size - len(mild)))


def _believed_until(evidence: Evidence, g: int) -> int:
    segments = evidence.believed
    return int(segments.end_ns[segments.grant == g].max())


def _guaranteed_meet(evidence: Evidence, g: int, h: int) -> bool:
    segments = evidence.guaranteed
    mine, theirs = segments.grant == g, segments.grant == h
    start = np.maximum.outer(segments.start_ns[mine], segments.start_ns[theirs])
    end = np.minimum.outer(segments.end_ns[mine], segments.end_ns[theirs])
    return some(start < end)


def possible_overlaps(evidence: Evidence) -> list[Finding]:
    """`possible-overlap`: only the possible windows meet, as in any contended hand-over; one example."""
    grants = evidence.grants
    found = meetings(possible(grants, evidence.params), grants.key, 1)
    if not found.count:
        return []
    g, h = int(found.first[0]), int(found.second[0])
    a, b = evidence.holder(g), evidence.holder(h)
    begun = "1 grant may have" if found.count == 1 else f"{found.count} grants may have"
    lines = (
        f"the first are {a} and {b}, at {evidence.at(found.start_ns[0])}",
        "only the times in which each may have held it meet, so nothing follows from it",
    )
    return [
        evidence.finding(
            "possible-overlap",
            EXCLUSION,
            Severity.INFORMATION,
            headline=f"{begun} begun while an earlier one was held",
            evidence=lines,
            key=int(grants.key[g]),
            witnesses=(evidence.completion(int(grants.row[g])), evidence.completion(int(grants.row[h]))),
            clients=(a, b),
            count=found.count,
        )
    ]


def continuity_losses(evidence: Evidence) -> list[Finding]:
    """`continuity-loss`: an extension succeeded although another grant began after the one extended."""
    grants, ops = evidence.grants, evidence.ops
    extensions = grants.extensions.only(Status.OK)
    if not len(extensions):
        return []
    held = positions(grants.held)
    margin = 2 * evidence.params.epsilon_ns
    key, acquired, called = grants.key[held], grants.acquired_ns[held], grants.called_ns[held]
    began = largest_before(key, acquired, called, grants.key[extensions.grant], extensions.call_ns - margin)
    own = grants.acquired_ns[extensions.grant]
    lost = positions(began > own + margin)
    _, first = np.unique(extensions.grant[lost], return_index=True)
    lost = lost[np.sort(first)]
    findings = []
    for at in lost[:LISTED_MAX].tolist():
        g, row = int(extensions.grant[at]), int(extensions.row[at])
        h = held[
            which_before(key, acquired, called, int(grants.key[g]), int(extensions.call_ns[at]) - margin)
        ]
        a, b = evidence.holder(g), evidence.holder(int(h))
        name = evidence.key(int(grants.key[g]))
        lines = (
            f"{a}: acquired at {evidence.at(own[at])}, extended at {evidence.at(extensions.call_ns[at])} · "
            f"{b}: acquired {_within(evidence, int(h))}",
            "the extension was a new acquisition under an old name",
        )
        findings.append(
            evidence.finding(
                "continuity-loss",
                EXCLUSION,
                Severity.VIOLATION,
                headline=f"{a} extended its lease on {name!r} although {b} had been granted it in between",
                evidence=lines,
                key=int(grants.key[g]),
                witnesses=(
                    evidence.completion(int(grants.row[g])),
                    evidence.completion(int(grants.row[h])),
                    evidence.completion(row),
                ),
                clients=(a, b),
                forgotten=evidence.forgotten(g, int(h)),
                grants=[ops.name("grant", int(grants.row[x])) for x in (g, int(h))],
            )
        )
    return limited(findings, int(lost.size))
