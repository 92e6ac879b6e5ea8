"""Where a fault goes, beside the operations that it hits on their way.

A trial's fault may strike between a call and its completion, even between two messages. In a scenario it
comes before the operation, if it struck before anything reached what it hits; else after the call, once the
nodes have executed what they had executed by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from lab.faults.client_crash import ClientCrash
from lab.faults.cut import Cut
from lab.faults.down import DownFault
from lab.faults.hold import Hold
from lab.faults.links import ConnectionsFault
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.scenario.anchors import NOT_SEEN
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger
from lab.search.faults import CALLS, client_of, is_a, nodes_of, timed_fault
from lab.search.runner import Event, Outcome
from lab.search.trial import KEY
from lab.substrates.sim.clock import MONOTONIC_START_NS

NEARLY_NS: Final = 20_000_000
"""What another client's links suffer so soon after a call can as well have happened before it."""
SENT_WITHIN_NS: Final = 50_000_000
"""By then a client has sent what it was started on, and has not given up."""
TELLING: Final = ("SET", "PEXPIRE")
"""Commands by which a scenario tells best how far an operation was, the later one last."""


@dataclass
class Operation:
    """One operation of one client, with what it sent and what nodes executed of it."""

    client: str
    f: str
    call: Event
    end: Event | None = None
    sent: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """When it sent something, by the history's clock, and to which nodes."""
    executed: list[tuple[int, str, str]] = field(default_factory=list)
    """When which node executed which command on the lock's key."""

    @property
    def call_ns(self) -> int:
        """When it was called."""
        return int(self.call["time_ns"])

    def reached(self, nodes: tuple[str, ...], time_ns: int) -> bool:
        """Whether it had sent anything to one of these nodes before this moment."""
        return any(at < time_ns and not set(nodes).isdisjoint(to) for at, to in self.sent)

    def was_executed(self, nodes: tuple[str, ...], time_ns: int) -> bool:
        """Whether one of these nodes had executed anything of it by this moment."""
        return any(at <= time_ns and node in nodes for at, node, _ in self.executed)

    def seen_by(self, time_ns: int) -> tuple[str, tuple[str, ...]] | None:
        """The command by which a scenario sees how far it was, and the nodes that had executed that."""
        by_then = [name for at, _, name in self.executed if at <= time_ns and name not in NOT_SEEN]
        for command in (*reversed(TELLING), *by_then[-1:]):
            nodes = {node for at, node, name in self.executed if at <= time_ns and name == command}
            if nodes:
                return command, tuple(sorted(nodes))
        return None


@dataclass
class Placed:
    """An event of the history in its place; of the nemesis: with its fault, and whether that begins."""

    event: Event
    fault: Timed | None = None
    begins: bool = False
    since: Operation | None = None
    """The operation that is under way when a fault strikes, if how far it is matters."""
    seen_ns: int = 0
    """By when nodes had executed what is waited for, of that operation."""
    waits_ns: int = 0
    """How long it waits at least, so that what was called has been sent."""


def operations_of(outcome: Outcome, events: list[Event]) -> dict[int, Operation]:
    """The operations whose call is among these events, by the identity of their calls and completions."""
    found: dict[int, Operation] = {}
    under_way: dict[str, Operation] = {}
    for event in events:
        if "client" not in event:
            continue
        if event["type"] == "invoke":
            operation = Operation(event["client"], event["f"], event)
            under_way[event["process"]] = operation
        else:
            operation = under_way.pop(event["process"])
            operation.end = event
        found[id(event)] = operation
    for operation in {id(each): each for each in found.values()}.values():
        _note_messages(outcome, operation)
    return found


def _note_messages(outcome: Outcome, operation: Operation) -> None:
    end_ns = operation.end["time_ns"] if operation.end else 1 << 62
    sendings = outcome.sendings[operation.client]
    for at, to in zip(sendings.times_ns, sendings.targets, strict=True):
        time_ns = at + MONOTONIC_START_NS
        if operation.call_ns <= time_ns < end_ns:
            operation.sent.append((time_ns, tuple(to)))
    for each in outcome.commands:
        ours = each.client == operation.client and len(each.words) > 1 and KEY in each.words[1]
        if ours and operation.call_ns <= each.time_ns < end_ns:
            operation.executed.append((each.time_ns, each.node, each.name))


def placed(outcome: Outcome, events: list[Event], operations: dict[int, Operation]) -> list[Placed]:
    """The events in the order of the steps; faults that did not take effect are left out."""
    faults = {f"f{at}": fault for at, fault in enumerate(outcome.struck, start=1)}
    failed = {
        event["fault_id"] for event in events if event["process"] == "nemesis" and event["type"] == "fail"
    }
    ordered: list[Placed] = []
    under_way: list[Operation] = []
    stand_still: dict[str, Timed] = {}
    for event in _as_calls_begin(events, faults):
        if event["process"] != "nemesis":
            operation = operations[id(event)]
            (under_way.append if event is operation.call else under_way.remove)(operation)
            ordered.append(Placed(event))
            continue
        begun = event.get("heals") or event["fault_id"]
        passes = is_a(faults[begun], Reset) and "heals" in event
        if event["type"] != "invoke" or passes or {begun, event["fault_id"]} & failed:
            continue
        each = Placed(event, faults[begun], "heals" not in event)
        _put(each, ordered, under_way, stand_still, outcome)
    return ordered


def _as_calls_begin(events: list[Event], faults: dict[str, Timed]) -> list[Event]:
    """The events, where what strikes at a call comes after it: it strikes before anything has been sent."""
    found: list[Event] = []
    held: list[tuple[str, Event]] = []
    for event in events:
        if held and held[0][1]["time_ns"] != event["time_ns"]:  # its call is not among these events
            found += [late for _, late in held]
            held = []
        fault = faults.get(event.get("fault_id", ""))
        at = fault.at if fault is not None and not event.get("heals") else None
        if at is not None and (at.operation, at.outcome) in CALLS and not at.after_ns:
            held.append((at.track or "", event))
            continue
        found.append(event)
        if event["type"] == "invoke" and "client" in event:
            found += [late for client, late in held if client == event["client"]]
            held = [each for each in held if each[0] != event["client"]]
    return found + [late for _, late in held]


def _put(
    each: Placed,
    ordered: list[Placed],
    under_way: list[Operation],
    stand_still: dict[str, Timed],
    outcome: Outcome,
) -> None:
    fault, time_ns = each.fault, each.event["time_ns"]
    assert fault is not None
    each.fault = stand_still.get(each.event.get("heals", ""), fault)
    own = (
        [operation for operation in under_way if operation.client == client_of(fault)] if each.begins else []
    )
    if own and is_a(fault, Reset):
        _put_reset(each, fault, own[-1], ordered)
        return
    if own and not nodes_of(fault):
        apart = tuple(name for name in outcome.trial.node_names if not own[-1].reached((name,), time_ns))
        if is_a(fault, Pause) and apart:
            hold = timed_fault(Hold, _at(fault), client_of(fault), apart, 0, fault.lasts_ns, "requests")
            stand_still[each.event["fault_id"]] = each.fault = hold
            ordered.insert(_place_of(own, ordered), each)
            return
        if time_ns - own[-1].call_ns <= NEARLY_NS and not (
            is_a(fault, ClientCrash) and len(apart) == outcome.trial.nodes
        ):
            _put_between(each, fault, own[-1], ordered, outcome.trial.node_names, apart)
            return
    ahead = [operation for operation in under_way if _goes_before(each, fault, operation)]
    if ahead:
        ordered.insert(_place_of(ahead, ordered), each)
        return
    if each.begins and under_way:
        each.since, each.seen_ns = under_way[-1], time_ns
    ordered.append(each)


def _put_between(
    each: Placed,
    fault: Timed,
    operation: Operation,
    ordered: list[Placed],
    nodes: tuple[str, ...],
    apart: tuple[str, ...],
) -> None:
    """What struck a client between two messages strikes it while the network holds the next ones.

    ``apart`` are the nodes to which it had sent nothing yet.
    """
    if apart and len(apart) < len(nodes):
        hold = timed_fault(Hold, _at(fault), client_of(fault), apart, direction="requests")
        each.seen_ns = each.event["time_ns"]
    else:
        hold = timed_fault(Hold, _at(fault), client_of(fault), nodes, direction="replies")
        each.seen_ns = operation.end["time_ns"] if operation.end else each.event["time_ns"]
    each.since = operation
    event = {**each.event, "time_ns": operation.call_ns}
    ordered.insert(_place_of([operation], ordered), Placed(event, hold, begins=True))
    ordered += [each, Placed(each.event, hold)]


def _place_of(ahead: list[Operation], ordered: list[Placed]) -> int:
    """Where the first of these operations is called."""
    return min(at for at, other in enumerate(ordered) if any(other.event is one.call for one in ahead))


def _put_reset(each: Placed, fault: Timed, operation: Operation, ordered: list[Placed]) -> None:
    """What is under way when connections break is lost, and they end: so they do when a cut is healed."""
    executed = operation.was_executed(nodes_of(fault), each.event["time_ns"])
    direction: Literal["requests", "replies"] = "replies" if executed else "requests"
    cut = timed_fault(Cut, _at(fault), client_of(fault), nodes_of(fault), direction=direction)
    event = {**each.event, "time_ns": operation.call_ns}
    ordered.insert(_place_of([operation], ordered), Placed(event, cut, begins=True))
    ordered.append(Placed(each.event, cut, waits_ns=SENT_WITHIN_NS))


def _goes_before(each: Placed, fault: Timed, operation: Operation) -> bool:
    """Whether a fault goes ahead of an operation on whose way it struck."""
    time_ns = each.event["time_ns"]
    if not each.begins:
        return False
    if is_a(fault, DownFault) or (nodes_of(fault) and not is_a(fault, ConnectionsFault)):
        return not operation.was_executed(nodes_of(fault), time_ns)
    if client_of(fault) != operation.client:
        return bool(time_ns - operation.call_ns <= NEARLY_NS)
    if nodes_of(fault):
        return not operation.reached(nodes_of(fault), time_ns)
    if is_a(fault, Pause, ClientCrash):
        return not any(at < time_ns for at, _ in operation.sent)
    return bool(time_ns == operation.call_ns and not operation.sent)


def _at(fault: Timed) -> Trigger:
    assert fault.at is not None
    return fault.at
