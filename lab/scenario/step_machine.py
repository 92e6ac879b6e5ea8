"""Steps that hit a machine: its process, its wall clock, its disk. A machine is a node or a client."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from lab.durations import UNITS_NS
from lab.scenario.problems import kind, problem
from lab.scenario.step_base import StepModel
from lab.scenario.types import ClientName, DurationNs, Int, NodeName, Nodes, PositiveNs, SignedNs

PPM_MAX: Final = 1_000_000
"""The largest drift: a clock that stands still, or runs twice as fast."""
PPM_LEAST: Final = 100
"""The smallest drift that can be told from the error of measurement in a second or two."""
STROBE_LEAST_NS: Final = 10 * UNITS_NS["ms"]
"""The shortest time between two steps of a strobing clock."""


def _one_machine(schema: dict[str, Any]) -> None:
    """Says in the JSON schema what `_one_of_node_and_client` checks."""
    schema["oneOf"] = [{"required": ["node"]}, {"required": ["client"]}]


class MachineStep(StepModel):
    """What all steps on one machine share: whose it is, a node's or a client's."""

    model_config = ConfigDict(json_schema_extra=_one_machine)

    node: NodeName | None = None
    """The node that is hit; either this or `client`."""
    client: ClientName | None = None
    """The client that is hit."""

    @model_validator(mode="after")
    def _one_of_node_and_client(self) -> Self:
        self.check_machine()
        return self

    def check_machine(self) -> None:
        """Raises a problem unless either a node or a client is named."""
        if (self.node is None) == (self.client is None):
            seen = "neither a node nor a client is" if self.node is None else "both a node and a client are"
            raise problem(f"{seen} named", f"one of them, as in {self.EXAMPLE}")

    @property
    def name(self) -> str:
        """The name of the machine, whichever it is."""
        return self.node or self.client or ""


class Pause(MachineStep):
    """Stop a process, as a long garbage collection does; its kernel goes on receiving."""

    KEY: ClassVar[str] = "pause"
    EXAMPLE: ClassVar[str] = "{client: alice}"


class Resume(MachineStep):
    """Let what was paused go on."""

    KEY: ClassVar[str] = "resume"
    EXAMPLE: ClassVar[str] = "{client: alice}"


class Jump(MachineStep):
    """The wall clock of a node or a client jumps, and stays off by that much."""

    KEY: ClassVar[str] = "jump"
    EXAMPLE: ClassVar[str] = "{node: C, by: +11s}"

    by_ns: SignedNs = Field(alias="by")
    """How far, forward (+) or back (-)."""


def _some_drift(ppm: int) -> int:
    if abs(ppm) < PPM_LEAST:
        raise problem(f"a drift of {ppm} ppm is too small to be seen", f"{PPM_LEAST} ppm or more, either way")
    return ppm


class Drift(MachineStep):
    """The wall clock runs too fast or too slow, until it is corrected."""

    KEY: ClassVar[str] = "drift"
    EXAMPLE: ClassVar[str] = "{node: C, ppm: 50000}"

    ppm: Annotated[Int, Field(ge=-PPM_MAX, le=PPM_MAX), AfterValidator(_some_drift)]
    """How much faster (+) or slower (-) it runs, in millionths: 1000 is a millisecond per second."""


def _slow_enough(every_ns: int) -> int:
    if every_ns < STROBE_LEAST_NS:
        raise problem("the clock can't be stepped that often", "a duration of 10ms or more")
    return every_ns


class Strobe(MachineStep):
    """The wall clock steps forth and back again and again, until it is corrected."""

    KEY: ClassVar[str] = "strobe"
    EXAMPLE: ClassVar[str] = "{node: C, by: +500ms, every: 50ms}"

    by_ns: SignedNs = Field(alias="by")
    """How far it steps away from where it was, and back."""
    every_ns: Annotated[PositiveNs, AfterValidator(_slow_enough)] = Field(alias="every")
    """How long it stays on each side."""


class Correct(MachineStep):
    """Set the wall clock right: drift and strobing end, jumps are undone. `all` means every clock."""

    KEY: ClassVar[str] = "correct"
    EXAMPLE: ClassVar[str] = "{node: C}, or all"

    @classmethod
    def unpack(cls, body: Any) -> Any:
        """The word "all", or a mapping that names a machine."""
        if body == "all":
            return {}
        if not isinstance(body, dict) or not (body.get("node") or body.get("client")):
            raise problem(f"{kind(body)} does not say whose clock", cls.EXAMPLE)
        return body

    def pack(self, fields: dict[str, Any]) -> Any:
        """The word "all", or a mapping that names a machine."""
        return "all" if self.everything else fields

    @classmethod
    def body_schema(cls, fields: JsonSchemaValue) -> JsonSchemaValue:
        """The word "all", or a mapping that names a machine."""
        return {"anyOf": [{"const": "all"}, fields]}

    def check_machine(self) -> None:
        """Without a machine, every clock is meant."""
        if not self.everything:
            super().check_machine()

    @property
    def everything(self) -> bool:
        """Whether every clock is meant (`correct: all`)."""
        return self.node is None and self.client is None


class Crash(StepModel):
    """Kill nodes at once (SIGKILL). What they wrote to their files survives, synced or not."""

    KEY: ClassVar[str] = "crash"
    EXAMPLE: ClassVar[str] = "{nodes: [C]}"

    nodes: Nodes
    """The nodes that are killed."""


class Shutdown(StepModel):
    """Shut nodes down in order: they sync what they keep, and end."""

    KEY: ClassVar[str] = "shutdown"
    EXAMPLE: ClassVar[str] = "{nodes: [C]}"

    nodes: Nodes
    """The nodes that are shut down."""


class PowerCut(StepModel):
    """Cut the power of nodes: they are killed, and their files lose what was not synced to disk."""

    KEY: ClassVar[str] = "power_cut"
    EXAMPLE: ClassVar[str] = "{nodes: [C]}"

    nodes: Nodes
    """The nodes whose power is cut."""


class Restart(StepModel):
    """Start nodes that are down again, with what they kept; at once, or after a delay by their own clock.

    A delay by the wall clock ends early when that clock jumps forward; one by the monotonic clock does not.
    The machine stays up meanwhile, since a monotonic clock starts anew with its machine. With `by` the delay
    is measured on another machine, as where a supervisor starts the nodes of all of them.
    """

    KEY: ClassVar[str] = "restart"
    EXAMPLE: ClassVar[str] = "{nodes: [C], after: 10s}"

    nodes: Nodes
    """The nodes that come back."""
    after_ns: DurationNs = Field(default=0, alias="after")
    """How long each stays down, by a clock of its own machine or of another; the story goes on meanwhile."""
    clock: Literal["wall", "monotonic"] = "wall"
    """Which of the machine's clocks measures the delay; only the wall clock can jump."""
    by: NodeName | None = None
    """The node on whose machine the delay is measured; without it, that of the node that comes back."""

    @model_validator(mode="after")
    def _delayed_if_measured(self) -> Self:
        if self.by is not None and not self.after_ns:
            raise problem(
                f"{self.by} is to measure a delay, and there is none", f"{self.KEY}: {self.EXAMPLE}"
            )
        return self

    def pack(self, fields: dict[str, Any]) -> Any:
        """The clock is named only where it is not the wall clock of the node, as in files without these."""
        usual = {"clock": "wall", "by": None}
        return {key: value for key, value in fields.items() if key not in usual or value != usual[key]}


class ClientCrash(StepModel):
    """Kill a client at once (SIGKILL); it does not come back, and what it was doing never ends."""

    KEY: ClassVar[str] = "client_crash"
    EXAMPLE: ClassVar[str] = "{client: alice}"

    client: ClientName
    """The client that is killed."""


class Promote(StepModel):
    """Make a replica a master (`REPLICAOF NO ONE`), as a failover does, whatever it has missed."""

    KEY: ClassVar[str] = "promote"
    EXAMPLE: ClassVar[str] = "{node: B}"

    node: NodeName
    """The replica that becomes a master."""


class Prime(StepModel):
    """Bring nodes just past a sync to disk: with `aof-everysec` the next write stays unsynced a while."""

    KEY: ClassVar[str] = "prime"
    EXAMPLE: ClassVar[str] = "{nodes: [C]}"

    nodes: Nodes
    """The nodes that are brought there."""
