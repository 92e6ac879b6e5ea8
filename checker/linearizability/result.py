"""What a linearizability check answers: an outcome, the operations that prove it, and one plain sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "violated", "unknown"]


@dataclass(frozen=True, slots=True)
class Result:
    """The answer for one key.

    `witness` holds rows of the caller's table of operations: those that no order can reconcile (empty when
    ok). `exact` is False when an `ok` only means that this test, sound but incomplete, found nothing.
    """

    outcome: Outcome
    model: str
    algorithm: str
    why: str
    witness: tuple[int, ...] = ()
    key: str | int | None = None
    exact: bool = True

    def __bool__(self) -> bool:
        """Refuse truth: `unknown` is neither a pass nor a failure."""
        raise TypeError("a Result has three outcomes: compare result.outcome")


@dataclass(frozen=True, slots=True)
class Violation:
    """What a scan found first on one key: op positions in `OpColumns`, -1 where there is none."""

    key: int
    reason: int
    earlier: int
    later: int
