"""The defects of an examination in their order, those that go back to the same act of the lock as one.

Two schedules show one bug if the same call in the lock's code sent the command that did the harm in both, or
if the cause of one is among what the other shows as well. The defect that is more certain and does more harm
stays; the other is a consequence of it, and keeps its own schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from lab.examine.catalogue import UNKNOWN
from lab.examine.judge import ERROR, HANG, LATE_RETURN, RELEASE, RENEWAL
from lab.examine.ledger.breaches import OWN_KEYS
from lab.examine.result import Defect

_MILD: Final = ({"false-validity"}, {ERROR, HANG, LATE_RETURN, RELEASE, RENEWAL}, {"leak"}, {"unavailable"})
"""Findings that harm less than two holders at once, the worst first."""


def arranged(defects: Sequence[Defect]) -> tuple[Defect, ...]:
    """The defects, the most certain and most harmful first, and after all of them their consequences."""
    heads: list[Defect] = []
    follow: list[tuple[Defect, int]] = []
    for defect in sorted(defects, key=_rank):
        head = next((at for at, other in enumerate(heads) if is_one_bug(other, defect)), None)
        if head is None:
            heads.append(defect)
        elif _is_more_certain(defect, heads[head]):
            follow.append((heads[head], head))
            heads[head] = defect
        else:
            follow.append((defect, head))
    follow.sort(key=lambda one: one[1])
    return (
        *(replace(each, consequence_of=0) for each in heads),
        *(replace(each, consequence_of=head + 1) for each, head in follow),
    )


def is_one_bug(one: Defect, other: Defect) -> bool:
    """Whether two defects go back to the same act of the lock."""
    if UNKNOWN in (one.cause, other.cause):
        return False
    if one.cause in other.also_fits or other.cause in one.also_fits:
        return True
    acts = one.rule == OWN_KEYS == other.rule  # by one command, which is wrong wherever it is sent
    return acts and bool(one.places) and one.places[-1:] == other.places[-1:]


def _is_more_certain(defect: Defect, head: Defect) -> bool:
    """Whether a defect's schedule shows the cause of both without the other's, as often and as simply.

    What a lock does without any fault needs no schedule with one to explain it.
    """
    shared = defect.cause in head.also_fits and head.cause not in defect.also_fits
    needs_faults = bool(defect.faults) and not head.faults
    return shared and defect.reproduced >= head.reproduced and not needs_faults


def _rank(defect: Defect) -> tuple[bool, int, int, bool]:
    harm = min((_harm(name) for name in defect.findings), default=0)
    return defect.cause == UNKNOWN, harm, -defect.reproduced, bool(defect.faults)


def _harm(finding: str) -> int:
    return next((at for at, names in enumerate(_MILD, 1) if finding in names), 0)
