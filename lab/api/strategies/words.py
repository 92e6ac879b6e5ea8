"""A schedule in words: what clients do, and the faults as steps of a scenario."""

from __future__ import annotations

from typing import Final

from lab.durations import format_duration
from lab.search.sentences import fault_words
from lab.search.trial import Round, Trial

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
