"""Which fault of the nemesis a finding may be put down to: what broke an assumption before it, and fits it.

Nothing here decides anything, and nothing more is said than that an assumption was broken, when, and by how
many faults that fit as well. Two guaranteed windows meet only if a node forgot a key early: by its clock or
by losing what it kept, between the first grant and the second. No pause and no slow network does that to a
lock that keeps its promise, so such a fault goes before them, and best is one of a node that was seen with
the keys of both grants. All other findings are put down to the latest fault that hit a client of theirs, or
a node, which serves everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from checker.history.history import Fault, History

FORGETFUL: Final = frozenset(("bounded clock error", "durable nodes", "keys kept for their TTL"))
"""Assumptions without which a node may let go of a key before its time."""
LISTED_MAX: Final = 5
"""How many faults a sentence lists."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What nodes must have forgotten, if two guaranteed windows meet.

    It was forgotten between `since_ns`, when the earlier grant was asked for, and `until_ns`, when the later
    one was made at the latest; `tokens` are the values of the keys of both, as far as they are known.
    """

    key: str | None
    since_ns: int
    until_ns: int
    tokens: frozenset[str]


class Attribution:
    """Puts findings down to faults. `at` tells a stamp in words."""

    def __init__(self, history: History, clients: frozenset[str], at: Callable[[int], str]) -> None:
        self._history = history
        self._clients = clients
        self._at = at

    def broken_assumption(
        self, witnesses: tuple[int, ...], clients: tuple[str, ...], forgotten: Forgotten | None = None
    ) -> tuple[str, Fault] | None:
        """The assumption whose breach fits a finding best, in a sentence, and the fault that broke it.

        None if no assumption was broken before.
        """
        if not witnesses:
            return None
        earlier = [f for f in self._history.faults if f.breaks and f.confirmed and f.index < witnesses[-1]]
        if not earlier:
            return None
        ranks = {fault.index: self._rank(fault, clients, forgotten) for fault in earlier}
        best = max(earlier, key=lambda fault: (ranks[fault.index], fault.index))
        alike = [fault.index for fault in earlier if ranks[fault.index] == ranks[best.index]]
        also = ""
        if forgotten is not None and len(alike) > 1:
            listed = ", ".join(map(str, alike[-LISTED_MAX:])) + (" …" if len(alike) > LISTED_MAX else "")
            also = f", the latest of {len(alike)} faults that may have led to it (events {listed})"
        sentence = (
            f"assumption '{best.breaks}' was broken by the nemesis at {self._at(best.start_ns)} "
            f"(event {best.index}){also}"
        )
        return sentence, best

    def _rank(
        self, fault: Fault, clients: tuple[str, ...], forgotten: Forgotten | None
    ) -> tuple[int, int, bool]:
        """How well a fault fits: as a loss of keys, by the keys that its nodes held, by whom it hit."""
        hit = self._clients & set(fault.targets)
        matters = not hit or bool(hit & set(clients))
        if forgotten is None or hit or fault.breaks not in FORGETFUL:
            return 0, 0, matters
        seen = [self._seen_on.get((name, forgotten.key), set()) for name in fault.targets]
        held = max((len(forgotten.tokens & theirs) for theirs in seen), default=0)
        return _as_a_loss(fault, forgotten), held, matters

    @cached_property
    def _seen_on(self) -> dict[tuple[str | None, str | None], set[str]]:
        """The values that each node was seen to hold under each key."""
        seen: dict[tuple[str | None, str | None], set[str]] = {}
        for event in self._history.nodes:
            if event.token is not None:
                seen.setdefault((event.node, event.key), set()).add(event.token)
        return seen


def _as_a_loss(fault: Fault, forgotten: Forgotten) -> int:
    """2: it began or ended while the key was forgotten; 1: it made a clock wrong all the while; 0: neither.

    A clock that jumped before is off by the same all the time, so it measures a TTL as well as any other.
    """
    began = (
        fault.start_ns <= forgotten.until_ns and min(fault.receipt_ns, fault.until_ns) >= forgotten.since_ns
    )
    ended = forgotten.since_ns <= fault.until_ns <= forgotten.until_ns
    if began or ended:
        return 2
    lasted = fault.start_ns < forgotten.since_ns and fault.until_ns > forgotten.until_ns
    return int(lasted and fault.f != "jump")
