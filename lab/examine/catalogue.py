"""The catalogue of causes: what a breach of a rule is called, how it is done right, and the source.

It only names: a breach that fits nothing here is reported all the same, as ``unknown``, with what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from types import MappingProxyType
from typing import Final

import msgspec

from lab.examine.ledger.book import Breach

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
        resources.files("lab.examine").joinpath("catalogue.yaml").read_bytes(), type=dict[str, CauseKind]
    )
)
"""All of them by their names."""


def name_of(breach: Breach, facts: Iterable[str]) -> str:
    """The name of a breach with these facts, by the pattern that says most; ``unknown`` if none fits."""
    known = frozenset(facts)
    fits = [(pattern.fit(breach, known), name) for name, kind in CATALOGUE.items() for pattern in kind.of]
    best, name = max(fits, key=lambda fit: fit[0])
    return name if best else UNKNOWN
