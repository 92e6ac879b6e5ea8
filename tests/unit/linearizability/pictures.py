"""Histories drawn as lines of text, so that a test shows what it is about.

    alice A --[===]--------[=]-      one line per process; `[` calls, `]` returns, in columns
    bob   A -----[=====>             `>` never returns

Each operation is told by the letter after its `[`: A acquire, R release, X a refused acquire. A digit after
the letter is the fence. Two events in one column are ordered by line, upper first.
"""

from __future__ import annotations

import re

from checker.history.operations import NEVER
from checker.linearizability.columns import ACQUIRE, NO_FENCE, REFUSED, RELEASE, OpColumns
from tests.op_columns import op_columns

_KINDS = {"A": ACQUIRE, "R": RELEASE, "X": REFUSED}
_OP = re.compile(r"\[([ARX])(\d*)[^\]>]*([\]>])")


def picture(drawing: str) -> OpColumns:
    """The operations of a drawing, in order of their lines, then of their columns."""
    rows: list[tuple[int, int, int, int, int]] = []
    lines = [line for line in drawing.splitlines() if line.strip()]
    names = list(dict.fromkeys(line.split()[0] for line in lines))
    for number, line in enumerate(lines):
        process = names.index(line.split()[0])
        for found in _OP.finditer(line):
            end = NEVER if found[3] == ">" else (found.end() - 1) * len(lines) + number
            fence = int(found[2]) if found[2] else NO_FENCE
            rows.append((_KINDS[found[1]], process, found.start() * len(lines) + number, end, fence))
    kinds, processes, called, returned, fences = (list(c) for c in zip(*rows, strict=True))
    return op_columns(kinds, processes, called, returned, fence=fences)
