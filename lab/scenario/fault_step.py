"""What a fault declares about itself: how a workload draws it, and its sign in a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lab.scenario.step_base import StepModel

Hits = Literal["links", "machine", "nodes", "client"]
Effect = Literal["link", "clock", "pause", "down", "promotion", "key"]
"""On a link, a clock, a process that is paused, one that is down, a replica that became a master, a key."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a workload draws a fault: its targets, and what must not happen meanwhile.

    ``hits`` is what its step names: links of clients to nodes or the store, one machine (a client or a node),
    nodes, or a client.
    """

    hits: Hits
    nodes_first: bool = False
    """If it hits a machine: a node unless clients are named; otherwise a client."""
    may_stay: bool = False
    """Whether ``lasts`` may be absent: what it did is undone when the run is over."""
    stops: bool = False
    """Whether its target is paused or down until it is ended, which includes the target's links."""
    waits_ns: int = 0
    """How long it may wait for something that clients do: so long before a workload's end it is not drawn."""
    keeps: bool = False
    """Whether it keeps packets. A client that is paused meanwhile gives its connection up when it resumes,
    and a proxy may freeze when it delivers to a closed connection (Shopify/toxiproxy issue 558)."""


@dataclass(frozen=True, slots=True)
class Sign:
    """The effect of a fault, by which a picture chooses its mark; the text beside it, if it has one."""

    effect: Effect
    words: str = ""
    lossy: bool = False
    """For a link: whether what is sent through it is lost."""


class FaultStep(StepModel):
    """A step that injects a fault. Its key is the fault's name in a history."""

    ENDED_BY: ClassVar[str | None] = None
    """The key of the step that ends it; None: it needs no end."""
    DRAWN: ClassVar[Drawing | None] = None
    """How a workload draws it; None: it is never drawn."""
    SIGN: ClassVar[Sign]
    """How a picture shows it."""

    @property
    def nodes_named(self) -> tuple[str, ...]:
        """The nodes of the cluster that its body names; none if it means all of them, or a client alone."""
        node, nodes = getattr(self, "node", None), getattr(self, "nodes", None)
        return (node,) if node else tuple(nodes) if isinstance(nodes, tuple) else ()
