"""Rounds and faults as tracks: the short form in which trials are drawn, in the language that is played.

A round is an acquire and what follows it, a fault an action of a track of its own. Nothing is left out or
guessed: equal trials have equal tracks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final, cast

from msgspec.structs import replace
from pydantic_core import PydanticCustomError

from lab.durations import UNITS_NS
from lab.faults.base import Fault as FaultStep
from lab.faults.clock import ClockFault
from lab.faults.down import DownFault
from lab.faults.machine import MachineStep
from lab.faults.pause import Pause
from lab.run.tracks import PAUSE_NS
from lab.scenario.problems import Loc
from lab.scenario.registry import fault_steps
from lab.scenario.steps import Acquire, Check, Extend, Operation, Read, Release, Write
from lab.scenario.tracks import Timed, misfits
from lab.scenario.triggers import SENDS, START, Trigger
from lab.search.trial import Fault, Kind, Moment, Round, Track, Trial, When

DEMAND_HOLD_NS: Final = 20 * UNITS_NS["ms"]
"""How long it keeps the lock then: longer than stamps are uncertain."""
OTHER_TRIES: Final = 5
"""How often a client asks for the other lock: for longer than a free lock may be refused."""
EVENTS: Final[dict[Moment, tuple[str, str]]] = {
    "asks": (Acquire.KEY, "invoke"),
    "granted": (Acquire.KEY, "ok"),
    "before-write": (Write.KEY, "invoke"),
    "releases": (Release.KEY, "invoke"),
    "extends": (Extend.KEY, "invoke"),
    "sends": (SENDS, "invoke"),
}
"""Moments as events of a client's track: an action and an outcome."""
IN_A_CALL: Final[tuple[Moment, ...]] = ("asks", "granted", "releases", "extends")
"""Where a client that is paused has done what it does in that instant: it has sent its requests."""


def tracks_of(trial: Trial) -> dict[str, Track]:
    """The tracks of a trial: its own, and what its rounds and faults say."""
    found: dict[str, Track] = {
        f"fault-{at}": (timed_fault(fault),) for at, fault in enumerate(in_machines(trial.faults))
    }
    for client, rounds in trial.clients.items():
        actions: list[Timed] = []
        kept = client in trial.tracks
        for each in rounds:
            actions += _of_round(each, trial.other_key, kept)
            kept = kept or each.ends == "keep"
        actions += trial.tracks.get(client, ())
        if trial.demand_ns:
            actions += _of_demand(trial.demand_ns, kept)
        if actions:
            found[client] = tuple(actions)
    return found | {track: own for track, own in trial.tracks.items() if track not in trial.clients}


def unfit(trial: Trial) -> Iterator[tuple[Loc, PydanticCustomError]]:
    """What the trial's own tracks name, or wait for, and is not there: where, and why not.

    A fault of the short form may wait for what does not come.
    """
    for loc, error, _ in misfits(tracks_of(trial), tuple(trial.clients), trial.node_names):
        if loc[0] in trial.tracks:
            yield loc, error


def in_machines(faults: tuple[Fault, ...]) -> Iterator[Fault]:
    """The faults, those of several nodes or clocks as one for each."""
    for fault in faults:
        yield from by_machine(fault)


@functools.lru_cache(maxsize=4096)
def _of_round(each: Round, other_key: str, kept: bool) -> tuple[Timed, ...]:
    """The actions of a round; ``kept``: whether an older lease may be held still."""

    def of_lease(step: type[Operation], at: Trigger | None = None, **fields: Any) -> Timed:
        return action(step, at, if_granted=kept, **fields)

    part_ns = each.hold_ns // (each.extends + 1 + each.other)
    later = after(part_ns)
    found = [
        action(
            Acquire,
            after(each.think_ns),
            ttl_ns=each.ttl_ns or None,
            cancel=after(each.cancel_ns) if each.cancel_ns else None,
        ),
        of_lease(Read),
    ]
    if each.other:
        insist_ns = (OTHER_TRIES - 1) * PAUSE_NS
        found += [
            action(Acquire, later, key=other_key, insist_ns=insist_ns, if_granted=True),
            action(Release, later, key=other_key),
        ]
    extend_ttl_ns = each.extend_ttl_ns or each.ttl_ns or None
    for at in range(each.extends):
        at_once = at == 0 and each.other
        found.append(of_lease(Extend, None if at_once else later, ttl_ns=extend_ttl_ns))
    at_once = each.other and not each.extends
    computed = None if at_once else later
    if each.checks:
        found.append(of_lease(Check, computed))
    found.append(of_lease(Write, None if each.checks else computed, if_checked=each.checks))
    if each.ends != "keep":
        found.append(of_lease(Release))
    if each.ends == "twice":
        found.append(action(Release, again=True, if_granted=True))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _of_demand(demand_ns: int, kept: bool) -> tuple[Timed, ...]:
    """Ask for the lock until it was granted once; work for a moment, and give it back."""
    return (
        action(Acquire, insist_ns=demand_ns),
        action(Read, if_granted=kept),
        action(Check, after(DEMAND_HOLD_NS), if_granted=kept),
        action(Write, if_checked=True, if_granted=kept),
        action(Release, if_granted=kept),
    )


def action(step: type[Operation], at: Trigger | None = None, **fields: Any) -> Timed:
    """An operation with its trigger; its other fields are as by default."""
    usual = {name: info.default for name, info in step.model_fields.items()}
    return Timed.model_construct(step=step.model_construct(**usual | fields), at=at, until=None)


def after(duration_ns: int) -> Trigger | None:
    """So long after the default event; None: at once."""
    return _trigger(after_ns=duration_ns) if duration_ns else None


def _trigger(**fields: Any) -> Trigger:
    usual = {name: info.default for name, info in Trigger.model_fields.items()}
    return Trigger.model_construct(**usual | fields)


@functools.lru_cache(maxsize=4096)
def timed_fault(fault: Fault) -> Timed:
    """A fault of a trial as an action."""
    until = after(fault.lasts_ns) if fault.lasts and fault.lasts_ns else None
    when = fault.when
    if fault.is_a(Pause) and fault.client == when.client and when.moment in IN_A_CALL and not when.after_ns:
        when = replace(when, after_ns=1)
    return Timed.model_construct(step=step_of(fault), at=trigger_of(when), until=until)


def trigger_of(when: When) -> Trigger:
    """When, as a trigger; before the start its time is less than 0."""
    if when.moment == "start":
        return _trigger(track=START, after_ns=when.after_ns)
    operation, outcome = EVENTS[when.moment]
    return _trigger(
        track=when.client, operation=operation, outcome=outcome, nth=when.nth, after_ns=when.after_ns
    )


@functools.lru_cache(maxsize=1024)
def step_of(fault: Fault) -> FaultStep:
    """The step of a scenario that injects this fault."""
    step = cast(type[FaultStep], fault_steps()[fault.kind])
    of_machine = fault.is_a(MachineStep)
    given: dict[str, Any] = {
        "client": (fault.client or None) if of_machine else fault.client,
        "node": fault.nodes[0] if of_machine and not fault.client else None,
        "nodes": fault.nodes,
        "direction": fault.direction,
        "by_ns": fault.by_ns,
        "ppm": fault.ppm,
        "mode": "refused" if fault.refused else "blackhole",
    }
    return step.model_construct(**{name: value for name, value in given.items() if name in step.model_fields})


def by_machine(fault: Fault) -> tuple[Fault, ...]:
    """A fault of several nodes, or of their clocks, as one for each; any other as it is.

    Each node has a receipt of its own, and comes back by itself.
    """
    if not fault.is_a(DownFault, ClockFault) or len(fault.nodes) <= 1:
        return (fault,)
    return tuple(replace(fault, nodes=(node,)) for node in fault.nodes)


def every_fault(trial: Trial) -> tuple[Fault, ...]:
    """The faults of a trial, also those of its tracks; of one whose end waits for an event none is known."""
    found = list(trial.faults)
    for timed in (one for track in trial.tracks.values() for one in track):
        if isinstance(timed.step, FaultStep):
            fault = fault_of(timed.step, trial.node_names)
            ends = timed.until is not None and timed.until.default
            found.append(replace(fault, lasts_ns=timed.until.after_ns) if ends and timed.until else fault)
    return tuple(found)


def fault_of(step: FaultStep, nodes: tuple[str, ...]) -> Fault:
    """A fault that a trial's track says, in the words of a trial; it does not say when.

    ``nodes`` are those of the trial.
    """
    client, given = getattr(step, "client", None) or "", step.__dict__
    node, named = given.get("node"), given.get("nodes")
    return Fault(
        cast(Kind, step.KEY),
        When(),
        client,
        (node,) if node is not None else nodes if named == "all" else tuple(named or ()),
        by_ns=given.get("by_ns", 0),
        direction=given.get("direction", "both"),
        ppm=given.get("ppm", 0),
        refused=given.get("mode") == "refused",
    )
