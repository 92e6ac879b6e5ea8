"""The causes of a violation: from the ledger of its trial, with the names that the catalogue has for them.

The catalogue says what a breach of a rule is called, how it is done right, and the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from types import MappingProxyType
from typing import Final

import msgspec

from lab.errors import NotModelled, UnknownOutcome
from lab.examine.ledger.book import Breach
from lab.examine.ledger.breaches import PAST_CLAIM, RESIDUE
from lab.examine.ledger.cause import cause_of
from lab.examine.ledger.finders import seen
from lab.examine.ledger.keeping import Kept, keep
from lab.examine.ledger.rules import UNCHANGED, Found, breaches
from lab.examine.ledger.words import REFUSED_EXTENSION, Told, tell
from lab.search.origin import Place
from lab.search.plainer_tracks import fits, without_extensions
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
    told = _told(kept, shown.found, finding)
    sentence = told.sentence
    rest = [_told(kept, first[kind], finding) for kind in shown.others]
    if shown.together:
        sentence = "; together with this: ".join([sentence, *(other.sentence for other in rest)])
    name = name_of(shown.found.kind, told.facts)
    causes = {name: Cause(name, sentence, shown.found.kind, told.places, shown.by_intervention)}
    for kind, other in zip(shown.others, rest, strict=True):
        name = name_of(kind, other.facts)
        causes.setdefault(name, Cause(name, other.sentence, kind, other.places, by_intervention=True))
    return list(causes.values())


OF_EXTENSIONS: Final = frozenset((REFUSED_EXTENSION, UNCHANGED))
"""What a sentence says of the extensions of a lease that is over."""


def _told(kept: Kept, found: Found, finding: str) -> Told:
    """What was seen of a breach; of a belief in a lease that is over without what has no part in it.

    If the lock says so in the same schedule without extensions, how one of them ended is no cause.
    """
    told, trial = tell(kept, found), kept.outcome.trial
    if found.kind != PAST_CLAIM or not told.facts & OF_EXTENSIONS:
        return told
    plainer = without_extensions(trial)
    if plainer == trial or not fits(plainer):
        return told
    try:
        is_seen = finding in seen(keep(plainer))
    except (UnknownOutcome, NotModelled):
        return told
    if not is_seen:
        return told
    sentence = f"{told.sentence}; it says so without any extension as well"
    return replace(told, sentence=sentence, facts=told.facts - OF_EXTENSIONS)


# The catalogue only names: a breach that fits nothing in it is reported all the same, as ``unknown``, with
# what was seen.

UNKNOWN: Final = "unknown"


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which breaches it fits: those with this rule, call, effect and owner, where given, and these facts."""

    rule: str | None = None
    call: str | None = None
    effect: str | None = None
    whose: str | None = None
    facts: tuple[str, ...] = ()

    def fit(self, breach: Breach, facts: frozenset[str]) -> int:
        """How much it says, if all of it holds, a fact twice as much as anything else; else 0."""
        asked = [(getattr(self, name), getattr(breach, name)) for name in Breach._fields]
        given = [(wanted, seen) for wanted, seen in asked if wanted is not None]
        if any(wanted != seen for wanted, seen in given) or not facts.issuperset(self.facts):
            return 0
        return len(given) + 2 * len(self.facts)


class CauseKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One name: what is wrong in a sentence, how the algorithm does it right, the source, what it fits."""

    what: str
    right: str
    source: str = ""
    of: tuple[Pattern, ...] = ()


CATALOGUE: Final[Mapping[str, CauseKind]] = MappingProxyType(
    msgspec.yaml.decode(
        resources.files("lab.examine.ledger").joinpath("catalogue.yaml").read_bytes(),
        type=dict[str, CauseKind],
    )
)
"""All of them by their names."""


def name_of(breach: Breach, facts: Iterable[str]) -> str:
    """The name of a breach with these facts, by the pattern that says most; ``unknown`` if none fits."""
    known = frozenset(facts)
    fits = [(pattern.fit(breach, known), name) for name, kind in CATALOGUE.items() for pattern in kind.of]
    best, name = max(fits, key=lambda fit: fit[0])
    return name if best else UNKNOWN
