"""The steps of a story. A step is a mapping with exactly one key; that key names one class of the registry.

A new fault is one small class in `step_link` or `step_machine`, `KEY`, `EXAMPLE` and fields, and its name in
`Step` here. Clients and nodes in fields of type `ClientName`, `NodeName` and `Nodes` are checked against the
scenario without another line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Union, get_args

from pydantic import BaseModel, BeforeValidator, Discriminator, Tag

from lab.scenario.actions import Action
from lab.scenario.anchors import AnyAnchor
from lab.scenario.problems import Loc, choice, kind, nearest, problem, shown
from lab.scenario.step_base import Series, Sole, StepModel
from lab.scenario.step_link import Bandwidth, Cut, Delay, Heal, Hold, Reset
from lab.scenario.step_machine import (
    ClientCrash,
    Correct,
    Crash,
    Drift,
    Jump,
    Pause,
    PowerCut,
    Prime,
    Promote,
    Restart,
    Resume,
    Shutdown,
    Strobe,
)
from lab.scenario.types import ClientName, PositiveNs, Refers, Text

__all__ = [
    "STEPS",
    "AnyStep",
    "Bandwidth",
    "ClientCrash",
    "Correct",
    "Crash",
    "Cut",
    "Delay",
    "Do",
    "Drift",
    "Finish",
    "Heal",
    "Hold",
    "Jump",
    "Pause",
    "PowerCut",
    "Prime",
    "Promote",
    "Reset",
    "Restart",
    "Resume",
    "Say",
    "Shutdown",
    "Start",
    "Step",
    "Strobe",
    "Until",
    "Wait",
    "references",
]


class Do(Series):
    """Clients act one after the other; each action is awaited."""

    KEY: ClassVar[str] = "do"
    FIELD: ClassVar[str] = "actions"
    EXAMPLE: ClassVar[str] = "[alice acquires, alice writes]"

    actions: tuple[Action, ...]
    """What happens, in order."""


class Start(Sole):
    """A client begins an action that is not awaited: it goes on while the story does."""

    KEY: ClassVar[str] = "start"
    FIELD: ClassVar[str] = "action"
    EXAMPLE: ClassVar[str] = "alice acquires"

    action: Action
    """What is begun."""


class Finish(Series):
    """Wait until what these clients were started on has come to its end."""

    KEY: ClassVar[str] = "finish"
    FIELD: ClassVar[str] = "clients"
    EXAMPLE: ClassVar[str] = "alice"

    clients: tuple[ClientName, ...]
    """The clients that are waited for."""


class Until(Sole):
    """Wait for a moment that is observed, not timed; if it never comes the run is `unknown`."""

    KEY: ClassVar[str] = "until"
    FIELD: ClassVar[str] = "anchor"
    EXAMPLE: ClassVar[str] = "{nodes: all, executed: SET}"

    anchor: AnyAnchor
    """The moment."""


class Wait(Sole):
    """Let time pass while nothing is done by the story."""

    KEY: ClassVar[str] = "wait"
    FIELD: ClassVar[str] = "duration_ns"
    EXAMPLE: ClassVar[str] = "500ms"

    duration_ns: PositiveNs
    """How long."""


class Say(Sole):
    """A sentence of the narrator, for the reader of the run."""

    KEY: ClassVar[str] = "say"
    FIELD: ClassVar[str] = "text"
    EXAMPLE: ClassVar[str] = "alice still believes that she holds the lock"

    text: Text
    """The sentence."""


Step = (
    Do
    | Start
    | Finish
    | Cut
    | Hold
    | Delay
    | Bandwidth
    | Reset
    | Heal
    | Pause
    | Resume
    | Jump
    | Drift
    | Strobe
    | Correct
    | Crash
    | Shutdown
    | PowerCut
    | Restart
    | ClientCrash
    | Promote
    | Prime
    | Until
    | Wait
    | Say
)
"""The registry: a step that isn't named here doesn't exist."""

STEPS: Final[dict[str, type[StepModel]]] = {step.KEY: step for step in get_args(Step)}
"""The steps by their key in a file."""


def _checked(value: Any) -> Any:
    """Refuses what is no mapping with exactly one key, the name of a step."""
    if isinstance(value, StepModel):
        return value
    if not isinstance(value, dict):
        hint = None
        if isinstance(value, str) and value in STEPS:
            hint = f"write {value}: {STEPS[value].EXAMPLE}"
        raise problem(
            f"{kind(value)} is not a step", "a mapping with one key, like {do: alice acquires}", hint
        )
    if len(value) != 1:
        seen = f"a step with {len(value)} keys, {', '.join(map(shown, value))}" if value else "an empty step"
        raise problem(
            seen, "exactly one key per step", "begin each step with its own hyphen" if value else None
        )
    (word,) = value
    if word not in STEPS:
        raise problem(f"unknown step {shown(word)}", choice(STEPS), nearest(word, STEPS))
    return value


def _tag(value: Any) -> str:
    return value.KEY if isinstance(value, StepModel) else str(next(iter(value)))


if TYPE_CHECKING:
    AnyStep = Step
else:
    AnyStep = Annotated[
        Union[tuple(Annotated[step, Tag(key)] for key, step in STEPS.items())],  # noqa: UP007 - built from a registry
        Discriminator(_tag),
        BeforeValidator(_checked),
    ]
"""A step as a field's type: told apart by its only key."""


def references(model: BaseModel, loc: Loc = ()) -> Iterator[tuple[Literal["client", "node"], Loc, str]]:
    """Every name of a client or a node in `model` and the models in it: what it names, where, the name."""
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        here = (*loc, info.alias or name)
        values = (
            [((*here, at), one) for at, one in enumerate(value)]
            if isinstance(value, tuple)
            else [(here, value)]
        )
        to = next(
            (mark.to for mark in _marks(info.metadata, info.annotation) if isinstance(mark, Refers)), None
        )
        for place, one in values:
            if isinstance(one, BaseModel):
                yield from references(one, place)
            elif to is not None and isinstance(one, str) and not (to == "node" and one == "all"):
                yield to, place, one


def _marks(metadata: list[Any], annotation: Any) -> Iterator[Any]:
    """What a field's type is annotated with, also inside `X | None` and `tuple[X, ...]`."""
    yield from metadata
    yield from getattr(annotation, "__metadata__", ())
    for part in get_args(annotation):
        if part is not Ellipsis and not isinstance(part, str):
            yield from _marks([], part)
