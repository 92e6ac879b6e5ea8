"""A situation in which two extensions of one lease each miss another minority of the nodes.

Both find a majority, and only the nodes in the middle get both. An extension that sets what a key has left is
right on all that got the second one; one that adds to it counts on what some of these had missed.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.examine.programs import ALICE, BOB, Setting
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.trial import Round, Trial


def crossing_extensions(setting: Setting) -> Iterator[Trial]:
    """Alice extends twice, and Bob asks when a key is over that missed one; she may count on hers still.

    She extends after 0.3 leases and after 0.6, so that her lease lasts for 1.6 in all; a key to which one of
    these was not added is over after 1.3. The nodes refuse her connections, or are down, and are back before
    they are asked again: packets that are lost would keep a connection silent for longer.
    """
    ttl_ns, names = setting.ttl_ns, setting.names
    some = (len(names) - 1) // 2
    if not some:
        return
    clients = {
        ALICE: (Round(0, ttl_ns * 9 // 10, 2, "keep"),),
        BOB: (Round(ttl_ns * 14 // 10, ttl_ns // 10),),
    }
    away_ns = ttl_ns // 10
    missed = (names[len(names) - some :], names[:some])
    moments = [(on(ALICE, "extend invoke", nth), nodes) for nth, nodes in enumerate(missed, 1)]
    refused = (
        timed_fault(Cut, when, ALICE, nodes, lasts_ns=away_ns, refused=True) for when, nodes in moments
    )
    yield setting.with_clients(clients, tuple(refused), demand=False)
    down = (timed_fault(Crash, when, nodes=(n,), lasts_ns=away_ns) for when, nodes in moments for n in nodes)
    yield setting.with_clients(clients, tuple(down), demand=False)
