"""The steps that are no faults: actions of clients, waits, remarks.

A step is a mapping with exactly one key; that key names one class of `lab.scenario.registry`, which also has
the steps that inject and end faults: each has a file of its own in `lab.faults`. Clients and nodes in fields
of type `ClientName`, `NodeName` and `Nodes` are checked against the scenario automatically.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Union, get_args

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag

from lab.client_protocol import Mode
from lab.scenario.actions import Action
from lab.scenario.anchors import AnyAnchor
from lab.scenario.problems import Loc, choice, kind, nearest, problem, shown
from lab.scenario.registry import FromRegistry, steps
from lab.scenario.step_base import Series, Sole, StepModel
from lab.scenario.triggers import Trigger
from lab.scenario.types import Bool, ClientName, KeyName, PositiveNs, Refers, Text


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


class Operation(StepModel):
    """One operation of a client, in the long form: it says what a sentence of `do` can't."""

    client: ClientName | None = None
    """The client; left out in a track of its own."""
    key: KeyName | None = None
    """The lock's key, if it is not that of the scenario: a second lock of the same lock object."""
    cancel: Trigger | None = None
    """When the client cancels it. A time counts from the call and is a time-out: it may end before that."""
    if_granted: Bool = False
    """Leave it out at once if the last acquire of the scenario's key was not granted in this track."""

    def pack(self, fields: dict[str, Any]) -> Any:
        """The body without what is as usual."""
        return {word: value for word, value in fields.items() if value not in (None, False)}


class Acquire(Operation):
    """Ask for the lock."""

    KEY: ClassVar[str] = "acquire"
    EXAMPLE: ClassVar[str] = "{ttl: 2s}"

    ttl_ns: PositiveNs | None = Field(default=None, alias="ttl")
    """The lease that it asks for, if it is not the scenario's."""
    insist_ns: PositiveNs | None = Field(default=None, alias="insist")
    """For how long it asks again, `pause` after each refusal, until it is granted."""
    pause_ns: PositiveNs | None = Field(default=None, alias="pause")
    """How long it waits before it asks again; 800ms without it."""
    mode: Mode | None = None
    """`read`: as a reader of a read-write lock, which others may be at the same time; else as its writer."""


class OfLease(Operation):
    """An operation with the lease that its track's client holds; left out at once if there is none."""


class Extend(OfLease):
    """Extend the lease."""

    KEY: ClassVar[str] = "extend"
    EXAMPLE: ClassVar[str] = "{ttl: 2s}"

    ttl_ns: PositiveNs | None = Field(default=None, alias="ttl")
    """The lease that it asks for, if it is not the scenario's."""


class Release(OfLease):
    """Release the lease."""

    KEY: ClassVar[str] = "release"
    EXAMPLE: ClassVar[str] = "{again: true}"

    again: Bool = False
    """Release the lease that was released last, once more."""


class Read(OfLease):
    """Read the resource, as every holder does before it writes."""

    KEY: ClassVar[str] = "read"
    EXAMPLE: ClassVar[str] = "{at: {bob: refused}}"


class Check(OfLease):
    """Ask the lock whether the lease still lasts."""

    KEY: ClassVar[str] = "check"
    EXAMPLE: ClassVar[str] = "{at: {bob: refused}}"


class Write(OfLease):
    """Write the resource."""

    KEY: ClassVar[str] = "write"
    EXAMPLE: ClassVar[str] = "{if_checked: true}"

    if_checked: Bool = False
    """Leave it out if the last check or read under this lease did not succeed."""


class Close(Operation):
    """Close the client's lock object."""

    KEY: ClassVar[str] = "close"
    EXAMPLE: ClassVar[str] = "{at: {alice: granted}}"


class Open(Operation):
    """Open the client's lock object again."""

    KEY: ClassVar[str] = "open"
    EXAMPLE: ClassVar[str] = "{at: 1s}"


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
    for name, word, to in _fields_of(type(model)):
        value = getattr(model, name)
        if value is None:
            continue
        here = (*loc, word)
        values = (
            [((*here, at), one) for at, one in enumerate(value)]
            if isinstance(value, tuple)
            else [(here, value)]
        )
        for place, one in values:
            if isinstance(one, BaseModel):
                yield from references(one, place)
            elif to is not None and isinstance(one, str) and not (to == "node" and one == "all"):
                yield to, place, one


@functools.cache
def _fields_of(model: type[BaseModel]) -> list[tuple[str, str, Literal["client", "node"] | None]]:
    """The fields of a model: the name, the word in files, and what its text refers to."""
    found = []
    for name, info in model.model_fields.items():
        marks = _marks(info.metadata, info.annotation)
        to = next((mark.to for mark in marks if isinstance(mark, Refers)), None)
        found.append((name, info.alias or name, to))
    return found


def _marks(metadata: list[Any], annotation: Any) -> Iterator[Any]:
    """The annotations of a field's type, also inside `X | None` and `tuple[X, ...]`."""
    yield from metadata
    yield from getattr(annotation, "__metadata__", ())
    for part in get_args(annotation):
        if part is not Ellipsis and not isinstance(part, str):
            yield from _marks([], part)
