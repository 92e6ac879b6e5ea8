"""What happens in a trial, in words: the text below a scenario that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from checker.words import listed
from lab.durations import format_duration
from lab.search.runner import Event
from lab.search.trial import LINK_KINDS, Fault

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
    """What a fault does."""
    nodes, who = listed(fault.nodes), fault.client.capitalize()
    whose = f"The clock of {who or nodes}"
    held = {"requests": f"What {who} sends to {nodes}", "replies": f"What {nodes} and {who} send each other"}
    ways = {
        "requests": f"What {who} sends to {nodes} is lost.",
        "replies": f"What {nodes} answers {who} is lost.",
    }
    if fault.refused:
        return f"Connections of {who} to {nodes} are refused."
    return {
        "cut": ways.get(fault.direction, f"{who} is cut off from {nodes}."),
        "hold": f"{held.get(fault.direction, held['replies'])} is held up in the network.",
        "delay": f"Everything between {who} and {nodes} takes {format_duration(fault.by_ns)} longer.",
        "pause": f"{who} is paused.",
        "jump": f"{whose} jumps {'forward' if fault.by_ns > 0 else 'back'} by "
        f"{format_duration(abs(fault.by_ns))}.",
        "drift": f"{whose} runs {'fast' if fault.ppm > 0 else 'slow'} by {abs(fault.ppm) / 10_000:g} %.",
        "reset": f"The connections between {who} and {nodes} break.",
        "client_crash": f"{who} is killed.",
        "crash": f"{nodes} crashes.",
        "power_cut": f"{nodes} loses its power before it has synced its file.",
    }[fault.kind]


def end_words(fault: Fault) -> str:
    """What is so when it is over."""
    nodes, who = listed(fault.nodes), fault.client.capitalize()
    if fault.kind == "pause":
        return f"{who} goes on."
    if fault.kind in LINK_KINDS:
        return f"{who} reaches {nodes} again."
    return (
        f"The clock of {who or nodes} is right again."
        if fault.kind in ("jump", "drift")
        else f"{nodes} is back."
    )
