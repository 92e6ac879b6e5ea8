"""What a fault says of itself to those below it: how a workload draws it, and its sign in a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from lab.scenario.step_base import StepModel

Hits = Literal["links", "machine", "nodes", "client"]
Effect = Literal["link", "clock", "pause", "down", "promotion"]
"""A link that is broken, a clock that is wrong, what stands still, is down or gone, or became a master."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a workload draws a fault: what is drawn for it, and what must not happen meanwhile.

    ``hits`` says what its step names: links of clients to nodes or the store, one machine (a client or a
    node), nodes, or a client.
    """

    hits: Hits
    nodes_first: bool = False
    """Of one that hits a machine: that of a node, unless clients are named; else that of a client."""
    may_stay: bool = False
    """Whether it may go without ``lasts``: what it did is undone when the run is over."""
    stops: bool = False
    """Whether what it hits stands still, or is down, until it is ended: it takes its links with it."""
    keeps: bool = False
    """Whether it keeps packets. A client that is paused meanwhile gives its connection up when it wakes, and
    a proxy may freeze when it is to deliver to a connection that is dead (Shopify/toxiproxy issue 558)."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What a fault does to what it hits, by which a picture chooses its mark; of a link, the words there."""

    effect: Effect
    words: str = ""
    lossy: bool = False
    """Of a link: whether what is sent through it is lost."""


class FaultStep(StepModel):
    """A step that breaks something. Its key is its name in a history."""

    ENDED_BY: ClassVar[str | None] = None
    """The key of the step that ends it; None: nothing has to."""
    DRAWN: ClassVar[Drawing | None] = None
    """How a workload draws it; None: a workload can't."""
    SIGN: ClassVar[Sign]
    """How a picture shows it."""
