"""Anchors: events that a scenario waits for, observed on the nodes and never guessed from a clock.

A new anchor is one class here, with the key that identifies it, and its name in `Anchor` and `AnyAnchor`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from lab.client_protocol import Point
from lab.durations import UNITS_NS
from lab.scenario.problems import choice, kind, nearest, problem, shown
from lab.scenario.types import Bool, ClientName, Int, Model, NodeName, Nodes, PositiveNs

WITHIN_NS: Final = 10 * UNITS_NS["s"]
"""How long an anchor is waited for when the scenario doesn't say; after that the run is `unknown`."""

Within = Annotated[
    PositiveNs,
    Field(
        alias="within",
        description="How long to wait; an anchor that is never observed makes the run `unknown`.",
    ),
]


NOT_SEEN: Final = ("GET", "PTTL", "ECHO", "INFO", "TIME", "CLIENT", "MONITOR", "PING")
"""Commands that the lab sends to nodes itself: those of a client are not told from them."""


def _command(name: Any) -> str:
    """Checks the name of a command, in capitals."""
    expected = "the name of a command on the key, in capitals: SET, PEXPIRE, DEL, EVALSHA"
    if not isinstance(name, str):
        raise problem(f"{shown(name)} is no text", expected)
    if re.fullmatch(COMMAND, name) is None:
        upper = name.upper()
        hint = f'did you mean "{upper}"?' if re.fullmatch(COMMAND, upper) else None
        raise problem(f"{shown(name)} is not possible here", expected, hint)
    if name in NOT_SEEN:
        raise problem(f"{name} is not possible here: the lab looks at nodes by it as well", expected)
    return name


COMMAND: Final = r"[A-Z][A-Z0-9_.]*"
CommandName = Annotated[
    str, BeforeValidator(_command), WithJsonSchema({"type": "string", "pattern": f"^{COMMAND}$"})
]


class NodesExecuted(Model):
    """Each of these nodes has executed a command on the lock's key since the previous `start` step.

    `times`: at least so often, for a library that tries again.
    """

    KEY: ClassVar[str] = "executed"

    executed: CommandName
    """The command, by itself or in a script: SET grants a key, PEXPIRE prolongs it, DEL gives it back."""
    nodes: Nodes
    """The nodes that must have executed it."""
    times: Annotated[Int, Field(ge=1, le=1000)] = 1
    """How often, at least."""
    within_ns: Within = WITHIN_NS


class KeysGone(Model):
    """The lock's key exists on none of these nodes any more."""

    KEY: ClassVar[str] = "keys"

    keys: Literal["gone"]
    """The state that the keys must have reached."""
    nodes: Nodes = "all"
    """The nodes that must have lost the key."""
    within_ns: Within = WITHIN_NS


class VoteSplit(Model):
    """Each of these nodes holds the lock's key, and no value of it stands on a majority of them."""

    KEY: ClassVar[str] = "vote"

    vote: Literal["split"]
    """The state that the keys must have reached."""
    nodes: Nodes = "all"
    """The nodes that were asked."""
    within_ns: Within = WITHIN_NS


class LeaseOver(Model):
    """The lease of a client is certainly over, or certainly not over yet, within the bound on clock drift."""

    KEY: ClassVar[str] = "lease"

    lease: ClientName
    """The client whose lease is meant."""
    over: Bool
    """True: it is certainly over; false: it certainly lasts on, which is checked once, now."""
    within_ns: Within = WITHIN_NS


class NodesUp(Model):
    """Each of these nodes is up and answers: the end of a delayed restart."""

    KEY: ClassVar[str] = "up"

    up: Literal[True]
    """Always true: it makes the sentence readable."""
    nodes: Nodes
    """The nodes that must be up."""
    within_ns: Within = WITHIN_NS


class ClientAt(Model):
    """A started client has stopped at the point that `until` in its sentence names."""

    KEY: ClassVar[str] = "at"

    at: Point
    """The point at which it must have stopped."""
    client: ClientName
    """The client."""
    within_ns: Within = WITHIN_NS


class Synced(Model):
    """The last write of the lock's key on each of these nodes is, or is not yet, synced to disk.

    With the persistence `rdb` that is so once a snapshot holds all changes.
    """

    KEY: ClassVar[str] = "synced"

    synced: Bool
    """False: it is written and not synced, which is checked once, now; true: it is synced."""
    nodes: Nodes
    """The nodes whose disks are checked."""
    within_ns: Within = WITHIN_NS


class Replicated(Model):
    """What its master holds under the lock's key has, or has not, reached each of these replicas."""

    KEY: ClassVar[str] = "replicated"

    replicated: Bool
    """False: the master holds it and the replica does not, checked once, now; true: both hold the same."""
    nodes: Nodes
    """The replicas."""
    within_ns: Within = WITHIN_NS


class Leads(Model):
    """One of these servers leads its peers, or none of them does; each is asked directly, past all links."""

    KEY: ClassVar[str] = "leads"

    leads: Bool
    """True: one of them reports that it leads; false: none does."""
    nodes: Nodes
    """The servers that are asked."""
    within_ns: Within = WITHIN_NS


class MasterIs(Model):
    """The Sentinels name this node as the master, and it says of itself that it is one.

    In a Redis Cluster: its nodes name it as the one that serves the slot of the lock's key.
    """

    KEY: ClassVar[str] = "master"

    master: NodeName
    """The node that must be the master."""
    by: Nodes = "all"
    """The Sentinels, or the nodes of a Redis Cluster, that must name it; "all" are those that run."""
    within_ns: Within = WITHIN_NS


class HeldDown(Model):
    """The Sentinels, or the nodes of a Redis Cluster, hold this server to be down, each by itself."""

    KEY: ClassVar[str] = "sdown"

    sdown: NodeName
    """The node or Sentinel that is held to be down."""
    by: Nodes = "all"
    """The Sentinels, or the nodes, that must hold it to be down; "all" are those that run, without itself."""
    within_ns: Within = WITHIN_NS


class RoleIs(Model):
    """Asked past all links, this node says that it is a master or a replica."""

    KEY: ClassVar[str] = "role_of"

    role_of: NodeName
    """The node."""
    role: Literal["master", "replica"] = Field(alias="is")
    """What it must say."""
    within_ns: Within = WITHIN_NS


Anchor = (
    NodesExecuted
    | KeysGone
    | VoteSplit
    | LeaseOver
    | NodesUp
    | ClientAt
    | Synced
    | Replicated
    | Leads
    | MasterIs
    | HeldDown
    | RoleIs
)

ANCHORS: Final[dict[str, type[Model]]] = {anchor.KEY: anchor for anchor in get_args(Anchor)}
"""The anchors by the key that identifies them."""

EXAMPLES: Final = "{nodes: all, executed: SET}, {keys: gone} or {lease: alice, over: true}"


def _checked(value: Any) -> Any:
    """Refuses a mapping with no anchor's key, or with the keys of two."""
    if isinstance(value, Anchor):
        return value
    if not isinstance(value, dict):
        raise problem(f"{kind(value)} is not an anchor", EXAMPLES)
    words = [key for key in value if key in ANCHORS]
    if len(words) == 1:
        return value
    if words:
        raise problem(f"{choice(map(shown, words)).replace(' or ', ' and ')} are two anchors", EXAMPLES)
    hints = (nearest(key, ANCHORS) for key in value)
    raise problem("this names no event to wait for", EXAMPLES, next((hint for hint in hints if hint), None))


def _tag(value: Any) -> str:
    # The brackets keep a tag in an error's location from being taken for a key of the file.
    key = value.KEY if isinstance(value, Anchor) else next(word for word in value if word in ANCHORS)
    return f"<{key}>"


AnyAnchor = Annotated[
    Annotated[NodesExecuted, Tag("<executed>")]
    | Annotated[KeysGone, Tag("<keys>")]
    | Annotated[VoteSplit, Tag("<vote>")]
    | Annotated[LeaseOver, Tag("<lease>")]
    | Annotated[NodesUp, Tag("<up>")]
    | Annotated[ClientAt, Tag("<at>")]
    | Annotated[Synced, Tag("<synced>")]
    | Annotated[Replicated, Tag("<replicated>")]
    | Annotated[Leads, Tag("<leads>")]
    | Annotated[MasterIs, Tag("<master>")]
    | Annotated[HeldDown, Tag("<sdown>")]
    | Annotated[RoleIs, Tag("<role_of>")],
    Discriminator(_tag),
    BeforeValidator(_checked),
]
"""An anchor as a field's type."""
