"""When a violation is a defect of the lock, and which defects are one and the same.

Two schedules show one bug if the same call in the lock's code sent the command that did the harm in both, or
if the cause of one is among what the other shows as well. The defect that is more certain and does more harm
stays; the other is a consequence of it, and keeps its own schedule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from lab.examine.kinds import Kind
from lab.examine.ledger.breaches import OWN_KEYS, PAST_CLAIM, RESIDUE
from lab.examine.ledger.finders import OTHERS_KEY
from lab.examine.ledger.naming import UNKNOWN, Cause
from lab.examine.result import Defect
from lab.examine.violations.judge import ERROR, HANG, LATE_RETURN, RELEASE, RENEWAL, Violation
from lab.faults.answers import Answers
from lab.faults.client_crash import ClientCrash
from lab.faults.down import DownFault
from lab.faults.fill_memory import FillMemory
from lab.faults.links import ConnectionsFault
from lab.faults.pause import Pause
from lab.search.faults import Kind as FaultKind

VARIANTS: Final = 20
"""How many trials like the smallest one, with other latencies and pauses, are tried."""
SURE: Final = 18
"""In how many of them a lock must fail where the reference never does, if assumptions are broken, or if it is
not served and no cause is known."""
RARE: Final = ("unavailable", "leak")
"""What a correct lock may come to by bad luck: clients that get into each other's way again and again."""
OFTEN: Final = 5
"""In how many variants such a finding must be seen."""
NO_CAUSE: Final = "no rule was broken that led to it"
NOT_OWED: Final = (
    "an attempt that ended without an answer left its key until its TTL, which a lock of this kind may do"
)
NOT_TOLD: Final = (
    "the lock renews its leases, and has nothing that tells its user that one is lost; with something to "
    "ask, as `owned`, who is cut off for a lease can stop in time"
)
KEPT_AWAY: Final = "a client was kept from undoing what it had done, which no lock can help"
KEEP_AWAY: Final = (ConnectionsFault, DownFault, Answers, FillMemory, Pause, ClientCrash)
"""Faults that keep a client from the nodes. What it has set stays there until its TTL is over."""


def why_not_owed(kind: Kind, cause: Cause) -> str:
    """Why a lock of this kind need not do better than what caused a violation; nothing if it must."""
    if not kind.owes_undo and (cause.breach.rule, cause.breach.whose) == (RESIDUE, "unknown"):
        return NOT_OWED
    return "" if kind.tells_loss or cause.breach != PAST_CLAIM else NOT_TOLD


def why_uncertain(
    reference: str,
    violation: Violation,
    causes: Sequence[Cause],
    shown: tuple[int, int],
    lost: int,
    *,
    beyond: bool,
    faults: Collection[FaultKind] = (),
) -> str:
    """Why a violation is not certain to be a defect of the lock; nothing if it is.

    Args:
        reference: the lock that it is compared with.
        violation: what was found.
        causes: what led to it.
        shown: how many variants of the schedule show it, of how many that were run.
        lost: in how many of them the reference has it as well.
        beyond: whether the schedule breaks an assumption.
        faults: the kinds of its faults.
    """
    rare = violation.finding in RARE
    reproduced, variants = shown
    if lost:
        return f"{reference} has it as well in {lost} of {variants} variants"
    if beyond and not causes:
        return NO_CAUSE
    if rare and not causes and any(issubclass(fault, KEEP_AWAY) for fault in faults):
        return f"{NO_CAUSE}, and {KEPT_AWAY}"
    if reproduced < (SURE if beyond or (rare and not causes) else OFTEN if rare else 0):
        ended = "" if variants == VARIANTS else f" (of {VARIANTS}, the others were not run)"
        why = "" if causes else f", and {NO_CAUSE}"
        return f"only {reproduced} of {variants} variants show it{ended}{why}"
    return ""


_MILD: Final = (
    {OTHERS_KEY},
    {"false-validity"},
    {ERROR, HANG, LATE_RETURN, RELEASE, RENEWAL},
    {"leak"},
    {"unavailable"},
)
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
