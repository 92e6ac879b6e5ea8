"""What happens in a trial, in words: the text below a scenario that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from checker.words import listed
from lab.durations import short_duration
from lab.faults.jump import Jump
from lab.locks.capacity import READ
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS, START, Trigger, at_start
from lab.search.faults import fault_of, is_a
from lab.search.runner import Event

VERBS: Final = {
    "acquire": "acquires",
    "extend": "extends",
    "read": "reads",
    "held": "checks",
    "write": "writes",
    "release": "releases",
}
"""What a scenario's steps call the operations of a history."""
OUTCOMES: Final = {
    ("acquire", "ok"): "gets the lock",
    ("acquire", "fail"): "is refused",
    ("acquire", "info"): "does not learn whether it has the lock",
    ("extend", "ok"): "extends its lease",
    ("extend", "fail"): "cannot extend its lease",
    ("extend", "info"): "does not learn whether its lease is extended",
    ("release", "ok"): "releases it",
    ("release", "fail"): "releases a lock that it did not hold any more",
    ("release", "info"): "does not learn whether it is released",
    ("read", "ok"): "reads the resource",
    ("read", "fail"): "has its read rejected",
    ("write", "ok"): "writes",
    ("write", "fail"): "has its write rejected",
}


EVENTS: Final = {
    "acquire invoke": "calls acquire",
    "granted": "is granted the lock",
    "write invoke": "has checked the lease and is about to write",
    "release invoke": "calls release",
    "extend invoke": "calls extend",
    SENDS: "sends to nodes",
}
"""Events of a client that faults wait for."""
AT_ONCE_NS: Final = 1
"""Up to so long after an event is at once."""
NTH: Final = ("", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def outcome_words(event: Event, nodes: Sequence[str] | None) -> str:
    """How an operation ended; ``nodes`` are those that held the token of a grant."""
    who, f, how = event["client"].capitalize(), event["f"], event["type"]
    words = OUTCOMES.get((f, how), f"{VERBS[f]} ({how})")
    if f == "held" and how == "ok":
        words = "still believes in its lease" if event["value"] == "yes" else "sees that its lease is over"
    reads = " as a reader" if f == "acquire" and event.get("value") == READ else ""
    fence = f" with fence {event['fence']}" if event.get("fence") is not None and f == "acquire" else ""
    where = f" from {listed(nodes)}" if nodes else ""
    return f"{who} {words}{reads}{fence}{where}."


def fault_words(fault: Timed) -> str:
    """What a fault does, for how long, and when."""
    return f"{fault_of(fault).clause}{_how_long(fault)}, {trigger_words(fault.at or at_start())}"


def _how_long(fault: Timed) -> str:
    if fault.ending is None or is_a(fault, Jump):
        return ""
    return f" for {short_duration(fault.lasts_ns)}" if fault.lasts_ns else " for good"


def trigger_words(at: Trigger) -> str:
    """When something happens that waits for the start, or for an event of a client."""
    after = f"{short_duration(at.after_ns)} " if at.after_ns > AT_ONCE_NS else ""
    if at.track == START:
        if at.after_ns < 0:
            return "before the locks are opened"
        return f"{after}after the start" if after else "from the start"
    nth = f"for the {ordinal(at.nth)} time"
    who = (at.track or "").capitalize()
    return f"{after or 'as '}{'after ' if after else ''}{who} {EVENTS.get(at.event, at.event)} {nth}"


def ordinal(number: int) -> str:
    """First, second, third, …"""
    return NTH[number] if 0 < number < len(NTH) else f"{number}th"


def sentence(clause: str) -> str:
    """A clause as a sentence."""
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""
