"""Causes that show in when and by whom requests were sent, which may be long before nodes executed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.examine.detector import Cause, purpose, whose
from lab.examine.evidence import MS_NS, Evidence, Operation
from lab.search.guard import CANCELLED
from lab.search.origin import Sent
from lab.search.watch import Executed
from lab.substrates.sim.network import LATENCY_NS

READING: Final = ("GET", "MGET", "HGET", "HGETALL", "HMGET", "HEXISTS", "EXISTS", "PTTL", "TTL")
"""Commands that ask nodes for no change, so that no answer is a refusal."""


def mistakes_reply(evidence: Evidence) -> Iterator[Cause]:
    """A success without a yes of its own, on a connection that owed the reply to an earlier request.

    Either it came before its own request can have been answered, or that was refused.
    """
    majority = evidence.outcome.trial.majority
    done = {id(each.sent): each for each in evidence.outcome.commands if not each.in_script}
    for operation in evidence.operations:
        if operation.f not in ("acquire", "extend") or operation.how != "ok":
            continue
        if len(_written_during(evidence, operation)) >= majority:
            continue
        for sent in evidence.requests_of(operation)[:majority]:
            executed, owed = done.get(id(sent)), _owed(evidence, operation, sent)
            if owed is None:
                continue
            reached_ns = sent.time_ns + LATENCY_NS if executed is None else executed.time_ns
            if reached_ns + LATENCY_NS > operation.ended_ns:
                how = f"before {sent.node} can have answered its {sent.words[0].upper()}"
            elif executed is not None and majority == 1 and _is_refused(evidence, operation, executed):
                how = f"although {sent.node} had refused its {sent.words[0].upper()}"
            else:
                continue
            name = "acquire" if operation.f == "acquire" else "extension"
            seen = (
                f"{whose(operation.client)} {name} of {evidence.at(operation.called_ns)} succeeded {how}: on "
                f"the same connection its {owed.f} of {evidence.at(owed.called_ns)}, which "
                f"{ended(evidence, owed)}, had left a reply to be read"
            )
            yield Cause("mistakes-reply", seen, executed or operation)


def _written_during(evidence: Evidence, operation: Operation) -> set[str]:
    """The nodes on which a request of an operation changed something before it was over."""
    return {
        entry.node
        for entry in evidence.executed_during(operation)
        if operation.called_ns <= entry.sent_ns and entry.before != entry.after
    }


def _is_refused(evidence: Evidence, operation: Operation, executed: Executed) -> bool:
    """Whether a node cannot have said yes: it was asked to change something, and had no key of the lease.

    An acquire may find the key of an attempt of its own that was not answered, and count that.
    """
    token = operation.event.get("token")
    values = [value for value, _ in executed.before.values()]
    if token:
        has_own = any(str(token) in value for value in values)
    else:
        has_own = any(operation.client in evidence.writers.get(value, ()) for value in values)
    return executed.name not in READING and not has_own


def _owed(evidence: Evidence, operation: Operation, sent: Sent) -> Operation | None:
    """An earlier operation that sent something over the same connection, and got no answer."""
    for each in evidence.outcome.sent:
        if each.time_ns >= operation.called_ns:
            break
        if (each.client, each.node, each.connection) == (sent.client, sent.node, sent.connection):
            earlier = evidence.operation_at(each.client, each.time_ns)
            if earlier is not None and earlier.how in ("info", "open"):
                return earlier
    return None


def goes_on(evidence: Evidence) -> Iterator[Cause]:
    """A key that is set by what an acquire had begun that was over by then, without a grant."""
    for entry in evidence.outcome.commands:
        if entry.sent is None or not any(old is None and new for _, old, new in entry.changes()):
            continue
        begun = evidence.operation_at(entry.client, entry.sent.since_ns)
        if begun is None or begun.f != "acquire" or begun.how == "ok":
            continue
        if begun.ended_ns < entry.sent.time_ns:
            seen = (
                f"{whose(entry.client)} acquire of {evidence.at(begun.called_ns)} {ended(evidence, begun)}, "
                f"but a task of it went on, and its {entry.name} of {evidence.at(entry.sent.time_ns)} took "
                f"the lock on {entry.node} for nobody"
            )
            yield Cause("goes-on", seen, entry)


def ended(evidence: Evidence, operation: Operation) -> str:
    """How an attempt ended that was no success, and when."""
    how = "was refused" if operation.how == "fail" else "ended without an answer"
    if operation.how == "info" and operation.event.get("error") == CANCELLED:
        how = "was cancelled"
    soon = operation.ended_ns - operation.called_ns < MS_NS
    return f"{how} at once" if soon else f"{how} at {evidence.at(operation.ended_ns)}"


def counts_twice(evidence: Evidence) -> Iterator[Cause]:
    """A hold that one acquire has counted twice, since it repeated a request whose reply was lost."""
    first: dict[tuple[int, str, str], Executed] = {}
    for entry in evidence.outcome.commands:
        operation = evidence.operation_of(entry) if entry.name == "HINCRBY" else None
        if operation is None or operation.f != "acquire":
            continue
        earlier = first.setdefault((operation.called_ns, entry.client, entry.node), entry)
        if earlier is not entry and earlier.sent is not entry.sent:
            seen = (
                f"{whose(entry.client)} acquire of {evidence.at(operation.called_ns)} was counted twice on "
                f"{entry.node}, by {entry.name} at {evidence.at(earlier.time_ns)} and at "
                f"{evidence.at(entry.time_ns)}; its release takes one off"
            )
            yield Cause("counts-twice", seen, entry)


def overtaken(evidence: Evidence) -> Iterator[Cause]:
    """A key that is set on a node after what was to delete it had been there: nobody deletes it any more.

    Not of an attempt that claims nothing: a client library that breaks off a connection at a time-out leaves
    no way to undo it that cannot overtake it, and then the key stays until it expires, as was promised.
    """
    for entry, undoing, _ in set_after_undo(evidence):
        if not claims_nothing(evidence, entry):
            seen = (
                f"{whose(entry.client)} {entry.name} of {evidence.at(entry.sent_ns)} came to "
                f"{entry.node} at {evidence.at(entry.time_ns)}, after the {undoing.name} of "
                f"{evidence.at(undoing.sent_ns)} that was to undo it"
            )
            yield Cause("leaves-keys", seen, entry)


def set_after_undo(evidence: Evidence) -> Iterator[tuple[Executed, Executed, str]]:
    """Commands that set a key after what was to delete it had been there: both of them, and the value."""
    gone: dict[tuple[str, str, str], Executed] = {}
    lain: set[tuple[str, str]] = set()
    for entry in evidence.outcome.commands:
        set_now = {new for _, old, new in entry.changes() if old is None and new is not None}
        for value in set_now:
            undoing = gone.get((entry.node, entry.client, value)) or _undone_before(evidence, entry, value)
            if undoing is not None and (entry.node, value) not in lain:
                yield entry, undoing, value
        lain |= {(entry.node, value) for value, _ in entry.after.values()}
        if not entry.in_script and purpose(evidence, entry) == "release":
            for word in entry.words[1:]:
                gone.setdefault((entry.node, entry.client, word), entry)


def claims_nothing(evidence: Evidence, entry: Executed) -> bool:
    """Whether a command belongs to an attempt that is no grant, whatever becomes of the command.

    Its client was told that the outcome is unknown, or that there was no majority, of several nodes.
    """
    operation = evidence.operation_of(entry)
    if operation is None or operation.f != "acquire":
        return False
    return operation.how == "info" or (operation.how == "fail" and evidence.outcome.trial.nodes > 1)


def _undone_before(evidence: Evidence, setting: Executed, value: str) -> Executed | None:
    """A command with the value that was sent after the one that sets it, and executed before it."""
    for entry in evidence.of_node(setting.node):
        if entry is setting:
            break
        after = entry.client == setting.client and entry.sent_ns > setting.sent_ns
        if after and value in entry.words[2:] and not entry.in_script:
            return entry
    return None
