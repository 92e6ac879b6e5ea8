"""Situations in which replies come late, but in time: within what the lock waits for a node.

What a lease is counted from shows only then: from the call, from the first reply, or from the last. Alice has
had the lock once before, so that no reply is late that only makes a connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.examine.anchored import hurt, write
from lab.examine.directed import told
from lab.examine.probes import Profile
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.scenario.steps import Acquire, Extend, Read, Release
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger, after, on
from lab.search.as_tracks import action
from lab.search.faults import timed_fault
from lab.search.trial import Trial

SHORTEST_NS: Final = 70 * MS_NS
"""Time-outs for a node that are shorter than this would make for leases below 100 ms."""
SECOND: Final = on(ALICE, "acquire invoke", 2)


def slow_replies(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """Each reply comes just in time: all together when the lease is over, of nodes asked one after the other.

    Of nodes asked at once, when half of the lease is over. How long a lock waits for a node its profile says.
    """
    if not profile.kind.sequential:
        yield from (_half_is_over(setting, wait_ns) for wait_ns in _waits_ns(profile))
        return
    wait_ns = profile.waits_ns
    if not SHORTEST_NS <= wait_ns <= S_NS:
        return
    ttl_ns = wait_ns * (setting.nodes + 2) // 2 // MS_NS * MS_NS  # a majority is asked before it is over
    turn = _turn(after(ttl_ns), ttl_ns // 5)
    hers = [*_turn(after(ttl_ns), ttl_ns // 5, extends=profile.extends), *turn]
    his = _turn(_later(ttl_ns * 3 // 2), ttl_ns // 2)
    for call in (on(ALICE, "extend invoke"), SECOND) if profile.extends else (SECOND,):
        slow = timed_fault(Delay, call, ALICE, setting.names, wait_ns * 9 // 10, direction="replies")
        yield _after_a_turn(setting.with_ttl(ttl_ns), hers, his, slow)
    yield from _first_is_slow(setting, wait_ns)


def _waits_ns(profile: Profile) -> list[int]:
    """How long a lock that asks nodes at once may wait for one of them.

    One that goes on without the last node shows only when it gives up; it may then have waited twice, the
    second time while it undid what it had set.
    """
    try_ns = (profile.gives_up_ns or 0) // (profile.tries or 1)
    found = [profile.waits_ns] if profile.waits_ns >= SHORTEST_NS else [try_ns, try_ns // 2]
    # One that waits for longer, or for ever, waits for so long as well.
    return list(dict.fromkeys(min(wait_ns, S_NS) for wait_ns in found if wait_ns >= SHORTEST_NS))


def _first_is_slow(setting: Setting, wait_ns: int) -> Iterator[Trial]:
    """Only the reply of one node is slow, and a minority is silent, so that the slow one's vote decides.

    A lease that is counted from the first reply is believed in when that node has forgotten it. Bob asks
    then, and has worked before Alice writes.
    """
    names = setting.names
    silent = names[len(names) - (len(names) - 1) // 2 :]
    ttl_ns = 12 * wait_ns // MS_NS * MS_NS
    late_ns = wait_ns * 9 // 10
    granted_ns = late_ns + wait_ns * len(silent)
    hers = _turn(after(ttl_ns), ttl_ns + wait_ns // 2 - granted_ns)
    his = _turn(_later(ttl_ns + wait_ns * 3 // 20), wait_ns // 10)
    for slow, lost in ((names[:1], silent), (names[-1:], names[: len(silent)])):
        delay = timed_fault(Delay, SECOND, ALICE, slow, late_ns, direction="replies")
        cut = timed_fault(Cut, SECOND, ALICE, lost)
        yield _after_a_turn(setting.with_ttl(ttl_ns), hers, his, delay, cut)


def _half_is_over(setting: Setting, wait_ns: int) -> Trial:
    """Alice learns late that she has the lock, and works for most of a lease; Bob asks when that is over."""
    ttl_ns = wait_ns * 2 // MS_NS * MS_NS
    slow = timed_fault(Delay, SECOND, ALICE, setting.names, wait_ns * 9 // 10, direction="replies")
    hers, his = _turn(after(ttl_ns), ttl_ns * 8 // 10), _turn(_later(ttl_ns * 21 // 20), ttl_ns // 2)
    return _after_a_turn(setting.with_ttl(ttl_ns), hers, his, slow)


def _later(after_ns: int) -> Trigger:
    return SECOND.model_copy(update={"after_ns": after_ns})


def _turn(at: Trigger | None, hold_ns: int, *, extends: bool = False) -> list[Timed]:
    part_ns = hold_ns // (1 + extends)
    extension = [action(Extend, after(part_ns))] if extends else []
    return [action(Acquire, at), action(Read), *extension, *write(part_ns)[1:], action(Release)]


def _after_a_turn(setting: Setting, hers: list[Timed], his: list[Timed], *faults: Timed) -> Trial:
    tracks = {ALICE: [action(Acquire), action(Release), *hers], BOB: his}
    return hurt(told(setting, tracks), *faults)
