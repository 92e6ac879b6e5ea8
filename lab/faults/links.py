"""Links between a client and nodes or the store, a replica and its master, or two servers of a service.

``cut`` and ``hold`` share their receipt: a probe through the link without an answer, one past it with an
answer, and the server's own count of probes, which shows whether the request or only the reply was stopped.
For a replication link it also shows that the replica falls behind. Two servers of one service are probed on
the ports for their peers, in both directions. If the server can't answer (it is down, or paused), the receipt
is the state of the link itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    PROBE_TIMEOUT_S,
    Fault,
    Receipt,
    Target,
    all_at_once,
    answers,
    is_running,
    ms,
    named,
    node_names,
    server_behind,
    server_named,
    together,
)
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.step_base import StepModel
from lab.scenario.types import ClientName, NodeName, Nodes
from lab.substrates.base import (
    STORE,
    Capability,
    Cluster,
    ConnectionKind,
    Direction,
    Link,
    Node,
    Probe,
)

OF_KIND: Final[dict[ConnectionKind | None, str]] = {
    None: "",
    "commands": " (not subscriptions)",
    "subscription": " (subscriptions)",
}
_SHAPES: Final = (("client", "nodes"), ("client", "store"), ("node", "from"), ("nodes", "node"))


def _one_shape(schema: dict[str, Any]) -> None:
    """Says in the JSON schema what `_one_of_the_shapes` checks."""
    schema["oneOf"] = [{"required": list(shape)} for shape in _SHAPES]


class LinkStep(StepModel):
    """A step on links: of a client to nodes or the store, or between two nodes.

    Links between nodes are those from a replica to its master, and those between the servers of one service.
    With Sentinels, and in a Redis Cluster, there is a link between any two servers, and `node` and `nodes`
    name several at once.
    """

    model_config = ConfigDict(json_schema_extra=_one_shape)

    client: ClientName | None = None
    """The client at the near end."""
    nodes: Nodes | None = None
    """The nodes at the far end; either these or `store`. After `node`: the other servers."""
    store: Literal[True] | None = None
    """The store is at the far end."""
    node: NodeName | None = None
    """A replica, whose link to its master is meant, or a server; goes with `from`, or with `nodes`."""
    from_node: NodeName | None = Field(default=None, alias="from")
    """The master of that replica, or another server of the service."""

    @model_validator(mode="after")
    def _one_of_the_shapes(self) -> Self:
        self.check_ends()
        return self

    def check_ends(self) -> None:
        """Raises a problem unless exactly one of the four shapes is there."""
        named = {
            "client": self.client is not None,
            "nodes": self.nodes is not None,
            "store": self.store is not None,
            "node": self.node is not None,
            "from": self.from_node is not None,
        }
        given = tuple(word for word, there in named.items() if there)
        if given not in _SHAPES:
            raise problem(_what_is_wrong(given), f"one of them, as in {self.EXAMPLE}")

    @property
    def near(self) -> str:
        """The near end of the links: a client, or a node."""
        return self.client or self.node or ""

    def far(self, cluster: Cluster) -> tuple[str, ...]:
        """The far ends of the links: nodes, the store, or a master or peer."""
        if self.from_node is not None:
            return (self.from_node,)
        return (STORE,) if self.store else node_names(self.nodes, cluster)

    def links(self, cluster: Cluster) -> list[Link]:
        """The links themselves."""
        return [cluster.link(self.near, end) for end in self.far(cluster)]

    def target(self, cluster: Cluster) -> Target:
        """The links, with the fault as text."""
        ends = self.far(cluster)
        return Target(self.words(",".join(ends)), ends, self.near)

    def words(self, far: str) -> str:
        """The links as text, given that of their far ends."""
        return f"{self.near} ⇄ {far}"

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends of the links for people: "Alice", "D and E"."""
        far = "the store" if self.store else self.from_node or named(self.nodes)
        return self.client.capitalize() if self.client else self.node or "", far

    @property
    def fits_servers(self) -> bool:
        """Whether it can be done to a link between two servers of one service."""
        return False

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse links of killed clients, and links that do not exist."""
        yield from state.unless_killed(self.client, ("client",))
        if self.node is None:
            return
        shape = state.shape
        others = (self.from_node,) if self.nodes is None else shape.names(self.nodes)
        for other in others:
            if (self.node, other) not in shape.links:
                yield ("node",), self._no_link_to(other or "", state)
                return
        if shape.servers and not self.fits_servers:
            seen = f"the links between {shape.servers} can be cut only, and in both directions"
            yield ("node",), problem(seen, f"{{cut: {{node: {self.node}, from: {others[0]}}}}}")

    def _no_link_to(self, other: str, state: StepState) -> PydanticCustomError:
        shape = state.shape
        pairs = " or ".join(f"{{node: {one}, from: {another}}}" for one, another in shape.links[:3])
        seen = f"there is no link from {self.node} to {other}"
        if not shape.servers:
            seen = f"{self.node} is no replica of {other}, so there is no link between them"
        return problem(seen, pairs or "a cluster with replicas, like {B: A}")


def _what_is_wrong(given: tuple[str, ...]) -> str:
    if "nodes" in given and "store" in given:
        return "both nodes and the store are named"
    if given == ("client",):
        return "neither nodes nor the store are named"
    if not given:
        return "no link is named"
    return f"{' and '.join(given)} name no link"


class ConnectionsFault(LinkStep, Fault):
    """A fault of links that may hit some of their connections only."""

    connection: ConnectionKind | None = None
    """Which connections of a client are hit: those on which it has subscribed to channels, or the others.

    A new connection is one of the others until the client has subscribed on it.
    """

    @property
    def needs(self) -> Capability:
        """What a substrate must be able to do: also to tell connections apart, if only some are hit."""
        return self.NEEDS if self.connection is None else Capability.ONE_CONNECTION

    def links(self, cluster: Cluster) -> list[Link]:
        """The links, or some connections of each."""
        links = super().links(cluster)
        return links if self.connection is None else [link.only(self.connection) for link in links]

    def target(self, cluster: Cluster) -> Target:
        """The links, with the fault as text."""
        target = super().target(cluster)
        return replace(target, words=f"{target.words}{OF_KIND[self.connection]}")

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse to tell connections apart where no client's commands pass."""
        yield from super().impossible(state)
        if self.connection is not None and (self.client is None or self.store):
            seen = "the connections of a client to nodes are told apart, and no others"
            yield ("connection",), problem(seen, f"{{{self.KEY}: {{client: alice, nodes: [A], …}}}}")


PACKETS: Final = {
    "both": "the packets between {0} and {1}",
    "requests": "the requests of {0} to {1}",
    "replies": "the replies of {1} to {0}",
}


class LinkFault(ConnectionsFault):
    """A fault of links that lasts until it is healed."""

    ENDED_BY = "heal"

    def packets(self, direction: Direction) -> str:
        """What is sent over the links in this direction, for people."""
        return PACKETS[direction].format(*self.ends)

    @property
    def ended_clause(self) -> str:
        """The ends reach each other."""
        return "{} reaches {} again".format(*self.ends)


async def links_are_broken(links: list[Link], direction: Direction, cluster: Cluster) -> Receipt:
    """Probe every link and its server; confirmed only if each of them shows the break."""
    shown = await all_at_once(_one_is_broken(link, direction, cluster) for link in links)
    return together(dict(zip((link.target for link in links), shown, strict=True)))


async def _one_is_broken(link: Link, direction: Direction, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    if link.ways:
        return await _servers_are_apart(link, cluster)
    server = server_behind(link, cluster)
    if not await answers(server):
        troubles = await link.troubles()
        return bool(troubles), {"probe_around_ms": None, "link": troubles}
    around = await server.probe(AROUND_TIMEOUT_S)
    before = await server.echoes()
    if before is None:
        return await _is_unanswered(link, around)
    loop = asyncio.get_running_loop()
    give_up = loop.time() + AROUND_TIMEOUT_S
    through, arrived = await link.probe(PROBE_TIMEOUT_S), await _more_than(before, server)
    # If only replies are stopped a probe must arrive; on a busy machine the first may come too late.
    while direction == "replies" and not (arrived or through.reached) and loop.time() < give_up:
        through, arrived = await link.probe(PROBE_TIMEOUT_S), await _more_than(before, server)
    evidence: dict[str, Any] = {
        "probe_through_link": _answer(through),
        "probe_arrived": bool(arrived),
        "probe_around_ms": ms(around.round_trip_ns),
    }
    # If requests are stopped the probe must not arrive; if only replies are, it must.
    as_expected = around.reached and not through.reached and bool(arrived) == (direction == "replies")
    if link.client in cluster.nodes and direction != "requests":
        behind = await _bytes_behind(link, cluster)
        evidence["replica_behind_bytes"] = behind
        as_expected = as_expected and behind > 0
    return as_expected, evidence


async def _is_unanswered(link: Link, around: Probe) -> tuple[bool, dict[str, Any]]:
    """The receipt if the server does not count probes: no answer, and the state of the link itself."""
    through, troubles = await link.probe(PROBE_TIMEOUT_S), await link.troubles()
    evidence = {
        "probe_through_link": _answer(through),
        "link": troubles,
        "probe_around_ms": ms(around.round_trip_ns),
    }
    return around.reached and not through.reached and bool(troubles), evidence


async def _servers_are_apart(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    """The receipt for two servers of a service: each answers on its port for peers, but not through the link.

    It also has which of them reports that it leads. One that is down or paused can't answer.
    """
    through = await asyncio.gather(*(way.probe(PROBE_TIMEOUT_S) for way in link.ways))
    around = await asyncio.gather(*(way.around(AROUND_TIMEOUT_S) for way in link.ways))
    troubles = await link.troubles()
    shown, ways = bool(troubles), {}
    for way, gone, there in zip(link.ways, through, around, strict=True):
        node = server_named(way.target, cluster)
        shown = shown and not gone.reached and (there.reached or not is_running(node))
        ways[f"{way.client}→{way.target}"] = {
            "probe_through_link": _answer(gone),
            "probe_around_ms": ms(there.round_trip_ns) if there.reached else None,
            "target_is": (await node.role()).name if is_running(node) else None,
        }
    return shown, {"ways": ways, "link": troubles}


async def _more_than(before: int, server: Node) -> int:
    """How many probes have arrived since the count was ``before``."""
    return (await server.echoes() or 0) - before


def _answer(probe: Probe) -> str:
    return "answered" if probe.reached else f"no answer in {PROBE_TIMEOUT_S * 1000:.0f} ms"


async def _bytes_behind(link: Link, cluster: Cluster) -> int:
    """How far the replica is behind its master, after the master has sent something that must be lost."""
    replica, master = cluster.nodes[link.client], cluster.nodes[link.target]
    await master.ripple()
    await asyncio.sleep(PROBE_TIMEOUT_S)
    return (await master.role()).offset - (await replica.role()).offset
