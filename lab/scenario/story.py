"""Stories that can't be told: a client that acts while it is paused, a restart of a node that is up.

Such a story would only end in a time-out, long after the mistake; found here, it has a line and a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations

from pydantic_core import PydanticCustomError

from lab.scenario.actions import Action
from lab.scenario.anchors import ClientAt, Leads, NodesExecuted, NodesUp, Replicated, Synced
from lab.scenario.problems import Loc, problem
from lab.scenario.step_base import StepModel
from lab.scenario.step_link import Cut, Heal, LinkStep
from lab.scenario.step_machine import (
    ClientCrash,
    Crash,
    MachineStep,
    Pause,
    PowerCut,
    Prime,
    Promote,
    Restart,
    Resume,
    Shutdown,
)
from lab.scenario.steps import Do, Finish, Start, Until
from lab.scenario.types import Nodes

Found = tuple[Loc, PydanticCustomError]


@dataclass(frozen=True)
class Stage:
    """What the story is told on: the nodes, their kind, which replicates which, and what they keep."""

    nodes: tuple[str, ...] = ()
    replicas: Mapping[str, str] = field(default_factory=dict)
    persistence: str = "aof-always"
    service: str = "redis"

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The links between nodes: from a replica to its master, or between two servers of a service."""
        if self.service == "redis":
            return tuple(self.replicas.items())
        return tuple(permutations(self.nodes, 2))

    def names(self, nodes: Nodes) -> tuple[str, ...]:
        """A set of nodes: "all" written out."""
        return self.nodes if nodes == "all" else nodes


@dataclass
class _Told:
    """What the story has told so far."""

    stage: Stage
    anything_started: bool = False
    busy: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    """Clients and nodes."""
    stopped: set[str] = field(default_factory=set)
    """Clients that stopped, or may have stopped, in the middle of their work."""
    dead: set[str] = field(default_factory=set)
    """Clients that were killed."""
    down: set[str] = field(default_factory=set)
    """Nodes that are down and that nobody asked to come back."""
    promoted: set[str] = field(default_factory=set)


def impossible(steps: Iterable[StepModel], stage: Stage | None = None) -> Iterator[Found]:
    """Every place in the list of steps where the story asks for something that can't happen, and why."""
    told = _Told(stage or Stage())
    for at, step in enumerate(steps):
        for loc, error in _in_step(step, told):
            yield (at, step.KEY, *loc), error


def _in_step(step: StepModel, told: _Told) -> Iterator[Found]:
    match step:
        case Do():
            for at, action in enumerate(step.actions):
                yield from _in_action(action, ("actions", at), told, awaited=True)
        case Start():
            yield from _in_action(step.action, ("action",), told, awaited=False)
            told.busy.add(step.action.client)
            told.anything_started = True
        case Finish():
            for at, client in enumerate(step.clients):
                yield from _in_finish(client, ("clients", at), told)
                told.busy.discard(client)
        case ClientCrash():
            yield from _alive(step.client, ("client",), told)
            told.dead.add(step.client)
            told.busy.discard(step.client)
        case LinkStep():
            yield from _in_link(step, told)
        case MachineStep():
            yield from _in_machine(step, told)
        case Crash() | Shutdown() | PowerCut() | Restart() | Promote() | Prime():
            yield from _in_node_step(step, told)
        case Until():
            yield from _in_until(step, told)


def _in_action(action: Action, loc: Loc, told: _Told, *, awaited: bool) -> Iterator[Found]:
    client = action.client
    if client in told.dead:
        yield from _alive(client, loc, told)
    elif client in told.busy:
        expected, hint = "one operation of a client at a time", f"put the step {{finish: {client}}} before it"
        yield loc, problem(f"{client} is still busy with what it was started on", expected, hint)
    elif awaited and client in told.paused:
        hint = f"put the step {{resume: {{client: {client}}}}} before it"
        yield loc, problem(f"{client} is paused, so this never ends", "a client that isn't paused", hint)
    if action.verb == "continues" and client not in told.stopped:
        yield loc, problem(f"{client} did not stop on its way", f'"{client} works until …" before it')
    if action.verb in ("works", "continues"):
        (told.stopped.add if action.until is not None else told.stopped.discard)(client)


def _in_finish(client: str, loc: Loc, told: _Told) -> Iterator[Found]:
    if client in told.dead:
        yield from _alive(client, loc, told)
    elif client not in told.busy:
        yield loc, problem(f"{client} has nothing to finish", f"{{start: {client} …}} before it")
    elif client in told.paused:
        hint = f"put the step {{resume: {{client: {client}}}}} before it"
        yield loc, problem(f"{client} is paused, so this never ends", "a client that isn't paused", hint)


def _in_machine(step: MachineStep, told: _Told) -> Iterator[Found]:
    word, name = ("node", step.node) if step.node is not None else ("client", step.client or "")
    if name in told.dead:
        yield from _alive(name, (word,), told)
    elif isinstance(step, Pause):
        if name in told.paused:
            yield (word,), problem(f"{name} is paused already", "one pause, then one resume")
        elif name in told.down:
            yield (word,), problem(f"node {name} is down, so it can't be paused", "a restart before it")
        told.paused.add(name)
    elif isinstance(step, Resume):
        if name not in told.paused:
            yield (word,), problem(f"{name} is not paused", "a pause before it")
        told.paused.discard(name)


def _in_link(step: LinkStep, told: _Told) -> Iterator[Found]:
    if step.client is not None and step.client in told.dead:
        yield from _alive(step.client, ("client",), told)
    if step.node is None:
        return
    stage = told.stage
    if (step.node, step.from_node) not in stage.links:
        pairs = " or ".join(f"{{node: {one}, from: {other}}}" for one, other in stage.links[:3])
        seen = f"there is no link from {step.node} to {step.from_node}"
        if stage.service == "redis":
            seen = f"{step.node} is no replica of {step.from_node}, so there is no link between them"
        yield ("node",), problem(seen, pairs or "a cluster with replicas, like {B: A}")
    elif stage.service != "redis" and not (
        isinstance(step, Heal) or (isinstance(step, Cut) and step.direction == "both")
    ):
        seen = f"the links between servers of {stage.service} can be cut only, and in both directions"
        yield ("node",), problem(seen, f"{{cut: {{node: {step.node}, from: {step.from_node}}}}}")


def _in_node_step(
    step: Crash | Shutdown | PowerCut | Restart | Promote | Prime, told: _Told
) -> Iterator[Found]:
    if isinstance(step, Promote):
        yield from _in_promote(step, told)
        return
    names = told.stage.names(step.nodes)
    if isinstance(step, Restart):
        if not told.down & set(names):
            yield ("nodes",), problem(f"{_are(names)} not down", "a crash, shutdown or power_cut before it")
        told.down -= set(names)
        return
    if gone := [name for name in names if name in told.down]:
        yield ("nodes",), problem(f"{_are(gone)} down already", "a restart before it")
    if isinstance(step, Prime):
        if told.stage.persistence != "aof-everysec":
            seen = f"with persistence {told.stage.persistence} no write is left to the next sync"
            yield ("nodes",), problem(seen, "cluster.persistence: aof-everysec")
        return
    if isinstance(step, PowerCut) and told.stage.persistence == "none":
        yield ("nodes",), problem("these nodes keep nothing on disk", "persistence, or a crash instead")
    told.down |= set(names)


def _in_promote(step: Promote, told: _Told) -> Iterator[Found]:
    if step.node not in told.stage.replicas or step.node in told.promoted:
        yield ("node",), problem(f"{step.node} is no replica", "a node from cluster.replicas")
    elif step.node in told.down:
        yield ("node",), problem(f"{step.node} is down", "a restart before it")
    told.promoted.add(step.node)


def _in_until(step: Until, told: _Told) -> Iterator[Found]:
    anchor = step.anchor
    if isinstance(anchor, NodesExecuted) and not told.anything_started:
        expected = "a start step before it, since only what was executed after that counts"
        yield ("executed",), problem("nothing was started yet", expected)
    elif isinstance(anchor, ClientAt):
        if anchor.client not in told.stopped or anchor.client not in told.busy:
            expected = f"{{start: {anchor.client} works until {anchor.at}}} before it"
            yield ("at",), problem(f"{anchor.client} was not started on work that stops", expected)
        told.busy.discard(anchor.client)
    elif isinstance(anchor, NodesUp):
        if gone := [name for name in told.stage.names(anchor.nodes) if name in told.down]:
            yield ("up",), problem(f"{_are(gone)} down for good", "a restart before it")
    elif isinstance(anchor, Synced) and told.stage.persistence == "none":
        yield ("synced",), problem("these nodes keep nothing on disk", "another cluster.persistence")
    elif isinstance(anchor, Leads):
        if told.stage.service == "redis":
            yield ("leads",), problem("Redis nodes have no leader", "cluster.service: etcd or zookeeper")
    elif isinstance(anchor, Replicated):
        names = told.stage.names(anchor.nodes)
        if alien := [name for name in names if name not in told.stage.replicas]:
            yield ("replicated",), problem(f"{_are(alien)} no replica", "nodes from cluster.replicas")


def _alive(client: str, loc: Loc, told: _Told) -> Iterator[Found]:
    if client in told.dead:
        yield loc, problem(f"{client} was killed and does not come back", "another client")


def _are(names: Iterable[str]) -> str:
    listed = list(names)
    return f"{', '.join(listed)} {'is' if len(listed) == 1 else 'are'}"
