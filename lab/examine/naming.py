"""The causes of a violation: from the ledger of its trial, with the catalogue's names."""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import NotModelled, UnknownOutcome
from lab.examine.catalogue import name_of
from lab.examine.ledger.book import Breach
from lab.examine.ledger.breaches import RESIDUE
from lab.examine.ledger.cause import cause_of
from lab.examine.ledger.rules import breaches
from lab.examine.ledger.words import tell
from lab.search.origin import Place
from lab.search.trial import Trial


@dataclass(frozen=True, slots=True)
class Cause:
    """What led to a violation.

    Attributes:
        kind: its name in the catalogue.
        seen: what was seen, in one sentence.
        breach: which rule was broken, by which call and how.
        places: the calls in the lock's code that did it, the outermost first.
        by_intervention: whether the violation goes away when the breach is repaired.
    """

    kind: str
    seen: str
    breach: Breach
    places: tuple[Place, ...] = ()
    by_intervention: bool = False


def causes_of(trial: Trial, finding: str) -> list[Cause]:
    """What led to a finding in a trial, and what else would have prevented it; nothing if no rule is broken.

    What a fault kept a client from doing is no cause. Only inside ``trials``. Raises what ``run_trial`` does.
    """
    try:
        shown, kept = cause_of(trial, finding)
    except (UnknownOutcome, NotModelled):
        return []
    if shown is None or (shown.found.excused and shown.found.kind.rule == RESIDUE):
        return []
    first = {found.kind: found for found in reversed(breaches(kept))}
    told = tell(kept, shown.found)
    seen = told.sentence
    rest = [tell(kept, first[kind]) for kind in shown.others]
    if shown.together:
        seen = "; together with this: ".join([seen, *(other.sentence for other in rest)])
    name = name_of(shown.found.kind, told.facts)
    causes = {name: Cause(name, seen, shown.found.kind, told.places, shown.by_intervention)}
    for kind, other in zip(shown.others, rest, strict=True):
        name = name_of(kind, other.facts)
        causes.setdefault(name, Cause(name, other.sentence, kind, other.places, by_intervention=True))
    return list(causes.values())
