"""The figures beside the timeline, as plain values: computed once, drawn on paper and on the page.

Times are nanoseconds since time zero of the history. A view without content has the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import MISSING, NEVER, F, Status
from checker.verdict import Finding, Verdict
from lab.analysis.metrics import windows
from lab.report.timeline.findings import rows_by_event
from lab.report.timeline.words import clean, duration, grouped, short_duration

POINTS_MAX = 3000
"""How many operations are drawn as points at most; if there are more, every n-th is."""
WINDOWS_MAX = 60
_KINDS = {F.ACQUIRE: "acquire", F.EXTEND: "extend", F.RELEASE: "release", F.READ: "read", F.WRITE: "write"}
_OUTCOMES = {Status.OK: "ok", Status.FAIL: "fail", Status.INFO: "info"}


@dataclass(frozen=True, slots=True)
class Point:
    """One point: `y` is a fence, or milliseconds. `kind` is the operation, `outcome` ok, fail or info."""

    t: int
    y: float
    kind: str
    outcome: str
    client: str
    tip: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Points:
    """Points over time; `summary` describes them, or says why there are none."""

    points: tuple[Point, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A fault as a stretch of time; `t1` None: it was never ended."""

    t0: int
    t1: int | None
    words: str


@dataclass(frozen=True, slots=True)
class Availability:
    """Rows of signs, of all clients and of each, from `t0`: # a grant, . demand only, - no demand."""

    t0: int
    window: int
    rows: tuple[tuple[str, str], ...]
    faults: tuple[Stretch, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Vertex:
    """An operation in the graph, placed on the unit circle."""

    id: int
    words: str
    client: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Edge:
    """One dependency: ww, wr, rw or real-time, and why."""

    source: int
    target: int
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The smallest cycle of dependencies that the checker found; empty if it found none."""

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class Views:
    """All figures of a run."""

    clients: tuple[str, ...]
    fencing: Points
    latency: Points
    availability: Availability
    graph: Graph


def views_of(history: History, verdict: Verdict) -> Views:
    """Compute every figure of a history and its verdict."""
    evidence = Evidence(history)
    names = dict.fromkeys(clean(evidence.client(row), 40) for row in range(len(evidence.ops)))
    return Views(
        tuple(sorted(names)),
        fencing(evidence),
        latency(evidence),
        availability(evidence),
        graph(evidence, verdict),
    )


def fencing(evidence: Evidence) -> Points:
    """Fences over time: as they were granted, and as writes had them."""
    ops, zero_ns = evidence.ops, evidence.history.zero_ns
    found: list[Point] = []
    rows = np.flatnonzero(ops.fence != MISSING)
    rows = rows[np.isin(ops.f[rows], (F.ACQUIRE, F.WRITE, F.CAS)) & (ops.return_ns[rows] < NEVER)]
    for row in _thinned(rows):
        fence, granted = int(ops.fence[row]), ops.f[row] == F.ACQUIRE
        if granted and ops.status[row] != Status.OK:
            continue
        client, at = clean(evidence.client(row), 40), int(ops.return_ns[row]) - zero_ns
        outcome = _OUTCOMES[Status(int(ops.status[row]))]
        kind = "grant" if granted else "write"
        done = "granted" if granted else {"ok": "accepted", "fail": "rejected"}.get(outcome, "unknown")
        tip = (f"{client}: {kind} with fence {fence}, {done}", f"at {duration(at)}")
        found.append(Point(at, fence, kind, outcome, client, tip))
    writes = [point for point in found if point.kind == "write"]
    if not found:
        return Points((), "This lock hands out no fencing tokens.")
    rejected = sum(point.outcome == "fail" for point in writes)
    checks = "the store checks them" if evidence.params.store_fences else "the store does not check them"
    summary = f"{len(writes)} writes had a fence, {rejected} of them were rejected; {checks}."
    return Points(tuple(found), summary)


def latency(evidence: Evidence) -> Points:
    """How long each operation of a client took, from call to return, by when it was called."""
    ops, zero_ns = evidence.ops, evidence.history.zero_ns
    all_rows = np.flatnonzero((ops.return_ns < NEVER) & np.isin(ops.f, list(_KINDS)))
    found = []
    for row in _thinned(all_rows):
        took = int(ops.return_ns[row] - ops.call_ns[row])
        at = int(ops.call_ns[row]) - zero_ns
        client = clean(evidence.client(row), 40)
        kind, outcome = _KINDS[F(int(ops.f[row]))], _OUTCOMES[Status(int(ops.status[row]))]
        tip = (f"{client}: {kind}, {outcome}", f"called at {duration(at)}, took {duration(took)}")
        found.append(Point(at, max(took, 1000) / 1e6, kind, outcome, client, tip))
    acquires = [p.y for p in found if p.kind == "acquire" and p.outcome == "ok"]
    summary = f"{grouped(int(all_rows.size))} operations returned."
    if len(found) < all_rows.size:
        summary += f" {grouped(len(found))} of them are drawn."
    if acquires:
        half, most = float(np.median(acquires)), max(acquires)
        summary += f" A grant took {half:.1f} ms (median), {most:.1f} ms at most."
    return Points(tuple(found), summary)


def _thinned(rows: np.ndarray) -> list[int]:
    """Every n-th row, so that at most `POINTS_MAX` are left."""
    step = -(-int(rows.size) // POINTS_MAX) or 1
    return [int(row) for row in rows[::step]]


def availability(evidence: Evidence) -> Availability:
    """In which windows the lock was requested, and in which it was acquired."""
    ops, zero_ns = evidence.ops, evidence.history.zero_ns
    rows = ops.rows(F.ACQUIRE)
    faults = tuple(
        Stretch(
            fault.start_ns - zero_ns,
            None if fault.until_ns >= NEVER else fault.until_ns - zero_ns,
            clean(f"{fault.f} {fault.target}", 60),
        )
        for fault in evidence.history.faults
        if fault.heals is None
    )
    if not rows.size:
        return Availability(0, 1, (), faults, "No client requested the lock.")
    call = ops.call_ns[rows]
    end = np.minimum(np.minimum(ops.return_ns[rows], ops.info_ns[rows]), evidence.history.end_ns)
    granted = ops.status[rows] == Status.OK
    first, window = int(call.min()), _window_ns(int(end.max()) - int(call.min()))

    def signs(mine: np.ndarray) -> str:
        return windows(call[mine], end[mine], granted[mine], start_ns=first, window_ns=window)

    table = [("any client", signs(np.ones(rows.size, bool)))]
    for code in np.unique(ops.client[rows]).tolist():
        table.append((clean(ops.names.client[code], 40), signs(ops.client[rows] == code)))
    acquired, asked = table[0][1].count("#"), table[0][1].count(".")
    demand = f"{acquired + asked} windows of {short_duration(window)} with demand"
    share = f"The lock was acquired in {acquired} of {demand}."
    return Availability(first - zero_ns, window, tuple(table), faults, share)


def _window_ns(span_ns: int) -> int:
    """The smallest round window (1, 2, 5, 10 ms …) of which at most `WINDOWS_MAX` are needed."""
    size = 1_000_000
    while True:
        for factor in (1, 2, 5):
            if span_ns < size * factor * WINDOWS_MAX:
                return size * factor
        size *= 10


def graph(evidence: Evidence, verdict: Verdict) -> Graph:
    """The cycle behind the first `cycle`, else behind the first `lost-update`."""
    for name, edges_of in (("cycle", _cycle_edges), ("lost-update", _lost_update_edges)):
        for finding in verdict.named(name):
            edges = tuple(edges_of(evidence, finding))
            if edges:
                return _graph(evidence, edges, finding)
    return Graph((), (), "No operation depends on itself: some order explains all reads and writes.")


def _cycle_edges(_: Evidence, finding: Finding) -> Iterator[Edge]:
    for edge in finding.details.get("edges", ()):
        yield Edge(int(edge["from"]), int(edge["to"]), str(edge["kind"]), clean(edge["why"], 300))


def _lost_update_edges(evidence: Evidence, finding: Finding) -> Iterator[Edge]:
    """Two writes based on one version: the later one replaces the earlier one without having read it."""
    versions: list[int | None] = list(finding.details.get("versions_written") or ())
    clients = [clean(name, 40) for name in finding.clients]
    if len(finding.witnesses) != 2 or len(versions) != 2 or None in versions or len(clients) != 2:
        return
    rows = rows_by_event(evidence, finding.witnesses)
    # Witnesses are ordered by event, clients and versions by version: the client identifies the write.
    one, two = finding.witnesses
    if one in rows and clean(evidence.client(rows[one]), 40) != clients[0]:
        one, two = two, one
    a, b = clients
    read = finding.details.get("version_read")
    yield Edge(one, two, "ww", f"{b} wrote version {versions[1]} after {a}’s version {versions[0]}")
    yield Edge(two, one, "rw", f"{b} read version {read}; {a} wrote version {versions[0]}, unseen by {b}")


def _graph(evidence: Evidence, edges: tuple[Edge, ...], finding: Finding) -> Graph:
    ids = list(dict.fromkeys(end for edge in edges for end in (edge.source, edge.target)))
    angles = [math.pi - 2 * math.pi * at / len(ids) for at in range(len(ids))]  # from the left
    places = [(math.cos(angle), math.sin(angle)) for angle in angles]
    rows = rows_by_event(evidence, ids)
    vertices = []
    for event, (x, y) in zip(ids, places, strict=True):
        row = rows.get(event)
        client = "?" if row is None else clean(evidence.client(row), 40)
        vertices.append(Vertex(event, _operation(evidence, row), client, round(x, 4), round(y, 4)))
    kinds = ", ".join(dict.fromkeys(edge.kind for edge in edges))
    why = clean(finding.why, 300)
    return Graph(
        tuple(vertices), edges, f"{len(vertices)} operations, each depending on the next ({kinds}): {why}"
    )


def _operation(evidence: Evidence, row: int | None) -> str:
    if row is None:
        return "?"
    ops = evidence.ops
    reads = ops.f[row] == F.READ
    version = int((ops.version_read if reads else ops.version_written)[row])
    return ("read" if reads else "write") + ("" if version == MISSING else f" v{version}")
