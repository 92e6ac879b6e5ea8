"""A schedule in words: what clients do, and the faults as steps of a scenario."""

from __future__ import annotations

from typing import Final

from lab.durations import format_duration
from lab.faults.clock import ClockFault
from lab.search.as_tracks import by_machine, step_of
from lab.search.trial import Fault, Moment, Round, Trial, When

MOMENTS: Final[dict[Moment, str]] = {
    "asks": "calls acquire",
    "granted": "is granted the lock",
    "before-write": "is about to write",
    "releases": "calls release",
    "extends": "calls extend",
    "sends": "is about to send to nodes",
}
AS_USUAL: Final = {"jitter": "0s", "mode": "blackhole", "direction": "both"}
"""Fields of a fault's step that are not shown if they have these values."""
ENDS: Final = {
    "release": "releases",
    "keep": "keeps the lock until it expires",
    "twice": "releases twice",
}


def describe(schedule: Trial) -> str:
    """A schedule in plain words, several lines: the cluster, what each client does, each fault."""
    options = ", ".join(f"{name} {value}" for name, value in schedule.options.items())
    about = [
        f"{schedule.lock} on {schedule.nodes} nodes",
        f"TTL {format_duration(schedule.ttl_ns)}",
        *([f"options {options}"] if options else []),
        *([f"persistence {schedule.persistence}"] if schedule.persistence != "aof-always" else []),
        *(["the store checks fencing tokens"] if schedule.store_fences else []),
        f"seed {schedule.seed}",
    ]
    lines = [", ".join(about)]
    for client, rounds in schedule.clients.items():
        lines.append(f"  {client}: {'; then '.join(map(_round, rounds))}")
    if schedule.demand_ns:
        lines.append("  after that each client asks again until it is granted the lock once")
    lines += [f"  fault: {fault_words(fault)}" for fault in schedule.faults]
    return "\n".join(lines)


def _round(each: Round) -> str:
    extends = {0: "", 1: ", extending it once", 2: ", extending it twice"}
    said = [
        *([f"waits {format_duration(each.think_ns)}"] if each.think_ns else []),
        *([f"asks for {format_duration(each.ttl_ns)}"] if each.ttl_ns else []),
        *([f"gives up after {format_duration(each.cancel_ns)}"] if each.cancel_ns else []),
        f"holds the lock for {format_duration(each.hold_ns)}"
        f"{extends.get(each.extends, f', extending it {each.extends} times')}"
        f"{f' for {format_duration(each.extend_ttl_ns)}' if each.extends and each.extend_ttl_ns else ''}",
        *([] if each.checks else ["writes without asking whether it still holds it"]),
        ENDS[each.ends],
    ]
    return ", ".join(said)


def fault_words(fault: Fault) -> str:
    """When a fault strikes, its steps as in a scenario, and for how long it lasts."""
    hit = by_machine(fault) if fault.is_a(ClockFault) else (fault,)  # a step moves one clock
    lasts = f" for {format_duration(fault.lasts_ns)}" if fault.lasts_ns else ""
    return f"{_when(fault.when)}, {' and '.join(map(_step, hit))}{lasts}"


def _step(fault: Fault) -> str:
    ((key, fields),) = step_of(fault).model_dump(mode="json", exclude_none=True).items()
    shown = {name: value for name, value in fields.items() if AS_USUAL.get(name) != value}
    inside = ", ".join(
        f"{name}: {'[' + ', '.join(value) + ']' if isinstance(value, list) else value}"
        for name, value in shown.items()
    )
    return f"{key} {{{inside}}}"


def _when(when: When) -> str:
    after = f"{format_duration(when.after_ns)} after " if when.after_ns else ""
    if when.moment == "start":
        if when.after_ns < 0:
            return "before the locks are opened"
        return f"{after}the start" if after else "at the start"
    times = {1: "", 2: " for the second time", 3: " for the third time"}
    nth = times.get(when.nth, f" for the {when.nth}th time")
    return f"{after or 'when '}{when.client} {MOMENTS[when.moment]}{nth}"
