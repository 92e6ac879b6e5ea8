"""The steps that are no faults: actions of clients, waits, remarks.

A step is a mapping with exactly one key; that key names one class of `lab.scenario.registry`, which also has
the steps that inject and end faults: each has a file of its own in `lab.faults`. Clients and nodes in fields
of type `ClientName`, `NodeName` and `Nodes` are checked against the scenario automatically.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import BaseModel, BeforeValidator, Discriminator, Tag

from lab.scenario.actions import Action
from lab.scenario.anchors import AnyAnchor
from lab.scenario.problems import Loc, choice, kind, nearest, problem, shown
from lab.scenario.registry import FromRegistry, steps
from lab.scenario.step_base import Series, Sole, StepModel
from lab.scenario.types import ClientName, PositiveNs, Refers, Text


class Do(Series):
    """Clients act one after the other; each action is awaited."""

    KEY: ClassVar[str] = "do"
    FIELD: ClassVar[str] = "actions"
    EXAMPLE: ClassVar[str] = "[alice acquires, alice writes]"

    actions: tuple[Action, ...]
    """What happens, in order."""


class Start(Sole):
    """A client begins an action that is not awaited: it goes on beside the next steps."""

    KEY: ClassVar[str] = "start"
    FIELD: ClassVar[str] = "action"
    EXAMPLE: ClassVar[str] = "alice acquires"

    action: Action
    """What is begun."""


class Finish(Series):
    """Wait until the actions that these clients were started on have ended."""

    KEY: ClassVar[str] = "finish"
    FIELD: ClassVar[str] = "clients"
    EXAMPLE: ClassVar[str] = "alice"

    clients: tuple[ClientName, ...]
    """The clients that are waited for."""


class Until(Sole):
    """Wait for an event that is observed, not timed; if it is never observed the run is `unknown`."""

    KEY: ClassVar[str] = "until"
    FIELD: ClassVar[str] = "anchor"
    EXAMPLE: ClassVar[str] = "{nodes: all, executed: SET}"

    anchor: AnyAnchor
    """The event."""


class Wait(Sole):
    """Let time pass before the next step."""

    KEY: ClassVar[str] = "wait"
    FIELD: ClassVar[str] = "duration_ns"
    EXAMPLE: ClassVar[str] = "500ms"

    duration_ns: PositiveNs
    """How long."""


class Say(Sole):
    """A remark for the reader of the run."""

    KEY: ClassVar[str] = "say"
    FIELD: ClassVar[str] = "text"
    EXAMPLE: ClassVar[str] = "alice still believes that she holds the lock"

    text: Text
    """The sentence."""


def _checked(value: Any) -> Any:
    """Refuses what is no mapping with exactly one key, the name of a step."""
    if isinstance(value, StepModel):
        return value
    if not isinstance(value, dict):
        hint = None
        if isinstance(value, str) and value in steps():
            hint = f"write {value}: {steps()[value].EXAMPLE}"
        raise problem(
            f"{kind(value)} is not a step", "a mapping with one key, like {do: alice acquires}", hint
        )
    if len(value) != 1:
        seen = f"a step with {len(value)} keys, {', '.join(map(shown, value))}" if value else "an empty step"
        raise problem(
            seen, "exactly one key per step", "begin each step with its own hyphen" if value else None
        )
    (word,) = value
    if word not in steps():
        raise problem(f"unknown step {shown(word)}", choice(steps()), nearest(word, steps()))
    return value


def _tag(value: Any) -> str:
    return value.KEY if isinstance(value, StepModel) else str(next(iter(value)))


def _one_of_the_steps() -> Any:
    tagged = tuple(Annotated[step, Tag(key)] for key, step in steps().items())
    return Annotated[Union[tagged], Discriminator(_tag), BeforeValidator(_checked)]  # noqa: UP007 - of a registry


AnyStep = Annotated[StepModel, FromRegistry(_one_of_the_steps)]
"""A step as a field's type: identified by its only key."""


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
    """The annotations of a field's type, also inside `X | None` and `tuple[X, ...]`."""
    yield from metadata
    yield from getattr(annotation, "__metadata__", ())
    for part in get_args(annotation):
        if part is not Ellipsis and not isinstance(part, str):
            yield from _marks([], part)
