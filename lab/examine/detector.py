"""What detectors of causes share: what a cause is, and words for clients and commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lab.examine.evidence import MS_NS, Evidence, Operation
from lab.search.origin import Place
from lab.search.watch import ClockRead, Executed

LATE_MS: Final = 2
"""How much of a claim beyond the lease is more than rounding."""
SHARE: Final = 0.85
"""A key must have at least this share of its lease left when the lease was just granted or extended."""

NOUNS: Final = {"extend": "extension"}
"""What operations are called where their name is no noun."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What led to a violation: the key of its kind in ``lab.examine.causes``, and what was seen.

    ``by`` is the command or the operation that did it, or the look at a clock, ``places`` where that is in
    the lock's code.
    """

    kind: str
    seen: str
    by: Executed | Operation | ClockRead | None = None
    places: tuple[Place, ...] = ()


Detector = Callable[[Evidence], Iterator[Cause]]


def who(client: str) -> str:
    """A client as the subject of a sentence."""
    return client.capitalize() or "A client"


def whose(client: str) -> str:
    """A client as the owner of something."""
    return f"{who(client)}'s"


def counted_nodes(number: int) -> str:
    """1 node, 5 nodes."""
    return f"{number} node{'' if number == 1 else 's'}"


def said(entry: Executed) -> str:
    """A command, in words."""
    inside = " in a script" if entry.in_script else ""
    return f"{entry.name}{inside}"


def grouped(evidence: Evidence, entries: list[tuple[Executed, str]]) -> list[tuple[Executed, str, list[str]]]:
    """Entries of one client, command and purpose within a few milliseconds, with all their nodes."""
    groups: list[tuple[Executed, str, list[str]]] = []
    for entry, about in entries:
        for first, other, nodes in groups:
            near = entry.time_ns - first.time_ns < 50 * MS_NS
            if near and (first.client, first.name, other) == (entry.client, entry.name, about):
                if entry.node not in nodes:
                    nodes.append(entry.node)
                break
        else:
            groups.append((entry, about, [entry.node]))
    return groups


def purpose(evidence: Evidence, entry: Executed) -> str:
    """For which operation of its client a command was executed."""
    operation = evidence.operation_of(entry)
    return operation.f if operation is not None else "connection"
