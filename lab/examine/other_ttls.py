"""Situations with leases of different lengths: no fault strikes.

What was remembered of an earlier lease, or of the lease before its extension, is wrong of the next one. What
holds the leases of several clients ends with the longest of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.examine.directed import CAROL, told, write
from lab.examine.programs import ALICE, BOB, Setting
from lab.locks.capacity import READ
from lab.scenario.steps import Acquire, Check, Read, Release
from lab.scenario.triggers import after, on
from lab.search.as_tracks import action
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


def beside_longer_ones(setting: Setting) -> Iterator[Trial]:
    """A short lease beside longer ones of others runs out; then others ask, as many as may not be let in.

    Readers may have it with Alice's, and all who hold a permit. Where one key holds all their leases, the end
    of the last one that was taken is not its end.
    """
    ttl_ns, short_ns = setting.ttl_ns, setting.with_ttl(setting.ttl_ns // SHORTER).ttl_ns
    over = {"insist_ns": ttl_ns, "pause_ns": ttl_ns // 50}
    asks = action(Acquire, on(BOB, "granted", after_ns=short_ns * 11 // 10), **over)
    his = [*write(ttl_ns // 10), action(Release)]
    if setting.capacity.read_write:
        reads = [action(Read), action(Check, after(ttl_ns * 7 // 10)), action(Release)]
        brief = action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 50), mode=READ, ttl_ns=short_ns)
        yield told(setting, {ALICE: [action(Acquire, mode=READ), *reads], BOB: [brief], CAROL: [asks, *his]})
    elif not setting.capacity.of_one:
        brief = action(Acquire, after(ttl_ns // 50), ttl_ns=short_ns)
        yield told(setting, {BOB: [brief], ALICE: [asks, *his], CAROL: [asks, *his]})
