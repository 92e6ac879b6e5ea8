"""A watched trial, read again: what clients called and sent, what each node held when, and who counted on it.

By operations (what a client called), by commands (what a node executed), and by requests (what a client sent,
with all that its script did).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from checker.words import listed
from lab.errors import UnknownOutcome
from lab.examine.violations.sessions import in_sessions
from lab.search.runner import ZERO_NS, Outcome, is_unattended, run_trial
from lab.search.watch import Executed, State, parts_of
from lab.substrates.sim.clock import MONOTONIC_START_NS

MS_NS: Final = 1_000_000
TOKEN_MIN: Final = 8
"""So many characters has a value that can tell one lease from all others."""
NEVER: Final = 1 << 62
SCRIPTS: Final = ("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO")
ABOUT_CONNECTIONS: Final = frozenset(
    ("HELLO", "CLIENT", "PING", "ECHO", "SELECT", "AUTH", "COMMAND", "INFO", "CONFIG", "QUIT", "TIME", "ROLE")
)
"""What says nothing about a lock."""
SET_WORDS: Final = ("NX", "XX", "PX", "EX", "PXAT", "EXAT", "KEEPTTL")
LOCK_OPERATIONS: Final = ("acquire", "extend", "held", "release")
KEYS_MAX: Final = 6
"""How many keys are named where all of them are listed."""
VALUE_MAX: Final = 40
"""How much of a value is shown."""


def watched(outcome: Outcome) -> Evidence | None:
    """What can be read from an outcome, or from the same trial again if that was not watched.

    None if a client then ends with an error outside of its lock's operations. Only inside ``trials``.
    """
    try:
        return Evidence(outcome if outcome.watched else in_sessions(run_trial(outcome.trial, watch=True)))
    except UnknownOutcome:
        return None


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


@dataclass(frozen=True, slots=True)
class Request:
    """One command that a client sent to a node, with what its script called; times as in the history."""

    sent: Executed
    called: tuple[Executed, ...]

    @property
    def node(self) -> str:
        """Where it was executed."""
        return self.sent.node

    @property
    def time_ns(self) -> int:
        """When it was executed."""
        return self.sent.time_ns

    @property
    def what(self) -> tuple[str, ...]:
        """What makes requests of one sort: the command, and which script."""
        return (self.sent.name, self.sent.words[1]) if self.sent.name in SCRIPTS else (self.sent.name,)

    @property
    def commands(self) -> tuple[Executed, ...]:
        """What it did: itself, or what its script called."""
        return self.called if self.sent.name in SCRIPTS else (self.sent,)

    @property
    def before(self) -> State:
        """The node's keys before it."""
        return self.sent.before

    @property
    def after(self) -> State:
        """The node's keys after it."""
        return self.called[-1].after if self.called else self.sent.after

    @property
    def form(self) -> str:
        """It in words: ``SET NX PX``, ``a script of GET and DEL``, or its command if it called nothing."""
        if self.sent.name not in SCRIPTS:
            return form_of(self.sent)
        if not self.called:
            return self.sent.name
        return f"a script of {listed(dict.fromkeys(form_of(each) for each in self.called))}"

    def wrote(self) -> dict[str, str]:
        """The keys that it gave another value, or made, and their values."""
        after = self.after
        return {
            key: value
            for key, (value, _) in after.items()
            if key not in self.before or self.before[key][0] != value
        }

    def deleted(self) -> list[str]:
        """The keys that were there before it, and are not afterwards."""
        return [key for key in self.before if key not in self.after]


def form_of(command: Executed) -> str:
    """A command without its arguments, but for what they make of a SET."""
    if command.name != "SET":
        return command.name
    options = [word.upper() for word in command.words[3:] if word.upper() in SET_WORDS]
    return " ".join(["SET", *options])


def milliseconds(duration_ns: float) -> str:
    """A duration in milliseconds, as exact as a reader wants it: ``0.5 ms``, ``250 ms``."""
    value = duration_ns / MS_NS
    return f"{value:.1f} ms" if abs(value) < 9.95 else f"{value:.0f} ms"


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

    @cached_property
    def requests(self) -> list[Request]:
        """What nodes were asked, but for what is about connections, in the order of execution."""
        found: list[Request] = []
        inner: list[Executed] = []
        for entry in reversed(self.outcome.commands):
            if entry.in_script:
                inner.append(entry)
                continue
            if entry.name not in ABOUT_CONNECTIONS:
                found.append(Request(entry, tuple(reversed(inner))))
            inner = []
        return found[::-1]

    def of(self, client: str, f: str) -> list[Operation]:
        """The operations of a client of one sort, in their order."""
        return [each for each in self.operations if each.client == client and each.f == f]

    def next_call_ns(self, operation: Operation) -> int:
        """When the client began the next operation of its lock; ``NEVER`` if it did not."""
        later = (
            each.called_ns
            for each in self.operations
            if each.client == operation.client and each.f in LOCK_OPERATIONS and each is not operation
            if each.called_ns >= operation.ended_ns
        )
        return min(later, default=NEVER)

    def during(self, operation: Operation) -> list[Request]:
        """What the client asked from an operation on, to its next one."""
        until_ns = self.next_call_ns(operation)
        return [
            each
            for each in self.requests
            if each.sent.client == operation.client and operation.called_ns <= each.time_ns < until_ns
        ]

    def sendings(self, operation: Operation) -> list[tuple[int, list[str]]]:
        """When, by the history's clock, the client sent in an operation, and to which nodes each time."""
        sent = self.outcome.sendings[operation.client]
        times = [time_ns + MONOTONIC_START_NS for time_ns in sent.times_ns]
        return [
            (time_ns, targets)
            for time_ns, targets in zip(times, sent.targets, strict=True)
            if operation.called_ns <= time_ns <= operation.ended_ns
        ]

    def wrote_at(self, operation: Operation, key: str) -> dict[str, str]:
        """On which nodes an operation wrote this key, and which value."""
        found: dict[str, str] = {}
        for request in self.during(operation):
            if key in request.wrote():
                found[request.node] = request.wrote()[key]
        return found

    def keys_there(self, time_ns: int) -> tuple[str, ...]:
        """The keys on the nodes at a time, each with its nodes, its time left, and who gave it its value."""
        nodes: dict[tuple[str, str], list[str]] = {}
        left_ms: dict[tuple[str, str], int | None] = {}
        for node in self.outcome.trial.node_names:
            for key, (value, left) in self.state_at(node, time_ns).items():
                nodes.setdefault((key, value), []).append(node)
                left_ms.setdefault((key, value), left)
        if not nodes:
            return (f"no key of text or hash lay on a node at {self.at(time_ns)}",)
        lines = []
        for (key, value), there in nodes.items():
            left = left_ms[key, value]
            expires = "no expiry" if left is None else f"{left} ms left"
            by = f", {self._set_by(there[0], key, value, time_ns)}"
            shown = value if len(value) <= VALUE_MAX else f"{value[:VALUE_MAX]}…"
            where = f"at {self.at(time_ns)} the key {key!r} lay on {listed(there)}"
            lines.append(f"{where} with {shown!r} and {expires}{by}")
        more = len(lines) - KEYS_MAX
        return tuple(lines[:KEYS_MAX] + ([f"and {more} more keys"] if more > 0 else []))

    def _set_by(self, node: str, key: str, value: str, time_ns: int) -> str:
        """Who gave a key of a node its value, by what, and when."""
        for entry in reversed(self.of_node(node)):
            if entry.time_ns <= time_ns and any(
                (name, new) == (key, value) for name, _, new in entry.changes()
            ):
                operation = self.operation_of(entry)
                f = operation.f if operation is not None else "connection"
                return f"set at {self.at(entry.time_ns)} by {entry.client.capitalize()}'s {f} ({entry.name})"
        return "which was there before"
