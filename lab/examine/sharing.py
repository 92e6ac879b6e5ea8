"""Situations in which two clients share the nodes between them, so that neither has a majority at first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from lab.examine.programs import ALICE, BOB, Setting, split
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.scenario.triggers import at_start
from lab.scenario.types import NODE_NAMES
from lab.search.faults import timed_fault
from lab.search.trial import Round, Trial

SPLITS: Final = ((1, 1), (2, 2), (2, 3), (3, 2))
MANY_TRIES: Final = {"retry_count": 20}
"""Options with which an acquire goes on for longer than a free lock may be refused, if no try succeeds."""


def shared(setting: Setting) -> Iterator[Trial]:
    """Both ask at once and share the nodes between them; one node is silent, or their number is even."""
    late_ns = setting.ttl_ns // 20
    for nodes, silent in ((setting.nodes, 1), (setting.nodes - 1, 0)):
        names, gone = NODE_NAMES[: nodes - silent], NODE_NAMES[nodes - silent : nodes]
        half = len(names) // 2
        faults = [
            *(timed_fault(Cut, at_start(), client, gone) for client in (ALICE, BOB) if gone),
            timed_fault(Delay, at_start(), ALICE, names[half:], late_ns, 2 * late_ns, "requests"),
            timed_fault(Delay, at_start(), BOB, names[:half], late_ns, 2 * late_ns, "requests"),
        ]
        turn = Round(0, setting.ttl_ns // 10)
        trial = setting.with_nodes(nodes).with_clients({ALICE: (turn,), BOB: (turn,)}, tuple(faults))
        yield trial
        if "retry_count" in setting.options:
            yield replace(trial, options={**trial.options, **MANY_TRIES})


def disjoint(setting: Setting) -> Iterator[Trial]:
    """Each client reaches some nodes only, and no node is reached by both."""
    for of_alice, of_bob in SPLITS:
        if of_alice + of_bob <= setting.nodes:
            yield split(setting, of_alice, of_bob)


def apart_at_open(setting: Setting) -> Iterator[Trial]:
    """The same while they open their locks: the other nodes refuse connections, or are silent."""
    of_alice, of_bob = SPLITS[1]
    if of_alice + of_bob <= setting.nodes:
        for refused in (True, False):
            yield split(setting, of_alice, of_bob, at_open=True, refused=refused)
