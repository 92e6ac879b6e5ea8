"""Situations in which one client asks for leases of different lengths: no fault strikes.

What was remembered of an earlier lease, or of the lease before its extension, is wrong of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.examine.programs import ALICE, BOB, Setting
from lab.search.trial import Round, Trial

SHORTER: Final = 5
"""The other lease is so many times shorter, or longer."""


def other_ttls(setting: Setting, *, extends: bool) -> Iterator[Trial]:
    """Alice's second lease is shorter, or longer; her extension is. Bob asks when the shorter one is over."""
    short_ns = setting.ttl_ns // SHORTER
    at_first = Round(short_ns // 10, short_ns // 10)
    held_ns = setting.ttl_ns * 6 // 10
    bob = (Round(setting.ttl_ns * 4 // 10, short_ns // 10), Round(setting.ttl_ns * 2 // 10, short_ns // 10))
    rounds: list[tuple[Round, ...]] = [
        (at_first, Round(short_ns // 10, held_ns, ttl_ns=short_ns)),
        (Round(0, short_ns // 10, ttl_ns=short_ns), Round(short_ns // 10, held_ns)),
    ]
    if extends and setting.extends_for_any_ttl:
        rounds += [
            (Round(0, short_ns * 3 // 2, 2, extend_ttl_ns=short_ns),),
            (Round(0, short_ns * 3 // 2, 2, ttl_ns=short_ns, extend_ttl_ns=setting.ttl_ns),),
        ]
    for hers in rounds:
        yield setting.with_clients({ALICE: hers, BOB: bob}, demand=False)
