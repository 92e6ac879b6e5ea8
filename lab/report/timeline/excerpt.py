"""Which part of a long history is drawn: its beginning and end, and around the first violation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checker.history.operations import I64
from lab.report.timeline.model import Span
from lab.report.timeline.words import grouped

MOST_OPS = 400
_EDGE_OPS = 24
_AROUND_OPS = 48


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Operations to draw (rows, ascending), the stretches of time they cover and those left out; in ns."""

    rows: I64
    shown: tuple[Span, ...]
    gaps: tuple[Span, ...]
    note: str | None = None

    def shows(self, start_ns: int, end_ns: int | None) -> bool:
        """Whether a span touches a stretch that is drawn."""
        if not self.shown:
            return True
        return any(
            start_ns <= (span.end_ns or span.start_ns) and (end_ns is None or end_ns >= span.start_ns)
            for span in self.shown
        )


def choose(rows: I64, call_ns: I64, return_ns: I64, witnesses: Sequence[int]) -> Excerpt:
    """Pick what to draw.

    Args:
        rows: candidate rows, ordered by call; shape (n,).
        call_ns: their calls since the start; shape (n,).
        return_ns: their returns, of an open one its call; shape (n,).
        witnesses: positions within ``rows`` of the operations that witness the first violation.
    """
    if rows.size <= MOST_OPS:
        return Excerpt(rows, (), ())
    wanted = np.zeros(rows.size, bool)
    wanted[:_EDGE_OPS] = True
    wanted[-_EDGE_OPS:] = True
    for at in witnesses[:4]:
        side = _AROUND_OPS // (2 * min(len(witnesses), 4))
        wanted[max(at - side, 0) : at + side + 1] = True
    starts = np.flatnonzero(wanted & ~np.concatenate([[False], wanted[:-1]]))
    stops = np.flatnonzero(wanted & ~np.concatenate([wanted[1:], [False]]))
    shown: list[Span] = []
    for first, last in zip(starts.tolist(), stops.tolist(), strict=True):
        # Only calls bound a stretch: one very long operation must not extend over what is left out.
        end = int(call_ns[last])
        quick = return_ns[first : last + 1]
        limit = int(call_ns[last + 1]) if last + 1 < rows.size else int(return_ns.max())
        end = max([end, *(int(t) for t in quick if t <= limit)])
        if shown and int(call_ns[first]) <= (shown[-1].end_ns or 0):
            shown[-1] = Span(shown[-1].start_ns, end)
        else:
            shown.append(Span(int(call_ns[first]), end))
    gaps = [Span(a.end_ns or 0, b.start_ns) for a, b in pairwise(shown)]
    count = int(wanted.sum())
    parts = f"the first {_EDGE_OPS}, the last {_EDGE_OPS}"
    parts += " and those around the first violation" if witnesses else ""
    note = f"Excerpt: {grouped(count)} of {grouped(int(rows.size))} operations are drawn ({parts})."
    return Excerpt(rows[wanted], tuple(shown), tuple(gaps), note)
