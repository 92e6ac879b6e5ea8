"""Situations in which replies come late, but in time: within what the lock waits for a node.

What a lease is counted from shows only then: from the call, from the first reply, or from the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.examine.probes import Profile
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.trial import Round, Trial

SHORTEST_NS: Final = 70 * MS_NS
"""Time-outs for a node that are shorter than this would make for leases below 100 ms."""


def slow_replies(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """Each reply comes just in time: all together when the lease is over, of nodes asked one after the other.

    Of nodes asked at once, when half of the lease is over. How long a lock waits for a node its profile says.
    """
    at_once = not profile.kind.sequential
    wait_ns = max(profile.waits_ns, at_once * (profile.gives_up_ns or 0) // (profile.tries or 1))
    if not SHORTEST_NS <= wait_ns <= S_NS:
        return
    if at_once:
        yield _half_is_over(setting, wait_ns)
        return
    ttl_ns = wait_ns * (setting.nodes + 2) // 2 // MS_NS * MS_NS  # a majority is asked before it is over
    short = setting.with_ttl(ttl_ns)
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns // 5, int(profile.extends)), Round(ttl_ns, ttl_ns // 5)),
        BOB: (Round(ttl_ns * 3 // 2, ttl_ns // 2),),
    }
    calls = ("extend invoke", "acquire invoke") if profile.extends else ("acquire invoke",)
    for call in calls:
        late_ns = wait_ns * 9 // 10
        slow = timed_fault(Delay, on(ALICE, call), ALICE, setting.names, late_ns, direction="replies")
        yield short.with_clients(clients, (slow,))
    yield from _first_is_slow(setting, wait_ns)


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
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns + wait_ns // 2 - granted_ns),),
        BOB: (Round(ttl_ns + wait_ns * 3 // 20, wait_ns // 10),),
    }
    for slow, lost in ((names[:1], silent), (names[-1:], names[: len(silent)])):
        delay = timed_fault(Delay, on(ALICE, "acquire invoke"), ALICE, slow, late_ns, direction="replies")
        cut = timed_fault(Cut, on(ALICE, "acquire invoke"), ALICE, lost)
        yield setting.with_ttl(ttl_ns).with_clients(clients, (delay, cut))


def _half_is_over(setting: Setting, wait_ns: int) -> Trial:
    """Alice learns late that she has the lock, and works for most of a lease; Bob asks when that is over."""
    ttl_ns = wait_ns * 2 // MS_NS * MS_NS
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns * 8 // 10),),
        BOB: (Round(ttl_ns * 21 // 20, ttl_ns // 2),),
    }
    slow = timed_fault(
        Delay, on(ALICE, "acquire invoke"), ALICE, setting.names, wait_ns * 9 // 10, direction="replies"
    )
    return setting.with_ttl(ttl_ns).with_clients(clients, (slow,))
