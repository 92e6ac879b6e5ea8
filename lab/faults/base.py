"""What a fault is: an injection through the ``Cluster`` protocol, and the receipt that proves it took effect.

A fault without a receipt proves nothing, so a run that has one is ``unknown``. A new fault is one file beside
this one, and its class in ``FAULTS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from lab.redis_model.persistence import Persistence
from lab.scenario.step_base import StepModel
from lab.substrates.base import STORE, Capability, Cluster, Link, Machine, Node

StepT = TypeVar("StepT", bound=StepModel, contravariant=True)

PROBE_TIMEOUT_S = 0.05
"""How long a probe through a broken link waits before it counts as unanswered."""
AROUND_TIMEOUT_S = 2.0
"""How long a probe waits where an answer is expected."""

Ending = Literal["heal", "resume", "correct", "restart", "itself", "nothing"]
"""What ends a fault: a step of this name, the fault itself once it has its receipt, or nothing."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Evidence, observed before and after, that a fault did (``confirmed``) or did not take effect."""

    confirmed: bool
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a fault hits, in words for people, and as names.

    ``ends`` are what can be healed one by one: the far ends of links, or machines. ``near`` is the near end
    of the links, if links are hit.
    """

    words: str
    ends: tuple[str, ...]
    near: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names, the near end first."""
        return self.ends if self.near is None else (self.near, *self.ends)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What the locks under test are said to bear; a fault beyond it breaks an assumption."""

    clock_error_ns: int
    clock_rate: float = 0.001
    network_delay_ns: int = 1_000_000_000
    """A delay this long is no longer small against a lease: a tenth of the TTL."""
    persistence: Persistence = "aof-always"


class Fault(Protocol[StepT]):
    """One kind of fault. ``f`` is its name in the history."""

    f: ClassVar[str]
    ended_by: ClassVar[Ending]

    def needs(self, step: StepT) -> Capability:
        """Say what a substrate must be able to do."""
        ...

    def target(self, step: StepT, cluster: Cluster) -> Target:
        """Say whom this step hits."""
        ...

    def breaks(self, step: StepT, tolerance: Tolerance) -> str | None:
        """Name the assumption that this step breaks, if it breaks one."""
        ...

    async def inject(self, step: StepT, cluster: Cluster) -> Receipt:
        """Do it, and observe that it was done."""
        ...


@dataclass(slots=True)
class Open:
    """A fault that lasts until it is ended. A part of it that is ended leaves one with fewer ``ends``."""

    fault_id: str
    f: str
    ended_by: Ending
    target: Target
    breaks: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


def node_names(nodes: str | tuple[str, ...] | None, cluster: Cluster) -> tuple[str, ...]:
    """Return the nodes that a step means, in the cluster's order."""
    return tuple(cluster.nodes) if nodes == "all" or nodes is None else tuple(nodes)


def machine(name: str, cluster: Cluster) -> Machine:
    """Return the node or client of that name."""
    return cluster.nodes[name] if name in cluster.nodes else cluster.clients[name]


def server_behind(link: Link, cluster: Cluster) -> Node:
    """Return the server at the far end of a link."""
    return cluster.store_node if link.target == STORE else cluster.nodes[link.target]


def is_awake(node: Node) -> bool:
    """Whether a node is up and does not stand still."""
    return node.alive and "T" not in node.states().values()


async def answers(node: Node) -> bool:
    """Whether a node can answer anybody: it is up, does not stand still, and answers a probe."""
    return is_awake(node) and (await node.probe(AROUND_TIMEOUT_S)).reached


def together(shown: Mapping[str, tuple[bool, Mapping[str, Any]]]) -> Receipt:
    """One receipt of several: confirmed if each of them is."""
    return Receipt(
        all(confirmed for confirmed, _ in shown.values()),
        {name: dict(evidence) for name, (_, evidence) in shown.items()},
    )


def ms(duration_ns: int) -> float:
    """Milliseconds, for a receipt."""
    return round(duration_ns / 1e6, 3)
