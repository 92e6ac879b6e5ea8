"""The cause of a violation, by intervention: which kind of breach, repaired, makes the violation go away.

Each kind is tried by itself; where none is enough, the smallest set that is. Where a rule has no repair
(progress, order), its breach is the cause if it is what the finding says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.errors import NotModelled, UnknownOutcome
from lab.examine.ledger.book import NEVER, OVER, Breach
from lab.examine.ledger.breaches import (
    APART,
    BESIDE,
    CLAIMS,
    KEPT_TOO_LONG,
    LEAVES,
    OWN_KEYS,
    READS_WALL_CLOCK,
    RESIDUE,
    WAITING,
)
from lab.examine.ledger.finders import seen
from lab.examine.ledger.keeping import Kept, Repairs, keep
from lab.examine.ledger.rules import (
    FAILS,
    FENCE,
    IS_LATE,
    MIXES,
    NEVER_ENDS,
    OUTWAITS,
    RAISES,
    STALE,
    STOPS,
    Found,
    breaches,
)
from lab.examine.violations.judge import ERROR, HANG, LATE_RETURN, RENEWAL, Violation
from lab.faults.clock import ClockFault
from lab.search.faults import client_of, is_a
from lab.search.runner import Outcome
from lab.search.trial import Trial
from lab.substrates.sim.errors import SimulationError

_SLOW: Final = (MIXES, NEVER_ENDS, FAILS, IS_LATE)
SAYS: Final[dict[str, tuple[str, ...]]] = {
    ERROR: (RAISES,),
    HANG: (NEVER_ENDS,),
    RENEWAL: (STOPS,),
    LATE_RETURN: (OUTWAITS,),
    "fence-order": (FENCE,),
    **dict.fromkeys(("fence-breach", "stale-write", "lost-update", "cycle"), (STALE,)),
    "unavailable": _SLOW,
    "leak": _SLOW,
}
"""What breaches without a repair say of findings, the most telling first."""
AT_ONCE: Final = (ERROR, HANG, RENEWAL, LATE_RETURN, "fence-order", "fence-breach")
"""Findings that such a breach explains whatever else is wrong."""
RANKS: Final = {OWN_KEYS: 0, CLAIMS: 1, RESIDUE: 2}
"""Acts on what others have tell most, then claims, then what is done to a lease that is over."""
ROUNDS: Final = 3
"""How often a repair is widened to the same act of other calls, which the lock reaches only when repaired."""
KINDS_MAX: Final = 14
"""So many kinds of breaches of one trial are tried at most, the earliest ones."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What led to a violation: a breach, and whether an intervention showed that.

    ``others`` are kinds of breaches whose repair is enough as well; or, if it takes them ``together``, those
    that must be repaired, too.
    """

    found: Found
    by_intervention: bool
    others: tuple[Breach, ...] = ()
    together: bool = False


def cause_of(trial: Trial, finding: str) -> tuple[Shown | None, Kept]:
    """The cause of a finding in a trial, and the trial with its ledger.

    The cause is None if no breach explains the finding, or the trial does not show it. Only inside
    ``trials``. Raises what ``run_trial`` does.
    """
    kept = keep(trial)
    wrong = seen(kept)
    if finding not in wrong:
        return None, kept
    found = breaches(kept)
    first: dict[Breach, Found] = {}
    for each in found:
        if each.kind not in first or (first[each.kind].excused and not each.excused):
            first[each.kind] = each

    def is_gone(repairs: Repairs, *, by_error: bool = False) -> bool:
        """Whether the finding goes away, also where the lock then does the same in another call."""
        for _ in range(ROUNDS):
            try:
                other = keep(trial, repairs, by_error=by_error)
            except (UnknownOutcome, NotModelled, SimulationError):
                return False
            left = seen(other)
            if finding not in left:
                return not (left.keys() - wrong.keys()) & {ERROR, HANG}
            acts = {(kind.rule, kind.effect) for kind in repairs}
            same = {each.kind for each in breaches(other) if (each.kind.rule, each.kind.effect) in acts}
            if not same - repairs - first.keys():
                return False
            repairs |= same - first.keys()
        return False

    wrong_ns = _first_wrong_read_ns(kept.outcome)
    if wrong_ns is not None and is_gone(frozenset((READS_WALL_CLOCK,))):
        return Shown(Found(READS_WALL_CLOCK, wrong_ns), by_intervention=True), kept
    direct = _direct(found, wrong[finding])
    if finding in AT_ONCE and direct is not None:
        return Shown(direct, by_intervention=False), kept
    kinds = [kind for kind in first if kind.rule in RANKS and _may_lead_to(kind, finding)][:KINDS_MAX]
    enough, together = [kind for kind in kinds if is_gone(frozenset((kind,)))], False
    # An acquire may not look at the answer to what replaces a key, or adds its entry to those of others.
    unread = [
        kind for kind in kinds if kind[:2] == (OWN_KEYS, "acquire") and kind[2] in ("replace", "create")
    ]
    enough += [kind for kind in unread if kind not in enough and is_gone(frozenset((kind,)), by_error=True)]
    if not enough:
        enough, together = _together({kind: first[kind] for kind in kinds}, is_gone)
    if direct is not None and all(first[kind].excused for kind in enough):
        return Shown(direct, by_intervention=False), kept
    if enough:
        chosen = min(enough, key=lambda kind: (first[kind].excused, _rank(first[kind]), first[kind].time_ns))
        others = tuple(kind for kind in enough if kind != chosen)
        return Shown(first[chosen], by_intervention=True, others=others, together=together), kept
    return None, kept


def _may_lead_to(kind: Breach, finding: str) -> bool:
    """Whether a breach may be what leads to a finding.

    One more that is let in keeps nobody out, nor does an acquire that takes what lies there of a lease that
    is over: it is granted the lock.
    """
    if finding not in ("unavailable", "leak") or kind.rule != OWN_KEYS:
        return True
    return not (kind.whose in (APART, BESIDE) or (kind.call == "acquire" and kind.whose.endswith(OVER)))


def _first_wrong_read_ns(outcome: Outcome) -> int | None:
    """When a client first read its wall clock after that was moved, in the lock's own code if possible."""
    moved = {
        f"f{at}": client_of(fault) for at, fault in enumerate(outcome.struck, 1) if is_a(fault, ClockFault)
    }
    since_ns = {
        moved[event["fault_id"]]: event["time_ns"]
        for event in reversed(outcome.events)
        if event.get("fault_id") in moved
    }
    reads = [
        read
        for client, each in outcome.wall_clock.items()
        for read in each
        if read.time_ns >= since_ns.get(client, NEVER)
    ]
    first = min(reads, key=lambda read: (not read.places, read.time_ns), default=None)
    return None if first is None else first.time_ns


def _together(kinds: dict[Breach, Found], is_gone: Callable[[Repairs], bool]) -> tuple[list[Breach], bool]:
    """The kinds that only together are enough: one act on keys of several owners, or else several acts.

    None, if a fault has a part in that: without it the others may do no harm.
    """
    acts: dict[tuple[str, ...], frozenset[Breach]] = {}
    for kind in kinds:
        acts[kind[:3]] = acts.get(kind[:3], frozenset()) | {kind}
    for act in acts.values():
        if len(act) > 1 and is_gone(act):
            return [kind for kind in kinds if kind in act], False
    if len(acts) < 2 or not is_gone(frozenset(kinds)):
        return [], False
    needed = list(acts.values())
    for act in acts.values():
        rest = [other for other in needed if other != act]
        if rest and is_gone(frozenset().union(*rest)):
            needed = rest
    found = [kind for kind in kinds if any(kind in act for act in needed)]
    return ([], False) if any(kinds[kind].excused for kind in found) else (found, True)


def _direct(found: list[Found], violation: Violation) -> Found | None:
    """The breach that says what a finding says: the longest call that is late, the last one that fails.

    A call that waits for a majority that is away, though it may never end, keeps no other client waiting. Nor
    does one fail in vain whose client did not ask then.
    """
    finding, asked = violation.finding, violation.clients if violation.finding == "unavailable" else ()
    for what in SAYS.get(finding, ()):
        says = [each for each in found if each.kind.effect == what and (finding == HANG or not each.excused)]
        if what == FAILS and asked:
            says = [each for each in says if each.call is None or each.call.client in asked]
        if says:
            return max(says, key=_took_ns) if what == IS_LATE else says[-1 if what == FAILS else 0]
    return None


def _took_ns(late: Found) -> int:
    return late.call.ended_ns - late.call.called_ns if late.call is not None else 0


def _rank(found: Found) -> int:
    kind = found.kind
    if kind.effect == KEPT_TOO_LONG and found.effect is not None and found.effect.slot.element:
        return len(RANKS) + 1  # no element has an end of its own: who put it there is to take it away
    # An entry beside others' may be a place in a queue: it tells only where nothing else does.
    is_weak = kind.rule == OWN_KEYS and (kind.whose in (BESIDE, WAITING) or kind.whose.endswith(OVER))
    return len(RANKS) if is_weak or kind.effect == LEAVES else RANKS[kind.rule]
