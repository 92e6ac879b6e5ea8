"""Taking the luck out of a trial that violates now and then: let each grant come from one majority only.

Where all nodes can be reached, the first majority that answers grants a lock, and which that is changes with
the latencies. A cut of a minority while a client asks leaves one majority, whatever the latencies are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from lab.faults.cut import Cut
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.trial import Trial

PINS_MAX: Final = 3
"""How many grants are pinned at most."""
PIN_NS: Final = 100_000_000
"""How long each of these cuts lasts: longer than an answer takes."""


def pinned(trial: Trial, score: Callable[[Trial, int], int], most: int) -> Trial | None:
    """The trial with cuts that make it violate always; None if there are none that do.

    Args:
        trial: what violates now and then.
        score: in how many variants, of ``most``, a trial violates; it may stop counting once it can't reach
            the given number any more.
        most: how many variants there are.
    """
    best = score(trial, 0)
    for _ in range(PINS_MAX):
        for candidate in _with_a_pin(trial):
            reached = score(candidate, best + 1)
            if reached > best:
                trial, best = candidate, reached
                break
        else:
            return None
        if best == most:
            return trial
    return None


def _with_a_pin(trial: Trial) -> Iterator[Trial]:
    """The trial with one grant pinned to one majority: of each client, in each round, the last one first."""
    minority = (trial.nodes - 1) // 2
    for client, rounds in trial.clients.items():
        for nth in range(len(rounds), 0, -1):
            for nodes in combinations(trial.node_names, minority) if minority else ():
                pin = timed_fault(Cut, on(client, "acquire invoke", nth), client, nodes, lasts_ns=PIN_NS)
                yield replace(trial, faults=(*trial.faults, pin))
