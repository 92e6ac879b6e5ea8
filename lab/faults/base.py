"""The base class of faults: steps that act through the ``Cluster`` protocol and return a receipt.

A fault without a receipt proves nothing, so a run with one is ``unknown``.
"""

from __future__ import annotations

import asyncio
import functools
from abc import abstractmethod
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from lab.redis_model.persistence import Persistence
from lab.scenario.fault_step import FaultStep
from lab.scenario.registry import steps
from lab.scenario.step_base import StepModel
from lab.substrates.base import STORE, Capability, Cluster, Link, Machine, Node

T = TypeVar("T")
PROBE_TIMEOUT_S = 0.05
"""How long a probe through a broken link waits before it counts as unanswered."""
AROUND_TIMEOUT_S = 2.0
"""How long a probe waits where an answer is expected."""

TARGETS = ("client", "node", "nodes", "store", "from_node", "to")
"""The fields by which a fault, and the step that ends it, name what they hit."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Evidence, observed before and after, that a fault did (``confirmed``) or did not take effect."""

    confirmed: bool
    evidence: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What a fault hits, as text and as names.

    ``ends`` can be healed one by one: the far ends of links, or machines. ``near`` is the near end of links.
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
    """What the locks under test are assumed to tolerate; a fault beyond it breaks an assumption."""

    clock_error_ns: int
    clock_rate: float = 0.001
    network_delay_ns: int = 1_000_000_000
    """A delay this long is no longer small against a lease: a tenth of the TTL."""
    persistence: Persistence = "aof-always"
    evicts: bool = False
    """Whether nodes may evict keys when their memory is full."""


class Fault(FaultStep):
    """One kind of fault, and as an object one fault of a scenario or of a schedule."""

    NEEDS: ClassVar[Capability]
    """What a substrate must be able to do."""
    BREAKS: ClassVar[str | None] = None
    """The assumption that it always breaks, if it breaks one."""
    PASSES: ClassVar[bool] = False
    """Whether it is over as soon as it has its receipt."""
    RULES_OUT: ClassVar[tuple[str, ...]] = ()
    """Keys of the steps that could end other faults on its target, and can't any more."""
    TOOLS: ClassVar[tuple[str, ...]] = ()
    """What it needs on this machine beyond the needs of every local run: items of ``lab doctor``."""

    @property
    def needs(self) -> Capability:
        """What a substrate must be able to do for this one."""
        return self.NEEDS

    @property
    @abstractmethod
    def clause(self) -> str:
        """What it does, for people: "the clock of C jumps forward by 11 s"."""

    @property
    def ended_clause(self) -> str:
        """What is so when it has been ended: "Alice goes on"; empty if nothing needs to be said."""
        return ""

    @abstractmethod
    def target(self, cluster: Cluster) -> Target:
        """What it hits."""

    def breaks(self, tolerance: Tolerance) -> str | None:
        """Name the assumption that this one breaks, if it breaks one."""
        return self.BREAKS

    @abstractmethod
    async def inject(self, cluster: Cluster) -> Receipt:
        """Inject it, and observe its effect."""

    def ending(self) -> StepModel | None:
        """The step that ends it alone; None: it needs no end."""
        return None if self.ENDED_BY is None else _ending_of(self)

    def parts(self, cluster: Cluster) -> tuple[Fault, ...]:
        """Its parts, if they are ended one by one; else none."""
        return ()

    @property
    def kills(self) -> str | None:
        """The client that is killed, whose operation is no longer awaited."""
        return None

    def observed_before(self, cluster: Cluster) -> tuple[str, ...]:
        """The nodes whose state is recorded just before, since it is lost with them."""
        return ()

    def observed_after(self) -> tuple[str, ...]:
        """The nodes whose state is recorded just after."""
        return ()


@functools.lru_cache(maxsize=1024)
def _ending_of(fault: Fault) -> StepModel:
    end = steps()[fault.ENDED_BY or ""]
    named = {name: getattr(fault, name, None) for name in TARGETS if name in end.model_fields}
    return end.model_construct(**{name: value for name, value in named.items() if value is not None})


def all_faults() -> list[type[Fault]]:
    """Every kind of fault, by its key."""
    return [step for step in steps().values() if issubclass(step, Fault)]


def node_names(nodes: str | tuple[str, ...] | None, cluster: Cluster) -> tuple[str, ...]:
    """Return the nodes that a step means, in the cluster's order."""
    return tuple(cluster.nodes) if nodes == "all" or nodes is None else tuple(nodes)


def machine(name: str, cluster: Cluster) -> Machine:
    """Return the node, Sentinel or client of that name."""
    return cluster.clients[name] if name in cluster.clients else server_named(name, cluster)


def server_named(name: str, cluster: Cluster) -> Node:
    """Return the node or Sentinel of that name."""
    return cluster.nodes[name] if name in cluster.nodes else cluster.sentinels[name]


def server_behind(link: Link, cluster: Cluster) -> Node:
    """Return the server at the far end of a link."""
    return cluster.store_node if link.target == STORE else server_named(link.target, cluster)


def is_running(node: Node) -> bool:
    """Whether a node is up and not paused."""
    return node.alive and "T" not in node.states().values()


async def answers(node: Node) -> bool:
    """Whether a node is up, not paused, and answers a probe."""
    return is_running(node) and (await node.probe(AROUND_TIMEOUT_S)).reached


def together(shown: Mapping[str, tuple[bool, Mapping[str, Any]]]) -> Receipt:
    """One receipt of several: confirmed if each of them is."""
    return Receipt(
        all(confirmed for confirmed, _ in shown.values()),
        {name: dict(evidence) for name, (_, evidence) in shown.items()},
    )


async def all_at_once(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of these come to, done at once; one alone needs no task of its own.

    In a trial of a search none of them waits for anything: one after the other is at once.
    """
    if getattr(asyncio.get_running_loop(), "takes_no_time", False):
        return [await work for work in works]
    todo = list(works)
    return [await todo[0]] if len(todo) == 1 else list(await asyncio.gather(*todo))


def ms(duration_ns: int) -> float:
    """Milliseconds, for a receipt."""
    return round(duration_ns / 1e6, 3)


def named(nodes: str | tuple[str, ...] | None) -> str:
    """Nodes in a sentence: "A and B", "all nodes"."""
    if nodes == "all" or nodes is None:
        return "all nodes"
    return " and ".join(", ".join(nodes).rsplit(", ", 1))
