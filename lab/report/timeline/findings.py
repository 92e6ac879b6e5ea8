"""From findings to marks: the operations that violate something, overlapping windows, the verdict as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from checker.history.evidence import Evidence
from checker.history.operations import MISSING, NEVER, F
from checker.history.windows import Segments
from checker.verdict import Cause, Finding, Outcome, Severity, Verdict
from checker.words import in_words
from lab.report.timeline.model import Band, FindingText, Flag, Loss, Span
from lab.report.timeline.words import clean

_OVERLAPS = ("overlap", "belief-overlap")
_MOST_BANDS = 4
_ON_WRITES = (F.WRITE, F.CAS)
_USE_NAMES = ("stale-use", "unfenced-write", "stale-write", "fence-breach", "lost-update", "cycle")


@dataclass(slots=True)
class Accused:
    """The places of findings. ``guilty`` and ``warned``: violations and warnings by row of operation.

    ``faults`` are the violations that the checker puts down to a fault, by the position of the fault's event,
    ``losses`` the commands that it puts a violation down to, by node.
    """

    guilty: dict[int, tuple[str, ...]] = field(default_factory=dict)
    warned: dict[int, tuple[str, ...]] = field(default_factory=dict)
    bands: list[Band] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    first_rows: list[int] = field(default_factory=list)
    key: str | None = None
    faults: dict[int, tuple[str, ...]] = field(default_factory=dict)
    losses: dict[str, list[Loss]] = field(default_factory=dict)


def accuse(evidence: Evidence, verdict: Verdict) -> Accused:
    """The places of findings that violate something, and of warnings about stale use."""
    accused = Accused()
    rows_of = rows_by_event(evidence, (event for f in verdict.findings for event in f.witnesses))
    for finding in ordered(verdict):
        rows = [rows_of[event] for event in finding.witnesses if event in rows_of]
        if not rows or finding.severity is Severity.INFORMATION:
            continue
        if not accused.first_rows:
            accused.first_rows, accused.key = sorted(set(rows)), finding.key
        accused.clients += [name for name in finding.clients if name not in accused.clients]
        if finding.fault is not None and finding.severity is Severity.VIOLATION:
            before = accused.faults.get(finding.fault, ())
            accused.faults[finding.fault] = tuple(dict.fromkeys((*before, finding.name)))
        if finding.cause is not None and finding.cause.kind == "command":
            for node in finding.cause.nodes:
                accused.losses.setdefault(node, []).append(_loss(finding.cause))
        if finding.name in _OVERLAPS:
            if len(accused.bands) < _MOST_BANDS:
                accused.bands += _bands(evidence, finding, rows)
            continue
        culprit = _culprit(evidence, finding, rows)
        if culprit is None:
            continue
        if evidence.ops.f[culprit] in (*_ON_WRITES, F.READ):
            bad = finding.severity is Severity.VIOLATION
            marks = accused.guilty if bad else accused.warned
            names = marks.get(culprit, ())
            if finding.name not in names:
                marks[culprit] = (*names, finding.name)
        elif finding.severity is Severity.VIOLATION:
            _flag(accused, evidence, finding, culprit)
    return accused


def _loss(cause: Cause) -> Loss:
    command = (cause.command or "").split(" ")[0]
    words = f"{clean(cause.actor, 24)}’s {command}" if cause.actor else f"a {command}"
    return Loss(cause.offset_ns, words)


def ordered(verdict: Verdict) -> list[Finding]:
    """Findings, violations first; overlaps before all others."""
    rank = list(Severity)
    return sorted(verdict.findings, key=lambda f: (rank.index(f.severity), f.name not in _OVERLAPS))


def rows_by_event(evidence: Evidence, events: Iterable[int]) -> dict[int, int]:
    """The operation (its row) that each of these events belongs to."""
    wanted = np.array(sorted(set(events)), np.int64)
    found: dict[int, int] = {}
    for column in (evidence.ops.call_index, evidence.ops.return_index):
        for row in np.flatnonzero(np.isin(column, wanted)).tolist():
            found[int(column[row])] = row
    return found


def _culprit(evidence: Evidence, finding: Finding, rows: list[int]) -> int | None:
    """The violating operation: the last write among the witnesses, else the last operation.

    The last write is the one with the greatest version number, since the one that was called first may have
    been delayed; without version numbers, or if the finding goes by time, the one that was called last.
    """
    ops = evidence.ops
    pool = rows
    if finding.name in _USE_NAMES:
        uses = [row for row in rows if ops.f[row] in (*_ON_WRITES, F.READ)]
        writes = [row for row in rows if ops.f[row] in _ON_WRITES]
        pool = uses if finding.name == "stale-use" else writes or uses
        if pool is writes and finding.details.get("order") != "time":
            versions = _versions(evidence, writes)
            if len(versions) == len(set(writes)):
                return max(pool, key=lambda row: versions[row])
    return max(pool, key=lambda row: int(ops.call_ns[row]), default=None)


def _versions(evidence: Evidence, rows: list[int]) -> dict[int, int]:
    """The store's numbers for those of these writes for which they are known."""
    table = evidence.writes
    known = np.isin(table.row, rows) & (table.version_written != MISSING)
    return dict(zip(table.row[known].tolist(), table.version_written[known].tolist(), strict=True))


def _flag(accused: Accused, evidence: Evidence, finding: Finding, row: int) -> None:
    """Put a flag at the end of the operation of a finding."""
    ops = evidence.ops
    stamp = int(ops.return_ns[row])
    at = (stamp if stamp < NEVER else int(ops.call_ns[row])) - evidence.history.zero_ns
    lane = clean(evidence.client(row), 40)
    for position, flag in enumerate(accused.flags):
        if flag.lane == lane and flag.at_ns == at:
            if finding.name not in flag.names:
                accused.flags[position] = Flag((*flag.names, finding.name), lane, at)
            return
    accused.flags.append(Flag((finding.name,), lane, at))


def _bands(evidence: Evidence, finding: Finding, rows: list[int]) -> Iterator[Band]:
    """Where the windows of the two grants of a finding overlap."""
    grants = evidence.grants
    named = grants.of(evidence.ops.grant[np.array(rows)]).tolist()
    pair = sorted({grant for grant in named if grant >= 0})[:2]
    if len(pair) < 2:
        return
    sure = finding.name == "overlap"
    windows = evidence.guaranteed if sure else evidence.believed
    start_ns = evidence.history.zero_ns
    first, second = (clean(evidence.holder(grant), 40) for grant in pair)
    stated = _stated_span(finding)
    for span in [stated] if stated else _common(windows, pair[0], pair[1], start_ns):
        words = "both hold the lock" if sure else "both believe they hold the lock"
        if span.end_ns is not None:  # in the same words as the finding's headline
            lasted = in_words(span.end_ns - span.start_ns, at_least=sure)
            words += f" for at least {lasted}" if sure else f" for {lasted}"
        yield Band(finding.name, (first, second), span, words)


def _stated_span(finding: Finding) -> Span | None:
    """The stretch that the finding's sentence names, so that picture and text have the same number."""
    start, end = (finding.details.get(name) for name in ("start_offset_ns", "end_offset_ns"))
    if not isinstance(start, int) or not isinstance(end, int) or not start < end < NEVER // 2:
        return None
    return Span(start, end)


def _common(windows: Segments, one: int, other: int, start_ns: int) -> Iterator[Span]:
    """The intersections of the segments of two grants."""
    mine, theirs = (np.flatnonzero(windows.grant == grant).tolist() for grant in (one, other))
    for a in mine:
        for b in theirs:
            start = max(int(windows.start_ns[a]), int(windows.start_ns[b]))
            end = min(int(windows.end_ns[a]), int(windows.end_ns[b]))
            if start < end:
                yield Span(start - start_ns, None if end >= NEVER // 2 else end - start_ns)


def verdict_words(verdict: Verdict) -> tuple[list[tuple[str, str]], list[str]]:
    """Properties with their outcomes, and why something is unknown."""
    parts = [(str(name).replace("_", " "), str(p.outcome)) for name, p in verdict.properties.items()]
    reasons = [clean(reason, 300) for reason in verdict.unknown_reasons]
    if not reasons:
        unknown = [p for p in verdict.properties.values() if p.outcome is Outcome.UNKNOWN]
        reasons = [clean(f"{str(p.property).replace('_', ' ')}: {p.why}", 300) for p in unknown]
    return parts, list(dict.fromkeys(reasons))


def texts(verdict: Verdict) -> list[FindingText]:
    """Findings as text, one per name, with how many more of the name there are."""
    chosen: dict[str, FindingText] = {}
    counts: dict[str, int] = {}
    findings = ordered(verdict)
    serious = any(finding.severity is not Severity.INFORMATION for finding in findings)
    for finding in findings:
        if finding.severity is Severity.INFORMATION and serious:
            continue
        counts[finding.name] = max(counts.get(finding.name, 0) + 1, int(finding.details.get("count", 0)))
        if finding.name not in chosen:
            assumption = clean(finding.broken_assumption, 200) if finding.broken_assumption else None
            chosen[finding.name] = FindingText(
                finding.name, str(finding.severity), clean(finding.why, 500), assumption
            )
    found: list[FindingText] = []
    printed: set[str | None] = {None}
    for name, text in chosen.items():
        more = counts[name] - 1
        why = text.why if more < 1 else f"{text.why} (and {more} more)"
        # An assumption that several findings share is printed once.
        assumption = None if text.broken_assumption in printed else text.broken_assumption
        printed.add(text.broken_assumption)
        found.append(FindingText(text.name, text.severity, why, assumption))
    return found
