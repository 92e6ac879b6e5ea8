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
class StoryState:
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

    def unless_killed(self, client: str | None, loc: Loc) -> Iterator[Found]:
        """Refuse a client that was killed."""
        if client in self.dead:
            yield loc, problem(f"{client} was killed and does not come back", "another client")

    def unless_down(self, nodes: Nodes) -> Iterator[Found]:
        """Refuse nodes that are down already."""
        if gone := [name for name in self.stage.names(nodes) if name in self.down]:
            yield ("nodes",), problem(f"{are(gone)} down already", "a restart before it")


def impossible(steps: Iterable[StepModel], stage: Stage | None = None) -> Iterator[Found]:
    """Every place in the list of steps where the story asks for something that can't happen, and why."""
    told = StoryState(stage or Stage())
    for at, step in enumerate(steps):
        for loc, error in _in_step(step, told):
            yield (at, step.KEY, *loc), error


def _in_step(step: StepModel, told: StoryState) -> Iterator[Found]:
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
        case Until():
            yield from _in_until(step, told)
        case _:
            yield from step.impossible(told)


def _in_action(action: Action, loc: Loc, told: StoryState, *, awaited: bool) -> Iterator[Found]:
    client = action.client
    if client in told.dead:
        yield from told.unless_killed(client, loc)
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


def _in_finish(client: str, loc: Loc, told: StoryState) -> Iterator[Found]:
    if client in told.dead:
        yield from told.unless_killed(client, loc)
    elif client not in told.busy:
        yield loc, problem(f"{client} has nothing to finish", f"{{start: {client} …}} before it")
    elif client in told.paused:
        hint = f"put the step {{resume: {{client: {client}}}}} before it"
        yield loc, problem(f"{client} is paused, so this never ends", "a client that isn't paused", hint)


def _in_until(step: Until, told: StoryState) -> Iterator[Found]:
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
            yield ("up",), problem(f"{are(gone)} down for good", "a restart before it")
    elif isinstance(anchor, Synced) and told.stage.persistence == "none":
        yield ("synced",), problem("these nodes keep nothing on disk", "another cluster.persistence")
    elif isinstance(anchor, Leads):
        if told.stage.service == "redis":
            yield ("leads",), problem("Redis nodes have no leader", "cluster.service: etcd or zookeeper")
    elif isinstance(anchor, Replicated):
        names = told.stage.names(anchor.nodes)
        if alien := [name for name in names if name not in told.stage.replicas]:
            yield ("replicated",), problem(f"{are(alien)} no replica", "nodes from cluster.replicas")


def are(names: Iterable[str]) -> str:
    """Names as a subject, with its verb: "A, B are"."""
    listed = list(names)
    return f"{', '.join(listed)} {'is' if len(listed) == 1 else 'are'}"
