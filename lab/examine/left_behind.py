"""The keys that lie on nodes at a time, and who set them."""

from __future__ import annotations

from typing import Final

from checker.words import listed
from lab.examine.evidence import Evidence

KEYS_MAX: Final = 6
"""How many keys are named where all of them are listed."""
VALUE_MAX: Final = 40
"""How much of a value is shown."""


def keys_there(evidence: Evidence, time_ns: int) -> tuple[str, ...]:
    """The keys on the nodes at a time, each with its nodes, its time left, and who gave it its value."""
    nodes: dict[tuple[str, str], list[str]] = {}
    left_ms: dict[tuple[str, str], int | None] = {}
    for node in evidence.outcome.trial.node_names:
        for key, (value, left) in evidence.state_at(node, time_ns).items():
            nodes.setdefault((key, value), []).append(node)
            left_ms.setdefault((key, value), left)
    if not nodes:
        return (f"no key of text or hash lay on a node at {evidence.at(time_ns)}",)
    lines = []
    for (key, value), there in nodes.items():
        left = left_ms[key, value]
        expires = "no expiry" if left is None else f"{left} ms left"
        by = f", {_set_by(evidence, there[0], key, value, time_ns)}"
        shown = value if len(value) <= VALUE_MAX else f"{value[:VALUE_MAX]}…"
        where = f"at {evidence.at(time_ns)} the key {key!r} lay on {listed(there)}"
        lines.append(f"{where} with {shown!r} and {expires}{by}")
    more = len(lines) - KEYS_MAX
    return tuple(lines[:KEYS_MAX] + ([f"and {more} more keys"] if more > 0 else []))


def _set_by(evidence: Evidence, node: str, key: str, value: str, time_ns: int) -> str:
    """Who gave a key of a node its value, by what, and when."""
    for entry in reversed(evidence.of_node(node)):
        if entry.time_ns <= time_ns and any((name, new) == (key, value) for name, _, new in entry.changes()):
            operation = evidence.operation_of(entry)
            f = operation.f if operation is not None else "connection"
            return f"set at {evidence.at(entry.time_ns)} by {entry.client.capitalize()}'s {f} ({entry.name})"
    return "which was there before"
