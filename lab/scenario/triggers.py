"""Triggers: the event that an action of a track waits for, and how long after it the action begins.

``100ms`` is a time after the default event: the end of the action before, for an ``until`` the beginning of
the fault, for a ``cancel`` the call. ``{bob: refused}`` is an event of another track, ``{bob: refused, nth:
2}`` the second of its kind since the run's start, ``{alice: lease over}`` the instant from which her lease is
certainly over, ``{alice: sends}`` that she is about to send commands to nodes (seen in a simulation only).
``{nodes: [B], executed: SET}`` and the other anchors are observed on nodes, and count from the default event
on, or from an event of a track that is named with them: ``{alice: acquire invoke, nodes: [B], executed:
SET}``. ``after`` adds a time to each of them; ``{start: 1.5s}`` counts from the run's start.

An event of a track that came earlier has come: no order of tracks loses one. Faults that wait for an event
without a delay have taken effect, receipts included, before any client goes on after that event.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lab.durations import PATTERN, DurationError, format_duration, parse_duration_ns
from lab.scenario.anchors import ANCHORS, AnyAnchor
from lab.scenario.problems import choice, kind, nearest, problem, shown
from lab.scenario.types import Int, Model, duration

EXAMPLES: Final = "{bob: refused}, {alice: extend ok, after: 100ms}, {nodes: [B], executed: SET} or 100ms"
OUTCOMES: Final = ("invoke", "ok", "fail", "info", "skipped")
RETURNS: Final = "returns"
"""Any of the outcomes, as the end of an action."""
ALIASES: Final = {"granted": "acquire ok", "refused": "acquire fail", "released": "release returns"}
SENDS: Final = "sends"
"""A client is about to send something to nodes: what it sends in one instant counts as one time."""
START: Final = "start"
"""The start of the run, as if it were a track: `{start: 1.5s}`."""
LEASE: Final = {"lease over": "over", "lease believed over": "believed over"}


AfterNs = Annotated[
    int,
    BeforeValidator(duration(None, "")),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": rf"^\+?{PATTERN}$"}),
]
"""Integer nanoseconds, written with a unit; less than 0 before the start only."""


class Trigger(Model):
    """An event, and a time after it."""

    track: str | None = None
    """The track whose event it is."""
    operation: str = ""
    """The key of the action: acquire, cut."""
    outcome: Literal["invoke", "ok", "fail", "info", "skipped", "returns"] = RETURNS
    """It is about to begin, or how it ended; a fault with a receipt ends with ok."""
    lease: Literal["over", "believed over"] | None = None
    """The lease of that track's client is over for certain, or by what the lock told its client."""
    nth: Annotated[Int, Field(ge=1, le=1000)] = 1
    """Which event of its kind, counted from the start of the run."""
    anchor: AnyAnchor | None = Field(default=None, alias="<anchor>")
    """An event observed on nodes."""
    after_ns: AfterNs = Field(default=0, alias="after")
    """How long after the event; after the start it may be less than 0, while clients open their locks yet."""

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, data: Any) -> Any:
        if isinstance(data, Trigger):
            return data
        if isinstance(data, str):
            try:
                parse_duration_ns(data)
            except DurationError:
                raise problem(f"{shown(data)} is no event", EXAMPLES) from None
            return {"after": data}
        if not isinstance(data, dict):
            raise problem(f"{kind(data)} is no event", EXAMPLES)
        if "track" in data or "<anchor>" in data:
            return data
        rest = {word: data[word] for word in data if word not in ("after", "nth")}
        own = {word: data[word] for word in ("after", "nth") if word in data}
        if rest.keys() == {START} and not own:
            return {"track": START, "after": rest[START]}
        anchor = next((ANCHORS[word] for word in rest if word in ANCHORS), None)
        if anchor is not None:
            fields = [info.alias or name for name, info in anchor.model_fields.items()]
            own["<anchor>"] = {word: rest.pop(word) for word in fields if word in rest}
            if "nth" in own and not rest:
                raise problem("nth is there with an event of nodes", "times: how often they executed it")
            if not rest:
                return own
        if len(rest) > 1:
            raise problem(f"{choice(map(shown, rest)).replace(' or ', ' and ')} are two events", EXAMPLES)
        for track, event in rest.items():
            return {"track": track, **_event(event), **own}
        if "nth" in own or not own:
            raise problem("this names no event", EXAMPLES)
        return own

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """A duration, or a mapping with an event."""
        schema = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(core_schema, handler))
        duration = schema["properties"]["after"]
        schema.clear()
        mapping = {"type": "object", "properties": {"after": duration, START: duration}, "minProperties": 1}
        schema.update(anyOf=[duration, mapping], description="An event, and a time after it.")
        return schema

    @model_serializer(mode="wrap")
    def _text(self, handler: SerializerFunctionWrapHandler) -> Any:
        dumped = handler(self)
        after = {"after": dumped["after"]} if self.after_ns else {}
        anchor: dict[str, Any] = {}
        if self.anchor is not None:
            anchor = self.anchor.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        if self.track is None:
            return {**anchor, **after} if anchor else dumped["after"]
        if self.track == START:
            return {START: dumped["after"]}
        nth = {"nth": self.nth} if self.nth > 1 else {}
        return {self.track: self.event, **nth, **anchor, **after}

    @model_validator(mode="after")
    def _leases_are_not_counted(self) -> Self:
        if self.lease is not None and self.nth > 1:
            raise problem("nth is there with the end of a lease", "no nth: the last lease is meant")
        return self

    @field_validator("after_ns", mode="after")
    @classmethod
    def _not_before_its_event(cls, after_ns: int, info: ValidationInfo) -> int:
        if after_ns < 0 and info.data.get("track") != START:
            raise problem(f"{shown(format_duration(after_ns))} is too short", "a duration of 0s or more")
        return after_ns

    @property
    def event(self) -> str:
        """The event of its track as a file says it."""
        if self.lease is not None:
            return f"lease {self.lease}"
        if self.operation == SENDS:
            return SENDS
        full = f"{self.operation} {self.outcome}"
        return next((short for short, long in ALIASES.items() if long == full), full)

    @property
    def default(self) -> bool:
        """Whether it is a time after the default event."""
        return self.track is None and self.anchor is None


def _event(text: Any) -> dict[str, str]:
    """The fields for ``granted``, ``extend ok``, ``lease over``."""
    if text in LEASE:
        return {"lease": LEASE[text]}
    if text == SENDS:
        return {"operation": SENDS, "outcome": "invoke"}
    words = ALIASES.get(text, text).split() if isinstance(text, str) else []
    if len(words) == 2 and words[1] in (*OUTCOMES, RETURNS):
        return {"operation": words[0], "outcome": words[1]}
    alone = [*ALIASES, *LEASE, SENDS]
    expected = f"{choice(alone)}, or an action with {choice([*OUTCOMES, RETURNS])}, like extend ok"
    hint = nearest(text, alone) if isinstance(text, str) else None
    raise problem(f"{kind(text)} is no event of a track", expected, hint)


def on(track: str, event: str, nth: int = 1, after_ns: int = 0) -> Trigger:
    """The ``nth`` such event of a track since the start, and so much later.

    Args:
        track: whose event it is.
        event: as a file says it: ``granted``, ``extend ok``, ``release invoke``, ``lease over``, ``sends``.
        nth: from 1 on; of the end of a lease the last one is meant.
        after_ns: how long after it, in nanoseconds.
    """
    return _made(track=track, nth=nth, after_ns=after_ns, **_fields_of(event))


def at_start(after_ns: int = 0) -> Trigger:
    """So many nanoseconds after the start; less than 0: while clients open their locks yet."""
    return _made(track=START, after_ns=after_ns)


def after(duration_ns: int) -> Trigger | None:
    """So many nanoseconds after the default event; None: at once."""
    return _made(after_ns=duration_ns) if duration_ns else None


def _made(**fields: Any) -> Trigger:
    """A trigger of fields that are known to be right; it is made in a tenth of the time of a checked one."""
    return Trigger.model_construct(**_USUAL | fields)


_USUAL: Final = {name: info.default for name, info in Trigger.model_fields.items()}


@functools.cache
def _fields_of(event: str) -> dict[str, str]:
    return _event(event)
