"""Steps that are impossible after those before them: a paused client acts, a node that is up is restarted.

A run of such steps would end in a time-out, long after the mistake; the error here names line and key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING

from pydantic_core import PydanticCustomError

from lab.scenario.actions import Action
from lab.scenario.anchors import (
    ClientAt,
    HeldDown,
    Leads,
    MasterIs,
    NodesExecuted,
    NodesUp,
    Replicated,
    RoleIs,
    Synced,
)
from lab.scenario.problems import Loc, problem
from lab.scenario.step_base import StepModel
from lab.scenario.steps import Do, Finish, Operation, Start, Until
from lab.scenario.types import Nodes
from lab.servers import replication_links

if TYPE_CHECKING:
    from lab.scenario.model import Cluster

Found = tuple[Loc, PydanticCustomError]


@dataclass(frozen=True)
class ClusterShape:
    """The nodes of a run, their kind, which replicates which, what they keep, and their directives."""

    nodes: tuple[str, ...] = ()
    replicas: Mapping[str, str] = field(default_factory=dict)
    persistence: str = "aof-always"
    service: str = "redis"
    config: Mapping[str, str] = field(default_factory=dict)
    sentinels: tuple[str, ...] = ()
    sharded: bool = False

    @classmethod
    def of(cls, cluster: Cluster) -> ClusterShape:
        """The shape of a scenario's cluster."""
        return cls(
            cluster.node_names,
            cluster.replicas,
            cluster.persistence,
            cluster.service,
            cluster.config,
            cluster.sentinel_names,
            cluster.sharded,
        )

    @property
    def servers(self) -> str:
        """The servers that have a link between any two of them, in words; empty if there are none."""
        if self.service != "redis":
            return f"servers of {self.service}"
        if self.sentinels:
            return "servers under Sentinel"
        return "nodes of a Redis Cluster" if self.sharded else ""

    @property
    def reporters(self) -> tuple[str, ...]:
        """Those who report which node is the master."""
        return self.nodes if self.sharded else self.sentinels

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The links between servers: from a replica to its master, or between any two of them.

        With Sentinels, or in a Redis Cluster, which node replicates which other one changes during the run.
        """
        if not self.servers:
            return replication_links(self.replicas)
        return tuple(permutations((*self.nodes, *self.sentinels), 2))

    def names(self, nodes: Nodes) -> tuple[str, ...]:
        """A set of nodes: "all" written out."""
        return self.nodes if nodes == "all" else nodes


@dataclass
class StepState:
    """The state after the steps so far: who is busy, paused, killed, down."""

    shape: ClusterShape
    anything_started: bool = False
    busy: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    """Clients and nodes."""
    stopped: set[str] = field(default_factory=set)
    """Clients that stopped, or may have stopped, at a pause point."""
    dead: set[str] = field(default_factory=set)
    """Clients that were killed."""
    down: set[str] = field(default_factory=set)
    """Nodes that are down without a restart that has begun."""
    promoted: set[str] = field(default_factory=set)
    stalled: set[str] = field(default_factory=set)
    """Nodes whose disk stalls."""
    full: set[str] = field(default_factory=set)
    """Nodes whose memory is full."""
    moving: str = ""
    """The master that the slot of the lock's key is being moved to."""

    def unless_killed(self, client: str | None, loc: Loc) -> Iterator[Found]:
        """Refuse a client that was killed."""
        if client in self.dead:
            yield loc, problem(f"{client} was killed and does not come back", "another client")

    def unless_down(self, nodes: Nodes) -> Iterator[Found]:
        """Refuse nodes that are down already."""
        if gone := [name for name in self.shape.names(nodes) if name in self.down]:
            yield ("nodes",), problem(f"{are(gone)} down already", "a restart before it")


def impossible(steps: Iterable[StepModel], shape: ClusterShape | None = None) -> Iterator[Found]:
    """Every place in the list of steps with something that can't happen, and why."""
    state = StepState(shape or ClusterShape())
    for at, step in enumerate(steps):
        for loc, error in _in_step(step, state):
            yield (at, step.KEY, *loc), error


def _in_step(step: StepModel, state: StepState) -> Iterator[Found]:
    match step:
        case Do():
            for at, action in enumerate(step.actions):
                yield from _in_action(action, ("actions", at), state, awaited=True)
        case Start():
            yield from _in_action(step.action, ("action",), state, awaited=False)
            state.busy.add(step.action.client)
            state.anything_started = True
        case Finish():
            for at, client in enumerate(step.clients):
                yield from _in_finish(client, ("clients", at), state)
                state.busy.discard(client)
        case Until():
            yield from _in_until(step, state)
        case Operation():
            yield from _in_operation(step, state)
        case _:
            yield from step.impossible(state)


def _in_action(action: Action, loc: Loc, state: StepState, *, awaited: bool) -> Iterator[Found]:
    client = action.client
    if client in state.dead:
        yield from state.unless_killed(client, loc)
    elif client in state.busy:
        expected, hint = "one operation of a client at a time", f"put the step {{finish: {client}}} before it"
        yield loc, problem(f"{client} is still busy with what it was started on", expected, hint)
    elif awaited and client in state.paused:
        hint = f"put the step {{resume: {{client: {client}}}}} before it"
        yield loc, problem(f"{client} is paused, so this never ends", "a client that isn't paused", hint)
    if action.verb == "continues" and client not in state.stopped:
        yield loc, problem(f"{client} waits at no pause point", f'"{client} works until …" before it')
    if action.verb in ("works", "continues"):
        (state.stopped.add if action.until is not None else state.stopped.discard)(client)


def _in_operation(step: Operation, state: StepState) -> Iterator[Found]:
    if step.client is None:
        yield (), problem(f"it does not say who {step.KEY}s", "client: one of the scenario's clients")
    for word in ("cancel", "insist_ns"):
        if getattr(step, word, None) is not None:
            name = word.removesuffix("_ns")
            yield (
                (name,),
                problem(f"{name} is there in a list of steps", "tracks, where actions go on beside it"),
            )
    if step.client in state.dead | state.busy | state.paused:
        expected = "a client that is free: alive, not paused, not busy"
        yield ("client",), problem(f"{step.client} can't {step.KEY} now", expected)


def _in_finish(client: str, loc: Loc, state: StepState) -> Iterator[Found]:
    if client in state.dead:
        yield from state.unless_killed(client, loc)
    elif client not in state.busy:
        yield loc, problem(f"{client} has nothing to finish", f"{{start: {client} …}} before it")
    elif client in state.paused:
        hint = f"put the step {{resume: {{client: {client}}}}} before it"
        yield loc, problem(f"{client} is paused, so this never ends", "a client that isn't paused", hint)


def _in_until(step: Until, state: StepState) -> Iterator[Found]:
    anchor = step.anchor
    if isinstance(anchor, NodesExecuted) and not state.anything_started:
        expected = "a start step before it, since only what was executed after that counts"
        yield ("executed",), problem("nothing was started yet", expected)
    elif isinstance(anchor, ClientAt):
        if anchor.client not in state.stopped or anchor.client not in state.busy:
            expected = f"{{start: {anchor.client} works until {anchor.at}}} before it"
            yield ("at",), problem(f"{anchor.client} was not started on work that stops", expected)
        state.busy.discard(anchor.client)
    elif isinstance(anchor, NodesUp):
        if gone := [name for name in state.shape.names(anchor.nodes) if name in state.down]:
            yield ("up",), problem(f"{are(gone)} down for good", "a restart before it")
    elif isinstance(anchor, Synced) and state.shape.persistence == "none":
        yield ("synced",), problem("these nodes keep nothing on disk", "another cluster.persistence")
    elif isinstance(anchor, Leads):
        if state.shape.service == "redis":
            yield ("leads",), problem("Redis nodes have no leader", "cluster.service: etcd or zookeeper")
    elif isinstance(anchor, MasterIs | HeldDown | RoleIs):
        yield from _in_failover_anchor(anchor, state.shape)
    elif isinstance(anchor, Replicated):
        names = state.shape.names(anchor.nodes)
        replicas = set(state.shape.replicas) - state.promoted
        if alien := [name for name in names if name not in replicas]:
            yield ("replicated",), problem(f"{are(alien)} no replica", "nodes from cluster.replicas")


def _in_failover_anchor(anchor: MasterIs | HeldDown | RoleIs, shape: ClusterShape) -> Iterator[Found]:
    if isinstance(anchor, RoleIs):
        if shape.service != "redis":
            yield ("role_of",), problem(f"a server of {shape.service} is no Redis", "Redis nodes")
    elif not shape.reporters:
        expected = "a cluster with Sentinels, like sentinels: 3, or a Redis Cluster: sharded: true"
        yield (anchor.KEY,), problem("there are no Sentinels that could report that", expected)
    elif anchor.by != "all" and (alien := [name for name in anchor.by if name not in shape.reporters]):
        yield ("by",), problem(f"{are(alien)} no Sentinel", ", ".join(shape.reporters))


def are(names: Iterable[str]) -> str:
    """Names as a subject, with its verb: "A, B are"."""
    listed = list(names)
    return f"{', '.join(listed)} {'is' if len(listed) == 1 else 'are'}"
