"""Steps that break the ways between a client and nodes or the store, or between two nodes."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from lab.scenario.problems import kind, problem
from lab.scenario.step_base import StepModel
from lab.scenario.types import ClientName, DurationNs, KbPerS, NodeName, Nodes, PositiveNs

Direction = Literal["both", "requests", "replies"]

_SHAPES: Final = (("client", "nodes"), ("client", "store"), ("node", "from"))


def _one_shape(schema: dict[str, Any]) -> None:
    """Says in the JSON schema what `_one_of_the_shapes` checks."""
    schema["oneOf"] = [{"required": list(shape)} for shape in _SHAPES]


class LinkStep(StepModel):
    """What steps on links share: which. A client's to nodes or the store, or one between two nodes.

    Between nodes there are links from a replica to its master, and between the servers of one service.
    """

    model_config = ConfigDict(json_schema_extra=_one_shape)

    client: ClientName | None = None
    """The client at the near end."""
    nodes: Nodes | None = None
    """The nodes at the far end; either these or `store`."""
    store: Literal[True] | None = None
    """The store is at the far end."""
    node: NodeName | None = None
    """A replica, whose link to its master is meant, or a server of a service; goes with `from`."""
    from_node: NodeName | None = Field(default=None, alias="from")
    """The master of that replica, or another server of the service."""

    @model_validator(mode="after")
    def _one_of_the_shapes(self) -> Self:
        self.check_ends()
        return self

    def check_ends(self) -> None:
        """Raises a problem unless exactly one of the three shapes is there."""
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


def _what_is_wrong(given: tuple[str, ...]) -> str:
    if "nodes" in given and "store" in given:
        return "both nodes and the store are named"
    if given == ("client",):
        return "neither nodes nor the store are named"
    if not given:
        return "no link is named"
    return f"{' and '.join(given)} name no link"


class Cut(LinkStep):
    """Cut a client off from nodes or the store, or a node from another one: until it is healed."""

    KEY: ClassVar[str] = "cut"
    EXAMPLE: ClassVar[str] = "{client: alice, nodes: [D, E]}"

    direction: Direction = "both"
    """What is lost: requests (what the client or the replica sends), replies to it, or both."""
    mode: Literal["blackhole", "refused"] = "blackhole"
    """Whether packets vanish silently, or connections are refused."""


class Hold(LinkStep):
    """Packets sit in the network; they arrive when the hold is healed."""

    KEY: ClassVar[str] = "hold"
    EXAMPLE: ClassVar[str] = "{client: alice, nodes: all, direction: replies}"

    direction: Literal["requests", "replies"] = "replies"
    """Which packets are held: requests of the client, or replies to it."""


class Delay(LinkStep):
    """Every packet takes longer, until it is healed."""

    KEY: ClassVar[str] = "delay"
    EXAMPLE: ClassVar[str] = "{client: alice, nodes: all, by: 200ms, jitter: 50ms}"

    by_ns: PositiveNs = Field(alias="by")
    """How much longer, in each direction that is slowed."""
    jitter_ns: DurationNs = Field(default=0, alias="jitter")
    """How much more or less than that, drawn anew for each packet."""
    direction: Direction = "both"
    """What is slowed: requests, replies, or both."""

    @model_validator(mode="after")
    def _can_be_told(self) -> Self:
        if self.jitter_ns * 2 > self.by_ns:
            raise problem(
                "the jitter is more than half of the delay", "less, so that the delay can be measured"
            )
        return self


class Bandwidth(LinkStep):
    """Little passes per second, until it is healed."""

    KEY: ClassVar[str] = "bandwidth"
    EXAMPLE: ClassVar[str] = "{client: alice, store: true, rate: 10KB/s}"

    rate_kb_per_s: KbPerS = Field(alias="rate")
    """How much passes in each direction that is narrowed."""
    direction: Direction = "both"
    """What is narrowed: requests, replies, or both."""


class Reset(LinkStep):
    """Break the connections that are open, once; what is in flight is lost, new ones can be made at once."""

    KEY: ClassVar[str] = "reset"
    EXAMPLE: ClassVar[str] = "{client: alice, nodes: [A]}"


class Heal(LinkStep):
    """End cuts, holds, delays and narrow links: all of them, or those on the links that are named."""

    KEY: ClassVar[str] = "heal"
    EXAMPLE: ClassVar[str] = "all, or {client: alice, nodes: [D, E]}"

    @classmethod
    def unpack(cls, body: Any) -> Any:
        """The word "all", or a mapping that names links."""
        if body == "all":
            return {}
        if not isinstance(body, dict) or not (body.get("client") or body.get("node")):
            raise problem(f"{kind(body)} does not say which client's links", cls.EXAMPLE)
        return body

    def pack(self, fields: dict[str, Any]) -> Any:
        """The word "all", or a mapping that names links."""
        return "all" if self.everything else fields

    @classmethod
    def body_schema(cls, fields: JsonSchemaValue) -> JsonSchemaValue:
        """The word "all", or a mapping that names links."""
        return {"anyOf": [{"const": "all"}, fields]}

    @property
    def everything(self) -> bool:
        """Whether every link is meant (`heal: all`)."""
        return self.client is None and self.node is None

    def check_ends(self) -> None:
        """Without any end, everything is healed."""
        if not self.everything:
            super().check_ends()
