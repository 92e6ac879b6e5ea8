"""When could a client have been served? Told from the faults, their targets and their healings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Final

from checker.history.events import LAB
from checker.history.evidence import PAUSES, Evidence, Interval, derived, is_kill
from checker.history.history import Fault
from checker.history.operations import NEVER, NONE

CLOCK_FAULTS: Final = frozenset(("jump", "drift", "strobe", "jump-client", "drift-client"))
"""Faults that stop nobody from answering."""
MOMENTARY: Final = frozenset(("restart", "failover", "promote"))
"""Faults that are over as soon as they are confirmed."""


class Answers(dict[str, list[Interval]]):
    """What was found out by client, each once; `functools.cache` takes longer to make than to answer."""

    def __init__(self, found_out: Callable[[str], list[Interval]]) -> None:
        self._found_out = found_out

    def __missing__(self, client: str) -> list[Interval]:
        self[client] = self._found_out(client)
        return self[client]


class Availability:
    """Per client: the times in which a majority of the nodes was up, reachable and undisturbed."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.start_ns, self.end_ns = evidence.history.start_ns, evidence.history.end_ns
        self.served = Answers(self._served).__getitem__
        self.still = Answers(self._still).__getitem__
        self.dead = Answers(self._dead).__getitem__

    def _dead(self, client: str) -> list[Interval]:
        """From each killing of the client until it was started again, or did something again."""
        ops = self._evidence.ops
        dead = []
        restarted = {
            fault.start_ns: fault.until_ns
            for fault in self._evidence.history.faults
            if fault.heals is None and client in fault.targets
        }
        called_ns = ops.call_ns[ops.client == self._code(client)]
        for code, killed_ns in self._evidence.killed:
            if code == self._code(client):
                again = int(called_ns[called_ns > killed_ns].min(initial=NEVER))
                dead.append(Interval(killed_ns, min(restarted.get(killed_ns, NEVER), again)))
        return sorted(dead, key=lambda i: i.start_ns)

    def _code(self, client: str) -> int:
        names = self._evidence.ops.names.client
        return next((code for code, name in enumerate(names) if name == client), NONE)

    def death_after(self, client: str, time_ns: int) -> int:
        """When the client was killed next, `NEVER` if it was not."""
        return min((i.start_ns for i in self.dead(client) if i.start_ns >= time_ns), default=NEVER)

    def _still(self, client: str) -> list[Interval]:
        """When the client, or the lab, stood still: disjoint, ascending."""
        return merged(self._evidence.standstills((client, LAB)))

    def _served(self, client: str) -> list[Interval]:
        """When a majority was up for this client, which was alive; disjoint, ascending."""
        troubles = [(f, self._troubled(f, client)) for f in self._evidence.history.faults]
        active = [(f, nodes) for f, nodes in troubles if nodes]
        dead = self.dead(client)
        cuts = {self.start_ns, self.end_ns, *(t for f, _ in active for t in self._span(f))}
        cuts |= {t for i in dead for t in (i.start_ns, i.end_ns)}
        up = []
        for start, end in pairwise(sorted(t for t in cuts if self.start_ns <= t <= self.end_ns)):
            if covers(start, end, dead):
                continue
            down: set[str] = set()
            for fault, nodes in active:
                begin, over = self._span(fault)
                if begin <= start and end <= over:
                    down |= nodes
            if self._majority_without(down):
                up.append(Interval(start, end))
        return merged(up)

    def _span(self, fault: Fault) -> tuple[int, int]:
        over = fault.until_ns
        if over >= NEVER and fault.f in MOMENTARY and fault.confirmed:
            over = fault.receipt_ns
        return fault.start_ns, min(over, self.end_ns)

    def _troubled(self, fault: Fault, client: str) -> set[str]:
        """The nodes that this fault keeps from serving the client."""
        quiet = (
            fault.heals is not None or fault.f in CLOCK_FAULTS or ("client" in fault.f and is_kill(fault.f))
        )
        if quiet:
            return set()
        clients = self._evidence.client_names & set(fault.targets)
        nodes = set(fault.targets) - self._evidence.client_names - {"store"}
        if clients and client not in clients:
            return set()
        if fault.f in PAUSES and not nodes:
            return set()
        return nodes or ({"?"} if not fault.targets else set())

    def _majority_without(self, down: set[str]) -> bool:
        params = self._evidence.params
        majority = params.majority()
        if not down:
            return True
        if params.nodes is None or majority is None or "?" in down:
            return False
        return params.nodes - len(down) >= majority


@derived
def availability_of(evidence: Evidence) -> Availability:
    """When each client of a history could have been served."""
    return Availability(evidence)


def merged(intervals: Iterable[Interval], gap_ns: int = 0) -> list[Interval]:
    """The union of intervals, ascending and disjoint; those at most `gap_ns` apart become one."""
    union: list[Interval] = []
    for interval in sorted(intervals, key=lambda i: i.start_ns):
        if union and interval.start_ns <= union[-1].end_ns + gap_ns:
            last = union[-1]
            union[-1] = Interval(last.start_ns, max(last.end_ns, interval.end_ns))
        else:
            union.append(interval)
    return union


def within(start_ns: int, end_ns: int, intervals: list[Interval]) -> list[Interval]:
    """The parts of [start, end] inside the intervals."""
    return [
        Interval(max(start_ns, i.start_ns), min(end_ns, i.end_ns))
        for i in intervals
        if i.start_ns < end_ns and start_ns < i.end_ns
    ]


def covers(start_ns: int, end_ns: int, intervals: list[Interval]) -> bool:
    """Whether one of the disjoint intervals holds all of [start, end]."""
    return any(i.start_ns <= start_ns and end_ns <= i.end_ns for i in intervals)


def total(intervals: Iterable[Interval]) -> int:
    """The summed length."""
    return sum(i.end_ns - i.start_ns for i in intervals)
