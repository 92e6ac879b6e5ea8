"""Causes that show in how long nodes keep the keys of leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from checker.words import listed
from lab.examine.detector import NOUNS, SHARE, Cause, said, whose
from lab.examine.evidence import MS_NS, NEVER, Evidence, Operation
from lab.search.watch import Executed


def no_expiry(evidence: Evidence) -> Iterator[Cause]:
    """A key that is left without an expiry when its client's operation is over, and gets none later."""
    for operation in evidence.operations:
        if operation.f not in ("acquire", "extend"):
            continue
        until_ns = min(operation.ended_ns, operation.called_ns + 60_000 * MS_NS)
        hits: dict[tuple[str, str], list[str]] = {}
        for node in evidence.outcome.trial.node_names:
            for key, (value, left_ms) in evidence.locks_at(node, until_ns).items():
                own = operation.client in evidence.writers.get(value, ())
                if own and left_ms is None and not _expires_later(evidence, node, key, value, until_ns):
                    hits.setdefault((key, value), []).append(node)
        for (key, _), nodes in hits.items():
            seen = (
                f"{whose(operation.client)} {operation.f} at {evidence.at(operation.called_ns)} left the key "
                f"{key!r} without an expiry on {listed(nodes)}"
            )
            yield Cause("no-expiry", seen, operation)


def _expires_later(evidence: Evidence, node: str, key: str, value: str, time_ns: int) -> bool:
    """Whether a key is given an expiry after this time while it has this value."""
    for entry in evidence.of_node(node):
        if entry.time_ns > time_ns:
            there = entry.after.get(key)
            if there is None or there[0] != value:
                return False
            if there[1] is not None:
                return True
    return False


def short_expiry(evidence: Evidence) -> Iterator[Cause]:
    """A key that goes before its lease is over: then somebody else may get the lock meanwhile."""
    return _wrong_expiry(evidence, lambda left_ms, ttl_ms: left_ms < ttl_ms * SHARE, of_leases=True)


def long_expiry(evidence: Evidence) -> Iterator[Cause]:
    """A key that stays when its lease is over: it keeps the lock from others."""
    return _wrong_expiry(evidence, lambda left_ms, ttl_ms: left_ms > ttl_ms * 1.05 + 1)


def _wrong_expiry(
    evidence: Evidence, is_wrong: Callable[[int, float], bool], *, of_leases: bool = False
) -> Iterator[Cause]:
    """A key that a grant's or an extension's command gave another time than the lease has.

    With ``of_leases`` a lease must rest on that key: a refused acquire has none, and a place in a queue may
    have the same value.
    """
    for entry in evidence.outcome.commands:
        operation = evidence.operation_of(entry)
        if operation is None or operation.f not in ("acquire", "extend"):
            continue
        ttl_ms = evidence.ttl_ns_of(operation) / MS_NS
        for key, (value, left_ms) in entry.after.items():
            before = entry.before.get(key)
            changed = before is None or before[0] != value or (before[1] or 0) != (left_ms or 0)
            if not changed or left_ms is None or entry.client not in evidence.writers.get(value, ()):
                continue
            if of_leases and not is_of_lease(evidence, operation, entry.node, key, value):
                continue
            if is_wrong(left_ms, ttl_ms):
                seen = (
                    f"{whose(entry.client)} {NOUNS.get(operation.f, operation.f)} at "
                    f"{evidence.at(entry.time_ns)} gave the key {left_ms} ms on {entry.node}, by "
                    f"{said(entry)}; the lease is {ttl_ms:.0f} ms"
                )
                yield Cause("wrong-expiry", seen, entry)


def is_of_lease(evidence: Evidence, operation: Operation, node: str, key: str, value: str) -> bool:
    """Whether a lease rests on a key of this value: no other key has it on the node when it is granted.

    If two have it, the lease rests on the one that stays longer.
    """
    if operation.f == "acquire" and operation.how == "fail":
        return False
    there = {
        name: NEVER if left_ms is None else left_ms
        for name, (text, left_ms) in evidence.state_at(node, operation.ended_ns).items()
        if text == value
    }
    return not there or there.get(key, -1) == max(there.values())


def gave_too_little(evidence: Evidence, operation: Operation, least_ms: float) -> list[Executed]:
    """The commands of an acquire or extension that gave the key of its lease less than this, one a node."""
    found: dict[str, Executed] = {}
    for entry in evidence.executed_during(operation):
        for key, (value, left_ms) in entry.after.items():
            before = entry.before.get(key)
            changed = before is None or before[0] != value or (before[1] or 0) != (left_ms or 0)
            own = entry.client in evidence.writers.get(value, ())
            if changed and own and is_of_lease(evidence, operation, entry.node, key, value):
                found.pop(entry.node, None)
                if left_ms is not None and left_ms < least_ms:
                    found[entry.node] = entry
    return list(found.values())
