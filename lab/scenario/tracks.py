"""The long form of what happens: tracks of actions, each with a trigger.

A track is one thread of control: a task of a client (``alice``, ``alice/2`` for its second task on the same
lock object), or one of the environment (any other name, usually ``faults``). An action of a client's task
begins when the one before it has ended and its trigger has come; one of the environment when its trigger has
come, or, without an event to wait for, when the one before it has ended. ``steps`` is the short form for one
track in which each action waits for the one before.

    tracks:
      alice:
        - acquire: {ttl: 10s}
        - extend: {at: {bob: refused}}
        - release
      bob:
        - acquire: {at: {alice: granted, after: 100ms}}
      faults:
        - cut: {client: alice, nodes: [D, E], at: {alice: granted}, until: {bob: refused}}
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from lab.scenario.anchors import Anchor
from lab.scenario.fault_step import FaultStep
from lab.scenario.problems import Loc, choice, kind, nearest, problem, problems, shown, unknown_word
from lab.scenario.registry import steps
from lab.scenario.step_base import AllOrOne, Sole, StepModel
from lab.scenario.steps import AnyStep, Do, Finish, Operation, Start, Until, Wait, references
from lab.scenario.triggers import SENDS, START, Trigger
from lab.scenario.types import CLIENT_NAME, Model

EXAMPLE: Final = "{acquire: {at: {bob: refused}}}"
NOT_IN_TRACKS: Final = (Do, Start, Finish, Until, Wait)
"""The steps of the short form: in a track, an action's trigger says what it waits for."""
TRACK_NAME: Final = rf"({CLIENT_NAME})(?:/([1-9]))?"


class Timed(Model):
    """An action of a track, with its trigger, and for a fault the trigger of its end."""

    step: AnyStep = Field(alias="<step>")
    """An operation of a client, a fault, or the end of one."""
    at: Trigger | None = None
    """When it begins; without it, at the end of the action before."""
    until: Trigger | None = None
    """When a fault ends, which is at the end of the run without it."""

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, data: Any) -> Any:
        """`release`, `{acquire: {at: …}}`: the triggers stand in the action's body."""
        if isinstance(data, str):
            data = {data: {}}
        if not isinstance(data, dict) or len(data) != 1 or "<step>" in data:
            return data if isinstance(data, dict) and "<step>" in data else {"<step>": data}
        ((key, body),) = data.items()
        body = {} if body is None else body
        if not isinstance(body, dict):
            return {"<step>": {key: body}}
        triggers = {word: _trigger(body[word], (key, word)) for word in ("at", "until") if word in body}
        rest = {word: value for word, value in body.items() if word not in triggers}
        return {"<step>": {key: _short(steps().get(key), rest)}, **triggers}

    @model_serializer(mode="wrap")
    def _wrap(self, handler: SerializerFunctionWrapHandler) -> Any:
        dumped = handler(self)
        ((key, body),) = dumped["<step>"].items()
        triggers = {word: dumped[word] for word in ("at", "until") if dumped.get(word) is not None}
        if triggers and not isinstance(body, dict):  # what `_short` makes of the mapping
            body = {self.step.FIELD: body} if isinstance(self.step, Sole) else {}
        if isinstance(body, dict):
            body = {word: value for word, value in body.items() if value is not None} | triggers
        return {key: body}

    def __repr__(self) -> str:
        ((key, body),) = self.model_dump(mode="json", exclude_none=True).items()
        return f"{type(self).__name__}({key}={body!r})"

    def __str__(self) -> str:
        return repr(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The name of an action, or an action with `at` and `until` among the fields of its body."""
        fields = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(core_schema, handler))
        step, trigger = fields["properties"]["<step>"], fields["properties"]["at"]
        short = {step.KEY for step in NOT_IN_TRACKS}
        forms: list[JsonSchemaValue] = [{"enum": [key for key in steps() if key not in short]}]
        for form in step.get("oneOf") or step["anyOf"]:
            action = copy.deepcopy(handler.resolve_ref_schema(form))
            ((key, body),) = action["properties"].items()
            if key in short:
                continue
            action["properties"][key] = {"anyOf": [body, *_with_triggers(body, trigger, handler)]}
            forms.append(action)
        about = "An action of a track, with its trigger, and for a fault the trigger of its end."
        fields.clear()
        fields.update(anyOf=forms, description=about)
        return fields

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.step, NOT_IN_TRACKS):
            seen = f"{self.step.KEY} is a step of the short form"
            raise problem(
                seen, f"an action such as {EXAMPLE}", "`at` says what an action of a track waits for"
            )
        if self.until is not None and self.ending is None:
            raise problem(f"{self.step.KEY} has an until and no end", "until with a fault that lasts")
        return self

    @property
    def ending(self) -> type[StepModel] | None:
        """The step that ends it, if it is a fault that lasts."""
        word = self.step.ENDED_BY if isinstance(self.step, FaultStep) else None
        return None if word is None else steps()[word]

    @property
    def lasts_ns(self) -> int:
        """How long it lasts; 0: to the end of the run, or until an event, or it is over at once."""
        return self.until.after_ns if self.until is not None and self.until.default else 0

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What its beginning, its end, or its cancellation waits for."""
        cancel = self.step.cancel if isinstance(self.step, Operation) else None
        return tuple(each for each in (self.at, self.until, cancel) if each is not None)

    @property
    def anchors(self) -> Iterator[Anchor]:
        """The anchors that its triggers wait for."""
        yield from (each.anchor for each in self.triggers if each.anchor)


def _trigger(value: Any, loc: Loc) -> Trigger:
    """The trigger in an action's body; its errors have their place in the file."""
    try:
        return Trigger.model_validate(value)
    except ValidationError as error:
        raise problems(
            "Timed",
            [
                ((*loc, *one["loc"]), PydanticCustomError(one["type"], "{msg}", one.get("ctx")), one["input"])
                for one in error.errors()
            ],
        ) from error


def _short(step: type[StepModel] | None, body: dict[str, Any]) -> Any:
    """The body of a step that is no mapping in its short form: `say: {text: …, at: …}`, `heal: {at: …}`."""
    if step is not None and issubclass(step, Sole) and body.keys() == {step.FIELD}:
        return body[step.FIELD]
    return "all" if step is not None and issubclass(step, AllOrOne) and not body else body


def _with_triggers(
    body: JsonSchemaValue, trigger: JsonSchemaValue, handler: GetJsonSchemaHandler
) -> Iterator[JsonSchemaValue]:
    """The forms of an action's body that is a mapping, with triggers among its fields; or no body."""
    forms = [handler.resolve_ref_schema(one) for one in body.get("anyOf", [body])]
    for form in forms:
        if form.get("type") == "object":
            shape = copy.deepcopy(form)
            shape.setdefault("properties", {}).update(at=trigger, until=trigger)
            yield shape
    if any(form.get("type") != "object" for form in forms):  # as in `heal: {at: …}`
        yield {"type": "object", "properties": {"at": trigger, "until": trigger}}
    yield {"type": "null"}


def _actions(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise problem(f"{kind(value)} is not a track", f"a list of actions such as {EXAMPLE}")
    if not value:
        raise problem("the track is empty", f"at least one action, like {EXAMPLE}")
    return tuple(value)


def _track_name(name: str) -> str:
    if not re.fullmatch(TRACK_NAME, name) or name == START:
        raise problem(
            f"{shown(name)} can't name a track", "a client, a client's task such as alice/2, or faults"
        )
    return name


TrackName = Annotated[
    str, AfterValidator(_track_name), Field(json_schema_extra={"pattern": f"^{TRACK_NAME}$"})
]
Track = Annotated[tuple[Timed, ...], BeforeValidator(_actions), Field(json_schema_extra={"minItems": 1})]
Tracks = Mapping[TrackName, Track]


def task_of(track: str, clients: tuple[str, ...]) -> tuple[str, int] | None:
    """The client and the number of the task whose track it is; None: one of the environment."""
    name, _, task = track.partition("/")
    return (name, int(task or 1)) if name in clients else None


def misfits(
    tracks: Tracks, clients: tuple[str, ...], nodes: tuple[str, ...]
) -> Iterator[tuple[Loc, PydanticCustomError, object]]:
    """What names something that is not there, or waits for what never comes: where, why, what."""
    known = {"client": clients, "node": nodes}
    for name, timed in tracks.items():
        task = task_of(name, clients)
        if task is None and "/" in name:
            yield (name, "[key]"), unknown_word("client", name.partition("/")[0], clients), name
        for at, one in enumerate(timed):
            loc: Loc = (name, at, one.step.KEY)
            for to, where, word in references(one):
                if word not in known[to]:
                    yield (*loc, *where[1:]), unknown_word(to, word, known[to]), word
            if isinstance(one.step, Operation):
                yield from _owned(one.step, task, loc, clients)
            for word in ("at", "until"):
                trigger = getattr(one, word)
                if trigger is not None:
                    yield from _comes(trigger, (*loc, word), tracks, clients)
            cancel = one.step.cancel if isinstance(one.step, Operation) else None
            if cancel is not None:
                yield from _comes(cancel, (*loc, "cancel"), tracks, clients)


def _owned(
    step: Operation, task: tuple[str, int] | None, loc: Loc, clients: tuple[str, ...]
) -> Iterator[tuple[Loc, PydanticCustomError, object]]:
    if task is None and step.client is None:
        yield loc, problem(f"it does not say who {step.KEY}s", "client: one of " + choice(clients)), None
    if task is not None and step.client is not None:
        seen = f"the client is named in a track of {task[0]}"
        yield (*loc, "client"), problem(seen, "no client here"), step.client


def _comes(
    trigger: Trigger, loc: Loc, tracks: Tracks, clients: tuple[str, ...]
) -> Iterator[tuple[Loc, PydanticCustomError, object]]:
    """Refuse a trigger that waits for what no action of its track can give."""
    if trigger.track is None or trigger.track == START:
        return
    if trigger.track not in tracks:
        yield loc, unknown_word("track", trigger.track, tracks), trigger.track
        return
    if trigger.lease is not None or trigger.operation == SENDS:
        if task_of(trigger.track, clients) is None:
            lacks = "sends nothing" if trigger.lease is None else "has no lease"
            yield loc, problem(f"{trigger.track} {lacks}", "a client's track"), trigger.track
        return
    own = [one.step for one in tracks[trigger.track]]
    keys = list(dict.fromkeys(step.KEY for step in own))
    keys += [
        one.ending.KEY for one in tracks[trigger.track] if one.until is not None and one.ending is not None
    ]
    if trigger.operation not in keys:
        seen = f"no action of the track {trigger.track} is called {shown(trigger.operation)}"
        yield (
            (*loc, trigger.track),
            problem(seen, choice(keys), nearest(trigger.operation, keys)),
            trigger.operation,
        )
