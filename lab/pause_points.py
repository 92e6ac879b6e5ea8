"""The points of a client's work at which a story can make it wait."""

from __future__ import annotations

from typing import Final, Literal, get_args

Point = Literal[
    "between-setnx-and-expire",
    "before-announce",
    "acquired",
    "read",
    "before-write",
    "written",
    "before-release",
]
"""Where ``work`` and ``continue`` can stop, in the order in which a client comes by; the first only with the
lock ``setnx-expire``, the second only with a lock that announces its token."""

POINTS: Final[tuple[Point, ...]] = get_args(Point)
POINTS_BEFORE_GRANT: Final[tuple[Point, ...]] = ("between-setnx-and-expire", "before-announce")
"""Points at which the client does not hold the lock yet."""
