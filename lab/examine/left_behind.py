"""The keys that lie on nodes, and what left them: a release, what was to undo an attempt, or who set them."""

from __future__ import annotations

from typing import Final

from checker.words import listed
from lab.examine.detect_requests import ended
from lab.examine.detector import whose
from lab.examine.evidence import Evidence, Operation
from lab.search.origin import Sent
from lab.search.watch import Executed

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
            return f"set at {evidence.at(entry.time_ns)} by {whose(entry.client)} {f} ({entry.name})"
    return "which was there before"


def left_by(
    evidence: Evidence, owner: str, node: str, time_ns: int
) -> tuple[Executed | Operation | None, str]:
    """What left a key of a client's on a node, and a sentence that begins with that."""
    held = {value for value, _ in evidence.locks_at(node, time_ns).values()}
    for entry in reversed(evidence.of_node(node)):
        mine = entry.client == owner and entry.time_ns <= time_ns
        values = [new for _, _, new in entry.changes() if new in held] if mine else []
        if values and values[0] is not None:
            return _left_after(evidence, entry, values[0], time_ns)
    return None, f"{whose(owner)} key was left"


def _left_after(
    evidence: Evidence, entry: Executed, value: str, time_ns: int
) -> tuple[Executed | Operation, str]:
    operation = evidence.operation_of(entry)
    if operation is None:
        return entry, f"{whose(entry.client)} {entry.name} of {evidence.at(entry.sent_ns)} left a key"
    name = f"{whose(entry.client)} {operation.f} of {evidence.at(operation.called_ns)}"
    if operation.f != "acquire":
        return entry, f"{name} left a key"
    if operation.how == "ok":
        return _left_by_release(evidence, operation, entry, value, time_ns)
    undoing = _undoing(evidence, entry, value, time_ns)
    setting = f"{name}, which {ended(evidence, operation)}, set a key"
    if undoing is None:
        return entry, setting
    return undoing, f"{setting} that its {undoing.name} of {evidence.at(undoing.sent_ns)} did not delete"


def _left_by_release(
    evidence: Evidence, grant: Operation, entry: Executed, value: str, time_ns: int
) -> tuple[Executed | Operation, str]:
    """The release that left a key, if its lease was released: its request, if it sent one to the node."""
    name = f"acquire of {evidence.at(grant.called_ns)}"
    release = evidence.release_of(grant.grant_id)
    if release is None or release.called_ns > time_ns:
        return entry, f"{whose(entry.client)} {name}, which was granted, set a key"
    sent = [each for each in _sent_for(evidence, release, value, time_ns) if each.node == entry.node]
    how = {"ok": "was a success", "fail": "said that the lease was lost"}.get(release.how, "was not answered")
    nothing = "" if sent else f"sent nothing to {entry.node} and "
    left = (
        f"{whose(entry.client)} release of {evidence.at(release.called_ns)}, which {nothing}{how}, left the "
        f"key of its {name}"
    )
    return (release if sent else entry), left


def _sent_for(evidence: Evidence, release: Operation, value: str, time_ns: int) -> list[Sent]:
    """What a release sent, also after it was over: by then only what names the value of the key."""
    return [
        sent
        for sent in evidence.outcome.sent
        if sent.client == release.client and release.called_ns <= sent.time_ns <= time_ns
        if sent.time_ns <= release.ended_ns or value in sent.words
    ]


def _undoing(evidence: Evidence, setting: Executed, value: str, time_ns: int) -> Executed | None:
    """A later request with the value of a key, which the node executed, and after which it lay there yet."""
    for entry in evidence.of_node(setting.node):
        later = setting.time_ns <= entry.time_ns <= time_ns and entry.sent is not setting.sent
        if later and not entry.in_script and entry.client == setting.client and value in entry.words:
            return entry
    return None
