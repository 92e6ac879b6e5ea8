"""Causes that show in which nodes refused an acquire, and by whose keys; and which nodes were away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from checker.words import listed
from lab.examine.detect_requests import ended
from lab.examine.detector import Cause, whose
from lab.examine.evidence import MS_NS, NEVER, Evidence, Operation
from lab.examine.places import OF_CLIENT_LIBRARIES
from lab.faults.clock import ClockFault
from lab.search.watch import Executed

TOKEN_MIN: Final = 8
"""A field of a hash that is shorter than this is no token."""


def needs_all(evidence: Evidence) -> Iterator[Cause]:
    """Attempts that fail although a majority of the nodes is there and has no key that refuses them.

    The last one of each client counts.
    """
    trial = evidence.outcome.trial
    seen_of: set[str] = set()
    for acquire in reversed(evidence.operations):
        failed = acquire.f == "acquire" and acquire.how in ("fail", "info")
        if not failed or acquire.client in seen_of or trial.nodes == 1:
            continue
        seen_of.add(acquire.client)
        away, refusing = away_from(evidence, acquire), set(refusing_keys(evidence, acquire))
        refusing -= away
        if away | refusing and len(away | refusing) <= trial.minority:
            why = [f"{listed(sorted(away))} away"] if away else []
            why += [f"{listed(sorted(refusing))} refusing"] if refusing else []
            seen = (
                f"{whose(acquire.client)} acquire at {evidence.at(acquire.called_ns)} failed with only "
                f"{' and '.join(why)}, of {trial.nodes} nodes"
            )
            yield Cause("needs-all-nodes", seen, acquire)


def never_undone(evidence: Evidence) -> Iterator[Cause]:
    """An acquire that is refused by keys of an attempt that failed, to which nothing was sent to undo it."""
    trial = evidence.outcome.trial
    for refused in reversed(evidence.operations):
        if refused.f != "acquire" or refused.how not in ("fail", "info"):
            continue
        left: dict[int, list[Executed]] = defaultdict(list)
        for node, value in refusing_keys(evidence, refused).items():
            entry = _set_by(evidence, node, value, refused.called_ns)
            attempt = None if entry is None else evidence.operation_of(entry)
            if entry is None or attempt is None or not _has_failed(attempt, refused):
                continue
            if not _sent_again(evidence, entry, attempt, value) and _could_reach(evidence, entry, refused):
                left[attempt.called_ns].append(entry)
        away = away_from(evidence, refused)
        for entries in left.values():
            nodes = sorted({entry.node for entry in entries})
            attempt = evidence.operation_of(entries[0])
            if attempt is not None and len(away.union(nodes)) > trial.minority:
                yield _left(evidence, attempt, refused, entries[0], nodes)


def _left(
    evidence: Evidence, attempt: Operation, refused: Operation, entry: Executed, nodes: list[str]
) -> Cause:
    seen = (
        f"{whose(attempt.client)} acquire of {evidence.at(attempt.called_ns)}, which "
        f"{ended(evidence, attempt)}, set a key on {listed(nodes)}, and nothing was sent there to undo "
        f"that; it kept {whose(refused.client)} acquire at {evidence.at(refused.called_ns)} from a majority"
    )
    return Cause("leaves-keys", seen, entry)


def away_from(evidence: Evidence, acquire: Operation) -> set[str]:
    """The nodes that a fault kept, at some time of an acquire, from getting or answering what it sent."""
    return _away(evidence, acquire.client, acquire.called_ns, acquire.ended_ns)


def _away(evidence: Evidence, client: str, since_ns: int, until_ns: int) -> set[str]:
    begins, ends = evidence.fault_begins(), evidence.fault_ends()
    return {
        node
        for number, fault in enumerate(evidence.outcome.struck, 1)
        if not fault.is_a(ClockFault) and fault.client in ("", client)
        if begins.get(f"f{number}", NEVER) <= until_ns
        if ends.get(f"f{number}", NEVER) >= since_ns
        for node in fault.nodes
    }


def refusing_keys(evidence: Evidence, acquire: Operation) -> dict[str, str]:
    """On which nodes a key that an acquire asks for had the value of another attempt, and that value.

    Also of nodes that were not asked: they would have refused.
    """
    own = [entry for entry in evidence.executed_during(acquire) if entry.sent_ns >= acquire.called_ns]
    words = {word for entry in own for word in entry.words[1:]}
    words |= {word for sent in evidence.requests_of(acquire) for word in sent.words[1:]}
    found: dict[str, str] = {}
    for node in evidence.outcome.trial.node_names:
        first = next((entry for entry in own if entry.node == node and not entry.in_script), None)
        state = evidence.state_at(node, acquire.called_ns) if first is None else first.before
        for key, (value, left_ms) in state.items():
            counts = left_ms is None and value.lstrip("-").isdigit()
            if key in words and not _names(words, value) and not counts:
                found[node] = value
    return found


def _set_by(evidence: Evidence, node: str, value: str, until_ns: int) -> Executed | None:
    """The last command that gave a key of a node this value."""
    for entry in reversed(evidence.of_node(node)):
        if entry.time_ns <= until_ns and any(new == value for _, _, new in entry.changes()):
            return entry
    return None


def _has_failed(attempt: Operation, refused: Operation) -> bool:
    over = attempt is not refused and attempt.ended_ns <= refused.called_ns
    return over and attempt.f == "acquire" and attempt.how in ("fail", "info")


def _could_reach(evidence: Evidence, setting: Executed, refused: Operation) -> bool:
    """Whether its client's requests came to a node afterwards, or nothing kept them from it."""
    if setting.node not in _away(evidence, setting.client, setting.sent_ns, refused.called_ns):
        return True
    return any(
        entry.client == setting.client
        and setting.sent_ns < entry.sent_ns
        and entry.time_ns <= refused.called_ns
        and entry.name not in OF_CLIENT_LIBRARIES
        for entry in evidence.of_node(setting.node)
    )


def _sent_again(evidence: Evidence, setting: Executed, attempt: Operation, value: str) -> bool:
    """Whether its client sent what may undo an attempt to the node, after the request that set the key.

    That is all that names the value, and what else the attempt sent there, but for another try.
    """
    for sent in evidence.outcome.sent:
        theirs = (sent.client, sent.node) == (setting.client, setting.node)
        if not theirs or sent is setting.sent or sent.time_ns < setting.sent_ns:
            continue
        tries = setting.sent is not None and sent.words[0] == setting.sent.words[0]
        other = not tries and sent.words[0].upper() not in OF_CLIENT_LIBRARIES
        if _names(sent.words, value) or (other and sent.time_ns <= attempt.ended_ns + MS_NS):
            return True
    return False


def _names(words: Iterable[str], value: str) -> bool:
    """Whether words have a value among them, or a field of it, if it is a hash."""
    parts = {value, *(part for part in value.replace("=", " ").split() if len(part) >= TOKEN_MIN)}
    return not parts.isdisjoint(words)
