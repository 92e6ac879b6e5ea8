"""A watched trial, read again: who wrote which value, what each node held when, and who counted on it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from lab.examine.sessions import in_sessions
from lab.search.runner import ZERO_NS, Outcome, is_unattended, run_trial
from lab.search.watch import Executed, State, parts_of

MS_NS: Final = 1_000_000
TOKEN_MIN: Final = 8
"""So many characters has a value that can tell one lease from all others."""
NEVER: Final = 1 << 62


def watched(outcome: Outcome) -> Outcome:
    """The outcome with what nodes executed: itself, or that of the same trial again. Only inside ``trials``.

    Raises what ``run_trial`` does.
    """
    return outcome if outcome.watched else in_sessions(run_trial(outcome.trial, watch=True))


@dataclass(slots=True)
class Operation:
    """One call of a client's: what it was, when it was called and came back, and how."""

    client: str
    f: str
    grant_id: str
    called_ns: int
    ended_ns: int = NEVER
    how: str = "open"
    event: dict[str, Any] = field(default_factory=dict)


@dataclass
class Evidence:
    """What can be read from a watched outcome."""

    outcome: Outcome

    @cached_property
    def operations(self) -> list[Operation]:
        """All operations that clients called, in the order of their calls; a watchdog's are none."""
        open_by: dict[str, Operation] = {}
        found = []
        for event in self.outcome.events:
            client = event.get("client")
            if client is None or client == "nemesis" or is_unattended(event):
                continue
            if event["type"] == "invoke":
                operation = Operation(client, event["f"], event.get("grant_id") or "", event["time_ns"])
                operation.event = event
                open_by[client] = operation
                found.append(operation)
            elif client in open_by:
                operation = open_by.pop(client)
                operation.ended_ns, operation.how, operation.event = event["time_ns"], event["type"], event
        return found

    def operation_at(self, client: str, time_ns: int) -> Operation | None:
        """What a client was doing, or did last, when something of its was executed."""
        theirs = [each for each in self.operations if each.client == client and each.called_ns <= time_ns]
        locks = [each for each in theirs if each.f in ("acquire", "extend", "release")]
        return locks[-1] if locks else None

    def operation_of(self, entry: Executed) -> Operation | None:
        """What a client was doing, or did last, when it sent a command."""
        return self.operation_at(entry.client, entry.sent_ns)

    def executed_during(self, operation: Operation) -> list[Executed]:
        """What nodes executed for a client from an operation's call until it ended."""
        first = bisect_left(self.outcome.commands, operation.called_ns, key=lambda one: one.time_ns)
        last = bisect_right(self.outcome.commands, operation.ended_ns, key=lambda one: one.time_ns)
        return [entry for entry in self.outcome.commands[first:last] if entry.client == operation.client]

    def fault_ends(self) -> dict[str, int]:
        """When each fault was over, by its number in the history; without those that last."""
        return {
            event["heals"]: event["time_ns"]
            for event in self.outcome.events
            if event["process"] == "nemesis" and event.get("heals")
        }

    @cached_property
    def writers(self) -> dict[str, set[str]]:
        """Whose a value is that a key of some node was given, or a field or a member of it.

        That is who wrote it; but one that was handed over is that client's who had sent it as its own before,
        if who wrote it had not.
        """
        found: dict[str, set[str]] = defaultdict(set)
        senders: dict[str, list[str]] = defaultdict(list)
        for entry in self.outcome.commands:
            if not entry.in_script:
                for word in entry.words[1:]:
                    if entry.client not in senders[word]:
                        senders[word].append(entry.client)
            for _, old, new in entry.changes():
                for each in [] if new is None else [new, *parts_of(new)]:
                    if each == new or old is None or each not in parts_of(old):
                        first, *others = (senders[each] if len(each) >= TOKEN_MIN else ()) or [entry.client]
                        found[each].add(entry.client if entry.client in others else first)
        return found

    def of_node(self, node: str) -> list[Executed]:
        """What a node executed."""
        return [entry for entry in self.outcome.commands if entry.node == node]

    def state_at(self, node: str, time_ns: int) -> State:
        """The keys of a node at a time, as its last command left them; what has expired since is left out."""
        last: Executed | None = None
        for entry in self.of_node(node):
            if entry.time_ns > time_ns:
                break
            last = entry
        if last is None:
            return {}
        passed_ms = (time_ns - last.time_ns) / MS_NS
        return {
            key: (value, left_ms if left_ms is None else int(left_ms - passed_ms))
            for key, (value, left_ms) in last.after.items()
            if left_ms is None or left_ms > passed_ms
        }

    def holding(self, client: str, time_ns: int, least_left_ms: float = 0) -> list[str]:
        """The nodes on which a value of this client's alone lies at a time, for so long yet at least."""
        return [
            node
            for node in self.outcome.trial.voters
            if any(
                client in self.writers.get(part, ()) and (left_ms is None or left_ms >= least_left_ms)
                for value, left_ms in self.locks_at(node, time_ns).values()
                for part in parts_of(value)
            )
        ]

    def locks_at(self, node: str, time_ns: int) -> State:
        """The keys of a node that are no counters: those with an expiry, or without a number for a value."""
        state = self.state_at(node, time_ns)
        return {
            key: (value, left)
            for key, (value, left) in state.items()
            if left is not None or not value.lstrip("-").isdigit()
        }

    def grants(self) -> Iterator[Operation]:
        """The acquires that succeeded."""
        return (each for each in self.operations if each.f == "acquire" and each.how == "ok")

    def grant_of(self, grant_id: str) -> Operation | None:
        """The acquire that succeeded with this grant."""
        return next((each for each in self.grants() if each.grant_id == grant_id), None)

    def began_ns(self, grant: Operation) -> int | None:
        """When a majority of the nodes had the token of a grant: it was not granted before; None: not known.

        That is so of a token that is used again. Where fewer nodes had it, the first of them counts.
        """
        token = grant.event.get("token")
        first: dict[str, int] = {}
        for entry in self.outcome.commands if token else ():
            if entry.node not in first and any(str(token) in value for value, _ in entry.after.values()):
                first[entry.node] = entry.time_ns
        times = sorted(first.values())
        if not times or times[0] < grant.called_ns:
            return None
        majority = self.outcome.trial.majority
        return times[majority - 1] if len(times) >= majority else times[0]

    def release_of(self, grant_id: str) -> Operation | None:
        """The first release of a grant."""
        found = (each for each in self.operations if each.f == "release" and each.grant_id == grant_id)
        return next(found, None)

    def until_ns(self, grant: Operation) -> int:
        """Until when a grant's client may count on it: its deadline with extensions, or its release."""
        ends = [
            each
            for each in self.operations
            if each.grant_id == grant.grant_id and each.f == "extend" and each.how == "ok"
        ]
        last = ends[-1] if ends else grant
        claimed = last.event.get("claimed_ns")
        end_ns = last.ended_ns + claimed if claimed is not None else last.called_ns + self.ttl_ns_of(last)
        release = self.release_of(grant.grant_id)
        return int(min(end_ns, release.called_ns if release is not None else NEVER))

    def ttl_ns_of(self, operation: Operation) -> int:
        """The lease that an acquire or an extension asked for."""
        return int(operation.event.get("ttl_ns") or self.outcome.trial.ttl_ns)

    def at(self, time_ns: int) -> str:
        """A stamp for people: since time zero of the trial, when the cluster was up."""
        since_ms = (time_ns - ZERO_NS) / MS_NS
        return f"{since_ms:.0f} ms" if since_ms < 10_000 else f"{since_ms / 1000:.2f} s"
