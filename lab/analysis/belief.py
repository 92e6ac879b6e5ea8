"""Belief compared with key presence: on how many nodes a client's token was during its belief windows.

A report and no verdict: it decides no property, and a correct lock may have belief without a majority (a node
that is down keeps nothing, but grants nothing to others either). Key presence is known between bounds
(`lab.analysis.key_presence`), and so are all results here: `sure` is the least, `possible` the most.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np

from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import NEVER, NONE, F
from checker.properties import counting
from lab.analysis.key_presence import OBSERVATIONS, Loss, NodeRecord, Piece, Presence

LISTED_MAX: Final = 200
"""How many grants are listed one by one in verdict.json."""


@dataclass(frozen=True, slots=True)
class Held:
    """One grant: its belief windows, and for how much of them the token was on too few nodes.

    `sure_ns` and `possible_ns` bound the time of belief without enough nodes; `first_ns` and `last_ns` bound
    when that began, `most` is how many nodes certainly had the token at once during the belief windows, and
    `losses` are the nodes that lost it during them.
    """

    grant_id: str
    client: str
    believed: tuple[Piece, ...]
    sure_ns: int
    possible_ns: int
    first_ns: int | None
    last_ns: int | None
    most: int
    losses: tuple[Loss, ...]

    @property
    def differs(self) -> bool:
        """Whether belief and presence certainly differ."""
        return self.sure_ns > 0

    @property
    def agrees(self) -> bool:
        """Whether they certainly agree all the time."""
        return self.possible_ns == 0


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """All grants of the observed key; `missing` says why there is nothing to compare, if so."""

    nodes: int
    needed: int
    held: tuple[Held, ...]
    zero_ns: int
    end_ns: int
    """The end of the steps or of the workload; later belief is ignored."""
    unobserved: int = 0
    """Grants of other keys."""
    missing: str | None = None
    without_token: int = 0
    """Grants without a token in the history (a library may not show it); not compared either."""
    shared_token: int = 0
    """Grants with a token that other grants had too; not compared either."""
    only_on: tuple[str, ...] = ()
    """The nodes with tokens, if none was ever on two nodes at once."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as it stands in verdict.json; times in ms since the history's time zero."""
        if self.missing:
            return {"missing": self.missing}
        open_ = [held for held in self.held if not held.agrees]
        return {
            "nodes": self.nodes,
            "needed": self.needed,
            "grants": len(self.held),
            "agree": len(self.held) - len(open_),
            "part": sum(held.differs for held in open_),
            "not_known": sum(not held.differs for held in open_),
            "not_watched": self.unobserved + self.without_token + self.shared_token,
            "grants_that_do_not_agree": [self._held(held) for held in open_[:LISTED_MAX]],
        }

    def _held(self, held: Held) -> dict[str, Any]:
        return {
            "grant_id": held.grant_id,
            "client": held.client,
            "believed_ms": [[self.ms(piece.start_ns), self.ms(piece.end_ns)] for piece in held.believed],
            "without_enough_nodes_ms": [held.sure_ns / 1e6, held.possible_ns / 1e6],
            "since_ms": None if held.first_ns is None else [self.ms(held.first_ns), self.ms(held.last_ns)],
            "most_nodes": held.most,
            "losses": [
                {"node": loss.node, "ms": [self.ms(loss.first_ns), self.ms(loss.last_ns)], "why": loss.why}
                for loss in held.losses
            ],
        }

    def ms(self, time_ns: int | None) -> float | None:
        """A stamp as milliseconds since the history's time zero; None for `NEVER`."""
        return None if time_ns is None or time_ns >= NEVER else (time_ns - self.zero_ns) / 1e6


def cross_check(history: History, *, one_master: bool = False) -> CrossCheck:
    """Compare every grant's belief with the presence of its token, until the lab began to heal at the end.

    Args:
        history: the record.
        one_master: whether one node with the token is enough, since nodes replicate each other, or are a
            Redis Cluster.
    """
    names = sorted({event.node for event in history.nodes if event.node is not None})
    total = max(history.params.nodes or 0, len(names))
    key = next((event.key for event in history.nodes if event.key is not None), None)
    observed = [e for e in history.nodes if e.f in OBSERVATIONS]
    if key is None or not observed:
        return CrossCheck(total, 0, (), history.zero_ns, history.end_ns, missing="no node was observed")
    if history.params.model in counting.MODELS:
        missing = "several may hold this lock at once, and a key of a node shows the token of one"
        return CrossCheck(total, 0, (), history.zero_ns, history.end_ns, missing=missing)
    if any("asked_ns" not in (e.value if isinstance(e.value, dict) else {}) for e in observed):
        missing = "the history has no times of the observations of nodes"
        return CrossCheck(total, 0, (), history.zero_ns, history.end_ns, missing=missing)
    records = [
        NodeRecord(name, [e for e in history.nodes if e.node == name and e.key in (None, key)], history)
        for name in names
    ]
    return _Check(Evidence(history), records, total, str(key), one_master=one_master).result()


class _Check:
    """One pass over the grants of a history."""

    def __init__(
        self, evidence: Evidence, records: Sequence[NodeRecord], total: int, key: str, *, one_master: bool
    ) -> None:
        self._evidence, self._records, self._total, self._key = evidence, records, total, key
        history = evidence.history
        heals = [r.time_ns for r in history.lab if r.f == "phase" and r.value == "heal"]
        self._end_ns = min([history.end_ns, *heals])
        majority = evidence.params.majority() or total // 2 + 1
        self._needed = 1 if one_master else majority

    def result(self) -> CrossCheck:
        evidence = self._evidence
        grants, ops = evidence.grants, evidence.ops
        codes, counts = np.unique(ops.token[(ops.f == F.ACQUIRE) & (ops.token != NONE)], return_counts=True)
        own = set(codes[counts == 1].tolist())
        followed, unobserved, without, shared = [], 0, 0, 0
        for grant, believed in self._beliefs().items():
            token = int(grants.token[grant])
            if evidence.key(int(grants.key[grant])) != self._key or token not in own:
                other = evidence.key(int(grants.key[grant])) != self._key
                unobserved += other
                without += not other and token == NONE
                shared += not other and token != NONE
                continue
            since_ns = int(grants.called_ns[grant])
            name, end_ns = str(ops.names.token[token]), believed[-1].end_ns
            followed.append((grant, believed, [r.presence(name, since_ns, end_ns) for r in self._records]))
        spread = max((sum(bool(one.there) for one in presences) for _, _, presences in followed), default=0)
        needed = 1 if spread == 1 else self._needed  # a lock that never uses a second node needs no majority
        held = [self._held(grant, believed, presences, needed) for grant, believed, presences in followed]
        on = {
            r.node
            for _, _, presences in followed
            for r, one in zip(self._records, presences, strict=True)
            if one.there
        }
        return CrossCheck(
            self._total,
            needed,
            tuple(held),
            evidence.history.zero_ns,
            self._end_ns,
            unobserved,
            without_token=without,
            shared_token=shared,
            only_on=tuple(sorted(on)) if spread == 1 else (),
        )

    def _beliefs(self) -> dict[int, list[Piece]]:
        """The belief windows of each grant, until `_end_ns`."""
        segments = self._evidence.believed
        found: dict[int, list[Piece]] = {}
        columns = (segments.grant.tolist(), segments.start_ns.tolist(), segments.end_ns.tolist())
        for grant, start_ns, end_ns in sorted(zip(*columns, strict=True)):
            if start_ns < min(end_ns, self._end_ns):
                found.setdefault(grant, []).append(Piece(start_ns, min(end_ns, self._end_ns)))
        return found

    def _held(self, grant: int, believed: list[Piece], presences: Sequence[Presence], needed: int) -> Held:
        sure_ns = possible_ns = most = 0
        first_ns: int | None = None
        last_ns: int | None = None
        all_there = [_Spans(one.there) for one in presences]
        all_absent = [_Spans(one.absent) for one in presences]
        for piece in believed:
            for start_ns, end_ns in _cut(piece, presences):
                there = sum(spans.cover(start_ns, end_ns) for spans in all_there)
                absent = sum(spans.cover(start_ns, end_ns) for spans in all_absent)
                most = max(most, there)
                if there >= needed:
                    continue
                possible_ns += end_ns - start_ns
                first_ns = start_ns if first_ns is None else first_ns
                if self._total - absent < needed:
                    sure_ns += end_ns - start_ns
                    last_ns = start_ns if last_ns is None else last_ns
        losses = [
            loss
            for one in presences
            for loss in one.losses
            if any(loss.first_ns < piece.end_ns and piece.start_ns <= loss.last_ns for piece in believed)
        ]
        return Held(
            str(self._evidence.ops.name("grant", int(self._evidence.grants.row[grant]))),
            self._evidence.holder(grant),
            tuple(believed),
            sure_ns,
            possible_ns,
            first_ns,
            last_ns,
            most,
            tuple(sorted(losses, key=lambda loss: (loss.first_ns, loss.node))),
        )


def _cut(piece: Piece, presences: Iterable[Presence]) -> list[tuple[int, int]]:
    """A belief window, cut wherever the presence on a node changes."""
    ends = {
        stamp
        for one in presences
        for span in (*one.there, *one.absent)
        for stamp in (span.start_ns, span.end_ns)
    }
    cuts = [piece.start_ns, *sorted(e for e in ends if piece.start_ns < e < piece.end_ns), piece.end_ns]
    return list(pairwise(cuts))


class _Spans:
    """Pieces of time; whether one of them covers a span is found by bisection."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        ordered = sorted((piece.start_ns, piece.end_ns) for piece in pieces)
        self._starts_ns = [start_ns for start_ns, _ in ordered]
        self._until_ns = [*accumulate((end_ns for _, end_ns in ordered), max)]

    def cover(self, start_ns: int, end_ns: int) -> bool:
        begun = bisect_right(self._starts_ns, start_ns)
        return begun > 0 and end_ns <= self._until_ns[begun - 1]
