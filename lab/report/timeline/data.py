"""From a history and its verdict to the values that the picture shows; nothing is drawn here.

Windows are those of the checker (`checker.history.windows`), not computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from checker.history.events import Event
from checker.history.evidence import Evidence
from checker.history.grants import Grants
from checker.history.history import History
from checker.history.operations import MISSING, NEVER, NONE, F, Operations, Status
from checker.verdict import Verdict
from lab.report.timeline.excerpt import Excerpt, choose
from lab.report.timeline.faults import STORE, FaultMarks, fault_marks
from lab.report.timeline.findings import Accused, accuse, texts, verdict_words
from lab.report.timeline.grants import grants_shown, token_owners
from lab.report.timeline.model import (
    Attempt,
    ClientLane,
    CutTry,
    Down,
    NodeLane,
    Pause,
    Reply,
    Span,
    Timeline,
    Use,
)
from lab.report.timeline.nodes import Owners, node_lane, tokens_set
from lab.report.timeline.store import announcements, executions, store_writes
from lab.report.timeline.words import clean, listed

_ATTEMPTS = {F.ACQUIRE: "acquire", F.EXTEND: "extend", F.RELEASE: "release"}
_USES = {F.READ: "read", F.WRITE: "write", F.CAS: "write"}
_OUTCOME = {Status.OK: "ok", Status.FAIL: "fail", Status.INFO: "info"}
_MOST_CLIENTS = 12
_MOST_NODES = 9
_STALL_COVERED = 0.6


def extract(history: History, verdict: Verdict, title: str) -> Timeline:
    """Collect lanes, bands, faults and texts.

    Args:
        history: the record.
        verdict: the checker's verdict on it; its findings mark what is wrong.
        title: the scenario's title, any text.

    Returns:
        a timeline whose times are nanoseconds since time zero of the history.
    """
    return _Extraction(history, verdict, title).timeline()


class _Extraction:
    """One pass over a history; the attributes are shared by several steps."""

    def __init__(self, history: History, verdict: Verdict, title: str) -> None:
        self.history, self.verdict = history, verdict
        self.evidence = Evidence(history)
        self.ops: Operations = self.evidence.ops
        self.start_ns = history.zero_ns
        self.grants: Grants = self.evidence.grants
        self.accused: Accused = accuse(self.evidence, verdict)
        self.key, others = self._key_shown()
        self.result = Timeline(title=clean(title, 160) or "A run")
        self.result.verdict, self.result.reasons = verdict_words(verdict)
        self.result.findings = texts(verdict)
        if others:
            key = clean(self.key or "", 40)
            self.result.notes.append(f"Only key “{key}” is drawn; not drawn: {listed(others)}.")
        self.excerpt: Excerpt = self._excerpt()

    def timeline(self) -> Timeline:
        """The whole timeline."""
        result, history = self.result, self.history
        names = self._client_names()
        nodes = self._node_names()
        self.lanes = {name: ClientLane(clean(name, 40) or "?") for name in names}
        marks = fault_marks(history, names, nodes, self.accused.faults)
        events = self._node_events()
        ran = executions(self.evidence)
        seen = [event for each in events.values() for event in each]
        tokens = [token for e in seen for token in (*tokens_set(e), *([e.token] if e.token else ()))]
        tokens += [one["token"] for _, one in ran if isinstance(one.get("token"), str)]
        owners = token_owners(self.evidence, tokens)
        result.nodes = [self._node(name, marks, events.get(name, ()), owners) for name in nodes]
        self._operations()
        self._windows(marks)
        self._pauses(marks)
        self._cut_tries(marks)
        self._replies(marks)
        result.faults = [f for f in marks.listed if self.excerpt.shows(f.span.start_ns, f.span.start_ns)]
        result.store_links = marks.links.get(STORE, [])
        result.writes = store_writes(self.evidence, self.excerpt.rows, self.accused, ran)
        result.announcements = announcements(self.evidence, self.key, self.excerpt, owners, ran)
        result.bands = [
            band for band in self.accused.bands if self.excerpt.shows(band.span.start_ns, band.span.end_ns)
        ]
        result.flags = self.accused.flags
        result.clients = self._ordered(list(self.lanes.values()))
        result.gaps = list(self.excerpt.gaps)
        if self.excerpt.note:
            result.notes.append(self.excerpt.note)
        if not len(self.ops):
            result.notes.append("The history holds no operation of any client.")
        result.notes += [f"The record is incomplete: {clean(problem)}." for problem in history.problems[:2]]
        self._moments()
        return result

    # -- what to show -------------------------------------------------------------------------------------

    def _key_shown(self) -> tuple[str | None, list[str]]:
        """The key of the first violation, else the one most requested; and the keys not shown."""
        ops = self.ops
        codes = ops.key[(ops.f <= F.HELD) & (ops.key != NONE)]
        if not codes.size:
            return None, []
        counts = np.bincount(codes)
        names = ops.names.key
        key = self.accused.key if self.accused.key in names else names[int(np.argmax(counts))]
        return key, [clean(names[code], 40) for code in np.flatnonzero(counts).tolist() if names[code] != key]

    def _excerpt(self) -> Excerpt:
        """The operations to draw: those of the key shown, all or an excerpt."""
        ops = self.ops
        drawn = ops.f != F.HELD
        if self.key is not None:
            code = list(ops.names.key).index(self.key)
            grant_row = self.grants.of(ops.grant)
            of_key = np.zeros(len(ops), bool)
            if len(self.grants):
                of_key = (grant_row >= 0) & (self.grants.key[grant_row] == code)
            use = ops.f >= F.READ
            drawn &= np.where(use, of_key | (grant_row < 0), ops.key == code)
        rows = np.flatnonzero(drawn)
        call = ops.call_ns[rows] - self.start_ns
        back = np.where(ops.return_ns[rows] < NEVER, ops.return_ns[rows] - self.start_ns, call)
        at = np.searchsorted(rows, np.array(sorted(self.accused.first_rows), np.int64))
        return choose(rows, call, back, [int(i) for i in at if i < rows.size])

    def _client_names(self) -> list[str]:
        """Clients in the order of the header, then of first call; if too many, those of findings first."""
        used = Counter(self.ops.client[self.excerpt.rows].tolist())
        present = [self.ops.names.client[code] for code in sorted(used, key=lambda c: self._first_call(c))]
        names = [name for name in self.history.params.clients if name in present or not present]
        names += [name for name in present if name not in names]
        if len(names) > _MOST_CLIENTS:
            kept = [name for name in names if name in self.accused.clients][:_MOST_CLIENTS]
            kept += [name for name in names if name not in kept][: _MOST_CLIENTS - len(kept)]
            self.result.notes.append(f"{len(names) - len(kept)} of {len(names)} clients are not drawn.")
            names = [name for name in names if name in kept]
        return names

    def _first_call(self, client: int) -> int:
        rows = self.excerpt.rows
        return int(rows[np.argmax(self.ops.client[rows] == client)])

    def _node_names(self) -> list[str]:
        """The nodes of events and faults, by name."""
        seen = {event.node for event in self.history.nodes if event.node}
        size = self.history.params.nodes or 0
        letters = [chr(ord("A") + i) for i in range(min(size, 26))]
        hit = {name for fault in self.history.faults for name in fault.targets if name in letters}
        names = sorted(seen | hit | (set(letters) if seen and seen <= set(letters) else set()))
        if len(names) > _MOST_NODES:
            self.result.notes.append(f"{len(names) - _MOST_NODES} of {len(names)} nodes are not drawn.")
        return names[:_MOST_NODES]

    def _ordered(self, lanes: list[ClientLane]) -> list[ClientLane]:
        """The two clients of the first violation side by side."""
        pair = next((band.clients for band in self.result.bands if band.clients[0] != band.clients[1]), None)
        if pair is None:
            return lanes
        at = {lane.name: position for position, lane in enumerate(lanes)}
        if any(name not in at for name in pair) or abs(at[pair[0]] - at[pair[1]]) == 1:
            return lanes
        first, second = sorted(pair, key=lambda name: at[name])
        moved = lanes[at[second]]
        rest = [lane for lane in lanes if lane is not moved]
        rest.insert(at[first] + 1, moved)
        return rest

    # -- lanes --------------------------------------------------------------------------------------------

    def _since(self, time_ns: int) -> int:
        return int(time_ns) - self.start_ns

    def _end(self, row: int) -> int | None:
        """When an operation ended for its client: its return, or when it gave up; None if never."""
        for stamp in (self.ops.return_ns[row], self.ops.info_ns[row]):
            if stamp < NEVER:
                return self._since(stamp)
        return None

    def _operations(self) -> None:
        """Sort the operations drawn into the lanes of their clients."""
        ops = self.ops
        for row in self.excerpt.rows.tolist():
            lane = self.lanes.get(ops.name("client", row))
            if lane is None:
                continue
            kind = F(int(ops.f[row]))
            span = Span(self._since(ops.call_ns[row]), self._end(row))
            outcome = _OUTCOME[Status(int(ops.status[row]))]
            index = int(ops.call_index[row])
            guilty = self.accused.guilty.get(row, ())
            if kind in _ATTEMPTS:
                grant = ops.name("grant", row)
                lane.attempts.append(Attempt(_ATTEMPTS[kind], span, outcome, grant, index, guilty))
                continue
            column = ops.version_read if kind is F.READ else ops.version_written
            version, fence = int(column[row]), int(ops.fence[row])
            lane.uses.append(
                Use(
                    _USES[kind],
                    span,
                    outcome,
                    None if version == MISSING else version,
                    index,
                    guilty,
                    self.accused.warned.get(row, ()),
                    None if fence == MISSING else fence,
                )
            )

    def _windows(self, marks: FaultMarks) -> None:
        """The checker's belief and guaranteed windows, and the crashes of clients."""
        for name, grant in grants_shown(self.evidence, self.key, self.excerpt):
            if name in self.lanes:
                self.lanes[name].grants.append(grant)
        for name, at_ns in marks.crashed_ns.items():
            if name in self.lanes:
                self.lanes[name].crashed_ns = at_ns

    def _node_events(self) -> dict[str, list[Event]]:
        """The events of each node on the key shown; in an excerpt those within, and the last before each."""
        found: dict[str, list[Event]] = {}
        before: dict[str, Event] = {}
        spans = [(s.start_ns + self.start_ns, (s.end_ns or 0) + self.start_ns) for s in self.excerpt.shown]
        for event in self.history.nodes:
            if event.node is None or (event.key not in (None, self.key) and self.key is not None):
                continue
            if spans and not any(start <= event.time_ns <= end for start, end in spans):
                before[event.node] = event
                continue
            lane = found.setdefault(event.node, [])
            earlier = before.pop(event.node, None)
            if earlier is not None:
                lane.append(earlier)
            lane.append(event)
        return found

    def _node(self, name: str, marks: FaultMarks, events: Sequence[Event], owners: Owners) -> NodeLane:
        jumps = [j for j in marks.jumps.get(name, []) if self.excerpt.shows(j.at_ns, j.at_ns)]
        lane = node_lane(clean(name, 24), events, self.start_ns, jumps, owners)
        lane.lives = [e for e in lane.lives if self.excerpt.shows(e.span.start_ns, e.span.end_ns)]
        lane.losses = self.accused.losses.get(name, [])
        lane.downs = _named(lane.downs, marks.downs.get(name, []))
        lane.pauses = [
            e for e in marks.pauses.get(name, []) if self.excerpt.shows(e.span.start_ns, e.span.end_ns)
        ]
        lane.promotions = [e for e in marks.promotions.get(name, []) if self.excerpt.shows(e.at_ns, e.at_ns)]
        lane.links = [
            e for e in marks.links.get(name, []) if self.excerpt.shows(e.span.start_ns, e.span.end_ns)
        ]
        return lane

    def _pauses(self, marks: FaultMarks) -> None:
        """Pauses, and stalls that no pause explains."""
        for name, lane in self.lanes.items():
            lane.pauses = [self._ended(name, pause, marks) for pause in marks.pauses.get(name, [])]
            lane.jumps = list(marks.jumps.get(name, []))
        for stall in self.history.stalls:
            stalled = self.lanes.get(stall.client)
            start, end = self._since(stall.start_ns), self._since(stall.end_ns)
            if stalled is None or not self.excerpt.shows(start, end):
                continue
            covered = sum(
                max(
                    0, min(end, end if p.span.end_ns is None else p.span.end_ns) - max(start, p.span.start_ns)
                )
                for p in stalled.pauses
            )
            if covered < _STALL_COVERED * (end - start):
                stalled.pauses.append(Pause(Span(start, end), "stall"))

    def _ended(self, name: str, pause: Pause, marks: FaultMarks) -> Pause:
        """A pause ends at its client's first event after the healing began, if not confirmed before."""
        healing, end = marks.healing_ns.get(pause.fault or 0), pause.span.end_ns
        if healing is None or end is None or name not in self.ops.names.client:
            return pause
        mine = self.ops.client == self.ops.names.client.index(name)
        stamps = np.concatenate([self.ops.call_ns[mine], self.ops.return_ns[mine], self.ops.info_ns[mine]])
        stamps = stamps[stamps < NEVER] - self.start_ns
        first = stamps[(stamps >= healing) & (stamps < end)]
        return replace(pause, span=Span(pause.span.start_ns, int(first.min()))) if first.size else pause

    def _cut_tries(self, marks: FaultMarks) -> None:
        """Acquires called while a link of their client was cut: their requests there never arrived."""
        for name, lane in self.lanes.items():
            for attempt in lane.attempts:
                for node in self.result.nodes:
                    for link in node.links:
                        at = attempt.span.start_ns
                        if attempt.kind != "acquire" or not link.lossy or link.peer != clean(name, 24):
                            continue
                        if link.span.start_ns <= at and (link.span.end_ns is None or at <= link.span.end_ns):
                            lane.cut_tries.append(CutTry(node.name, at))

    def _replies(self, marks: FaultMarks) -> None:
        """The replies to acquires that were held back: of each node that executed one meanwhile."""
        for node in self.result.nodes:
            for link, life in ((link, life) for link in node.links for life in node.lives):
                sent, end = life.span.start_ns, marks.healing_ns.get(link.fault, link.span.end_ns)
                held = link.holds_replies and life.owner == link.peer and link.span.start_ns <= sent
                lane = self.lanes.get(link.peer)
                if not held or end is None or sent > end or lane is None:
                    continue
                asking = [
                    a.span.end_ns
                    for a in lane.attempts
                    if a.kind == "acquire" and a.span.start_ns <= sent <= (a.span.end_ns or sent)
                ]
                still = [p.span for p in lane.pauses if p.span.start_ns <= end <= (p.span.end_ns or end)]
                read = (still[0].end_ns or end) if still else end
                open_ = bool(asking) and (asking[0] is None or read <= asking[0])
                node.replies.append(Reply(link.peer, sent, end, read if open_ else None, link.fault))

    # -- time ---------------------------------------------------------------------------------------------

    def _moments(self) -> None:
        """The instants that the time axis must make room for."""
        result, excerpt = self.result, self.excerpt
        moments: list[int] = []
        for lane in result.clients:
            spans = [*(a.span for a in lane.attempts), *(u.span for u in lane.uses)]
            spans += [pause.span for pause in lane.pauses]
            for span in spans:
                moments += [time_ns for time_ns in (span.start_ns, span.end_ns) if time_ns is not None]
            moments += [lane.crashed_ns] if lane.crashed_ns is not None else []
        moments += [fault.span.start_ns for fault in result.faults]
        moments += [life.span.start_ns for node in result.nodes for life in node.lives]
        downs = [down.span for node in result.nodes for down in node.downs]
        moments += [end for span in downs for end in (span.start_ns, span.end_ns) if end]
        moments += [write.at_ns for write in result.writes] + [one.at_ns for one in result.announcements]
        last = max(moments, default=0)
        moments += [
            f.span.end_ns for f in result.faults if f.span.end_ns is not None and f.span.end_ns <= last
        ]
        spans = [s for lane in result.clients for g in lane.grants for s in (*g.belief, *g.guaranteed)]
        spans += [life.span for node in result.nodes for life in node.lives]
        ends = [span.end_ns for span in spans if span.end_ns is not None]
        result.moments = sorted(t for t in moments if excerpt.shows(t, t))
        result.window_ends = sorted({t for t in ends if excerpt.shows(t, t) or (not excerpt.shown and t)})
        result.last_ns = max([*result.moments, *result.window_ends, 0])


def _named(downs: Sequence[Down], faults: Sequence[Down]) -> list[Down]:
    """Stretches in which a node was seen down, with the fault then under way; else those of the faults."""
    if not downs:
        return list(faults)
    return [
        replace(begun[-1], span=down.span)
        if (begun := [one for one in faults if one.span.start_ns <= down.span.start_ns <= _until(one)])
        else down
        for down in downs
    ]


def _until(down: Down) -> int:
    return NEVER if down.span.end_ns is None else down.span.end_ns
