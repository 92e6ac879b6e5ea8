"""What happens in a trial, in words: the text below a scenario that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from checker.words import listed
from lab.search.as_tracks import by_machine, step_of
from lab.search.runner import Event
from lab.search.trial import Fault

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


def outcome_words(event: Event, nodes: Sequence[str] | None) -> str:
    """How an operation ended; ``nodes`` are those that held the token of a grant."""
    who, f, how = event["client"].capitalize(), event["f"], event["type"]
    words = OUTCOMES.get((f, how), f"{VERBS[f]} ({how})")
    if f == "held" and how == "ok":
        words = "still believes in its lease" if event["value"] == "yes" else "sees that its lease is over"
    fence = f" with fence {event['fence']}" if event.get("fence") is not None and f == "acquire" else ""
    where = f" from {listed(nodes)}" if nodes else ""
    return f"{who} {words}{fence}{where}."


def fault_words(fault: Fault) -> str:
    """What a fault does, as a sentence."""
    return sentence(" and ".join(step_of(each).clause for each in by_machine(fault)))


def end_words(fault: Fault) -> str:
    """What is so when it is over, as a sentence."""
    return sentence(" and ".join(step_of(each).ended_clause for each in by_machine(fault)))


def sentence(clause: str) -> str:
    """A clause as a sentence."""
    return f"{clause[0].upper()}{clause[1:]}." if clause else ""
