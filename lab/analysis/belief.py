"""Belief against truth: what each client believed of its lock, held against where its token really lay.

A report and no verdict: no property is decided by it, and a correct lock may well have belief without a
majority (a node that is down keeps nothing, yet gives nothing to anybody else either). The truth is known
between bounds (`lab.analysis.key_presence`), and so is all that is said here: `sure` is the least, `possible`
the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import NEVER, NONE, F
from lab.analysis.key_presence import LOOKS, Loss, NodeRecord, Piece, Presence

LISTED_MAX: Final = 200
"""How many grants are listed one by one in verdict.json."""


@dataclass(frozen=True, slots=True)
class Held:
    """One grant: when its client believed in it, and for how much of that the token lay on too few nodes.

    `sure_ns` and `possible_ns` bound the time of belief without enough nodes; `first_ns` and `last_ns` bound
    when that began, `most` is how many nodes surely had the token at once while the client believed, and
    `losses` are the nodes that lost it meanwhile.
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
    def parts(self) -> bool:
        """Whether belief and truth surely part."""
        return self.sure_ns > 0

    @property
    def agrees(self) -> bool:
        """Whether they surely agree all the while."""
        return self.possible_ns == 0


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """All grants of the key that was watched; `missing` says why there is nothing to compare, if so."""

    nodes: int
    needed: int
    held: tuple[Held, ...]
    start_ns: int
    end_ns: int
    """When the story was over; what was believed later is not looked at."""
    unwatched: int = 0
    missing: str | None = None
    without_token: int = 0
    """Grants of which the record has no token, as where a library does not tell it; not watched either."""
    shared_token: int = 0
    """Grants with a token that others had too; not watched either."""
    only_on: tuple[str, ...] = ()
    """Where tokens lay, if none ever lay on two nodes at once."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as it stands in verdict.json; times in milliseconds since the history's start."""
        if self.missing:
            return {"missing": self.missing}
        open_ = [held for held in self.held if not held.agrees]
        return {
            "nodes": self.nodes,
            "needed": self.needed,
            "grants": len(self.held),
            "agree": len(self.held) - len(open_),
            "part": sum(held.parts for held in open_),
            "not_known": sum(not held.parts for held in open_),
            "not_watched": self.unwatched + self.without_token + self.shared_token,
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
        """A stamp as milliseconds since the history's start; None for what never came."""
        return None if time_ns is None or time_ns >= NEVER else (time_ns - self.start_ns) / 1e6


def cross_check(history: History, *, one_master: bool = False) -> CrossCheck:
    """Hold every grant's belief against the nodes' truth, until the story was over and the lab began to mend.

    Args:
        history: the record.
        one_master: that nodes replicate each other, so that a grant lies where it counts if any has it.
    """
    names = sorted({event.node for event in history.nodes if event.node is not None})
    total = max(history.params.nodes or 0, len(names))
    key = next((event.key for event in history.nodes if event.key is not None), None)
    looked = [e for e in history.nodes if e.f in LOOKS]
    if key is None or not looked:
        return CrossCheck(total, 0, (), history.start_ns, history.end_ns, missing="no node was watched")
    if any("asked_ns" not in (e.value if isinstance(e.value, dict) else {}) for e in looked):
        missing = "the history does not tell between which moments the nodes were looked at"
        return CrossCheck(total, 0, (), history.start_ns, history.end_ns, missing=missing)
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
        followed, unwatched, nameless, shared = [], 0, 0, 0
        for grant, believed in self._beliefs().items():
            token = int(grants.token[grant])
            if evidence.key(int(grants.key[grant])) != self._key or token not in own:
                other = evidence.key(int(grants.key[grant])) != self._key
                unwatched += other
                nameless += not other and token == NONE
                shared += not other and token != NONE
                continue
            since_ns = int(grants.called_ns[grant])
            name, end_ns = str(ops.names.token[token]), believed[-1].end_ns
            followed.append((grant, believed, [r.lain(name, since_ns, end_ns) for r in self._records]))
        spread = max((sum(bool(lain.there) for lain in lains) for _, _, lains in followed), default=0)
        needed = 1 if spread == 1 else self._needed  # a lock that never asks a second node needs no majority
        held = [self._held(grant, believed, lains, needed) for grant, believed, lains in followed]
        on = {
            r.node
            for _, _, lains in followed
            for r, lain in zip(self._records, lains, strict=True)
            if lain.there
        }
        return CrossCheck(
            self._total,
            needed,
            tuple(held),
            evidence.history.start_ns,
            self._end_ns,
            unwatched,
            without_token=nameless,
            shared_token=shared,
            only_on=tuple(sorted(on)) if spread == 1 else (),
        )

    def _beliefs(self) -> dict[int, list[Piece]]:
        """When the client of each grant believed in it, as far as the story went."""
        segments = self._evidence.believed
        found: dict[int, list[Piece]] = {}
        columns = (segments.grant.tolist(), segments.start_ns.tolist(), segments.end_ns.tolist())
        for grant, start_ns, end_ns in sorted(zip(*columns, strict=True)):
            if start_ns < min(end_ns, self._end_ns):
                found.setdefault(grant, []).append(Piece(start_ns, min(end_ns, self._end_ns)))
        return found

    def _held(self, grant: int, believed: list[Piece], lains: Sequence[Presence], needed: int) -> Held:
        sure_ns = possible_ns = most = 0
        first_ns: int | None = None
        last_ns: int | None = None
        for piece in believed:
            for start_ns, end_ns in _cut(piece, lains):
                there = sum(_covers(lain.there, start_ns, end_ns) for lain in lains)
                absent = sum(_covers(lain.absent, start_ns, end_ns) for lain in lains)
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
            for lain in lains
            for loss in lain.losses
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


def _cut(piece: Piece, lains: Iterable[Presence]) -> list[tuple[int, int]]:
    """A piece of belief, cut wherever anything about a node changes."""
    ends = {
        stamp
        for lain in lains
        for span in (*lain.there, *lain.absent)
        for stamp in (span.start_ns, span.end_ns)
    }
    cuts = [piece.start_ns, *sorted(e for e in ends if piece.start_ns < e < piece.end_ns), piece.end_ns]
    return list(pairwise(cuts))


def _covers(pieces: Iterable[Piece], start_ns: int, end_ns: int) -> bool:
    return any(piece.start_ns <= start_ns and end_ns <= piece.end_ns for piece in pieces)
