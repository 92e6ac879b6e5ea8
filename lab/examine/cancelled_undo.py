"""Situations in which an acquire is cancelled while it undoes what it has set: as a time-out around it does.

Bob holds a majority, so that Alice is granted a minority and undoes that. No packet of hers is lost, and all
that she has set was answered before. Carol reaches neither of Bob's first nodes: a key that Alice left on the
last ones keeps the lock from her. In Alice's first course, which nobody cancels, it is seen when she undoes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from lab.examine.in_between import CAROL, SENDINGS_MAX, sent_ns, watched
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.scenario.triggers import at_start, on
from lab.search.faults import timed_fault
from lab.search.trial import Round, Trial

TTL_NS: Final = 10 * S_NS
"""Carol waits for most of it: for longer than a free lock may be refused."""
SLOWER_NS: Final = 15 * MS_NS
"""By so much each request of Alice's is slower, so that she is cancelled while one is under way."""


def cancelled_undo(setting: Setting) -> Iterator[Trial]:
    """One for each time that Alice sends something while she undoes; of a lock on several nodes."""
    setting = setting.with_ttl(TTL_NS)
    some = (setting.nodes - 1) // 2
    if not some:
        return
    alone = _trial(setting, some)
    seen = watched(replace(alone, demand_ns=0))
    asked = seen.of(ALICE, "acquire")[:1] if seen is not None else []
    if seen is None or not asked or asked[0].how not in ("fail", "info"):
        return
    called_ns, ended_ns = asked[0].called_ns, asked[0].ended_ns
    hers = [
        each for each in seen.requests if each.sent.client == ALICE and called_ns <= each.time_ns <= ended_ns
    ]
    wrote_ns = max((each.time_ns for each in hers if each.wrote()), default=0)
    undid_ns = max((each.sent.sent_ns for each in hers if each.deleted()), default=0)
    sent = [at_ns for at_ns in sent_ns(seen) if 0 < wrote_ns < at_ns <= undid_ns]
    for at_ns in sent[:SENDINGS_MAX]:
        yield _trial(setting, some, at_ns - called_ns + SLOWER_NS // 2)


def _trial(setting: Setting, some: int, cancel_ns: int = 0) -> Trial:
    ttl_ns, names = setting.ttl_ns, setting.names
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(ttl_ns // 10, 0, cancel_ns=cancel_ns),),
        BOB: (Round(0, ttl_ns * 15 // 100),),
        CAROL: (Round(ttl_ns // 4, ttl_ns // 50),),
    }
    faults = (
        timed_fault(Cut, at_start(), BOB, names[len(names) - some :]),
        timed_fault(Cut, at_start(), CAROL, names[:some]),
        timed_fault(Delay, on(ALICE, "acquire invoke"), ALICE, names, SLOWER_NS, ttl_ns // 10, "requests"),
    )
    return setting.with_clients(clients, faults)
