"""A watched trial by requests: what each operation sent to which nodes, and what that did there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from checker.words import listed
from lab.examine.evidence import NEVER, Evidence, Operation
from lab.search.runner import Outcome
from lab.search.watch import Executed, State
from lab.substrates.sim.clock import MONOTONIC_START_NS

MS_NS: Final = 1_000_000
SCRIPTS: Final = ("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO")
ABOUT_CONNECTIONS: Final = frozenset(
    ("HELLO", "CLIENT", "PING", "ECHO", "SELECT", "AUTH", "COMMAND", "INFO", "CONFIG", "QUIT", "TIME", "ROLE")
)
"""What says nothing about a lock."""
SET_WORDS: Final = ("NX", "XX", "PX", "EX", "PXAT", "EXAT", "KEEPTTL")
LOCK_OPERATIONS: Final = ("acquire", "extend", "held", "release")


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


class Seen:
    """A watched outcome, by operations and by requests."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.evidence = Evidence(outcome)

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
        return [each for each in self.evidence.operations if each.client == client and each.f == f]

    def until_ns(self, operation: Operation) -> int:
        """When the client began the next operation of its lock; ``NEVER`` if it did not."""
        later = (
            each.called_ns
            for each in self.evidence.operations
            if each.client == operation.client and each.f in LOCK_OPERATIONS and each is not operation
            if each.called_ns >= operation.ended_ns
        )
        return min(later, default=NEVER)

    def during(self, operation: Operation) -> list[Request]:
        """What the client asked from an operation on, to its next one."""
        until_ns = self.until_ns(operation)
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

    def keys_at(self, node: str, time_ns: int) -> State:
        """The keys of a node at a time."""
        return self.evidence.state_at(node, time_ns)
