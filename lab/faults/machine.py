"""The base class of steps on the process or the wall clock of one machine, a node's or a client's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from pydantic import ConfigDict, model_validator

from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.scenario.step_base import StepModel
from lab.scenario.types import ClientName, NodeName


def _one_machine(schema: dict[str, Any]) -> None:
    """Says in the JSON schema what `_one_of_node_and_client` checks."""
    schema["oneOf"] = [{"required": ["node"]}, {"required": ["client"]}]


class MachineStep(StepModel):
    """A step on one machine: a node's or a client's."""

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
        """The name of the node or client."""
        return self.node or self.client or ""

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse a client that was killed."""
        yield from state.unless_killed(self.client, ("client",))
