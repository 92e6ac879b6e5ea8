"""Types of fields: durations, names of clients and nodes, sets of nodes."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    Strict,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lab.durations import EXPECTED, PATTERN, DurationError, format_duration, parse_duration_ns
from lab.scenario.described import descriptions
from lab.scenario.problems import kind, problem, shown

NODE_NAMES: Final = tuple(string.ascii_uppercase)
"""Names of the nodes, in order: a cluster of five has A to E."""

SENTINEL_NAMES: Final = tuple(f"S{number}" for number in range(1, 10))
"""Names of the Sentinel processes, in order."""

CLIENT_NAME: Final = r"[a-z][a-z0-9-]{0,31}"
"""The grammar of a client's name."""

RESERVED_NAMES: Final = ("nemesis", "lab", "node")
"""Processes of the lab itself in a history: no client may be called so."""


class Model(BaseModel):
    """The base class of all parts of a scenario: frozen, no unknown keys, dumped with the file's names."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        serialize_by_alias=True,
        protected_namespaces=(),
        defer_build=True,  # a run builds one scenario, not a validator of its own for each part
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, about in descriptions(cls).items():
            key = cls.model_fields[name].alias or name if name in cls.model_fields else name
            if key in properties:
                properties[key]["description"] = about
        return schema


def duration(least_ns: int | None, bound: str) -> Callable[[Any], int]:
    """A validator: text to nanoseconds, no less than `least_ns`; `bound` says so in words."""

    def parse(value: Any) -> int:
        if not isinstance(value, str):
            unitless = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            seen = f"{kind(value)} has no unit" if unitless else f"{kind(value)} is not a duration"
            hint = f"write {value}s for seconds or {value}ms for milliseconds" if unitless else None
            raise problem(seen, EXPECTED, hint)
        try:
            duration_ns = parse_duration_ns(value)
        except DurationError as error:
            raise problem(f"{shown(value)} {error}", EXPECTED) from error
        if least_ns is not None and duration_ns < least_ns:
            raise problem(f"{shown(value)} is too short", bound)
        return duration_ns

    return parse


def _signed(duration_ns: int) -> str:
    return format_duration(duration_ns, signed=True)


def _schema(sign: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{sign}?{PATTERN}$"})


DurationNs = Annotated[
    int,
    BeforeValidator(duration(0, "a duration of 0s or more")),
    PlainSerializer(format_duration, return_type=str),
    _schema(r"\+"),
]
"""Integer nanoseconds ≥ 0, written with a unit."""

PositiveNs = Annotated[
    int,
    BeforeValidator(duration(1, "a duration above 0s")),
    PlainSerializer(format_duration, return_type=str),
    _schema(r"\+"),
]
"""Integer nanoseconds > 0, written with a unit."""

SignedNs = Annotated[
    int,
    BeforeValidator(duration(None, "")),
    PlainSerializer(_signed, return_type=str),
    _schema("[+-]"),
]
"""Integer nanoseconds of either sign, written with a sign and a unit."""


RATE: Final = r"([0-9]{1,5})(KB|MB)/s"
RATE_UNITS: Final = {"KB": 1, "MB": 1000}
RATE_MAX_KB_PER_S: Final = 10_000
"""The fastest rate whose effect can still be measured."""


def _rate(value: Any) -> int:
    """Reads "10KB/s" or "2MB/s" as kilobytes per second."""
    match = re.fullmatch(RATE, value) if isinstance(value, str) else None
    rate = int(match[1]) * RATE_UNITS[match[2]] if match is not None else 0
    if not 0 < rate <= RATE_MAX_KB_PER_S:
        seen = f"{kind(value)} is not a rate" if match is None else f"{kind(value)} is out of range"
        raise problem(seen, "a whole number of KB/s or MB/s, like 10KB/s, up to 10MB/s")
    return rate


KbPerS = Annotated[
    int,
    BeforeValidator(_rate),
    PlainSerializer(lambda rate: f"{rate}KB/s", return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{RATE}$"}),
]
"""Integer kilobytes per second > 0, written with its unit."""


@dataclass(frozen=True)
class Refers:
    """Marks a field whose value must be a name that the scenario declares."""

    to: Literal["client", "node"]


def _text(value: Any) -> Any:
    """Refuses an empty text, or one that can't be printed."""
    if not isinstance(value, str):
        raise problem(f"{kind(value)} is not a text", "a text")
    if not value.strip():
        raise problem("the text is empty", "a text")
    return value


def _name(value: Any) -> Any:
    if not isinstance(value, str):
        raise problem(f"{kind(value)} is not a name", "a name")
    return value


def _declared_name(name: str) -> str:
    if not re.fullmatch(CLIENT_NAME, name):
        raise problem(
            f"{shown(name)} can't name a client",
            "a small letter, then small letters, digits and hyphens, 32 at most",
        )
    if name in RESERVED_NAMES:
        raise problem(f"the client's name {shown(name)} is reserved for the lab itself", "another name")
    return name


Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": "string", "pattern": r"\S"})]
"""A text with something in it."""

KEY_LENGTH_MAX: Final = 256


def key_name(key: str) -> str:
    """The key, if it can be one."""
    if not key or len(key) > KEY_LENGTH_MAX or not key.isprintable() or " " in key:
        raise problem(f"{shown(key)} can't be a key", f"1 to {KEY_LENGTH_MAX} characters and no spaces")
    return key


KeyName = Annotated[str, AfterValidator(key_name), Field(json_schema_extra={"pattern": r"^\S+$"})]
"""The key of a lock on its nodes."""

Int = Annotated[int, Strict()]
"""A whole number; no text or boolean is converted."""

Bool = Annotated[bool, Strict()]
"""true or false; nothing is converted."""

DeclaredClient = Annotated[
    str, AfterValidator(_declared_name), Field(json_schema_extra={"pattern": f"^{CLIENT_NAME}$"})
]
"""A client's name where it is introduced."""

ClientName = Annotated[str, BeforeValidator(_name), Refers("client")]
"""A client of the scenario."""

NodeName = Annotated[str, BeforeValidator(_name), Refers("node")]
"""A node of the cluster: A, B, C…; where the step allows it a Sentinel: S1, S2, S3…"""


def _node_list(value: Any) -> Any:
    """Checks the shape of a set of nodes: "all", or a list with at least one name and none twice."""
    if value == "all":
        return value
    if not isinstance(value, list | tuple):
        hint = f"write [{value}]" if isinstance(value, str) and value in NODE_NAMES else None
        raise problem(f"{kind(value)} is not a list of nodes", 'a list such as [A, B], or "all"', hint)
    if not value:
        raise problem("the list of nodes is empty", 'at least one node, or "all"')
    seen: set[str] = set()
    for name in value:
        if not isinstance(name, str):
            raise problem(f"{kind(name)} is not the name of a node", 'a list such as [A, B], or "all"')
        if name in seen:
            raise problem(f"node {shown(name)} is listed twice", "each node once")
        seen.add(name)
    return tuple(value)


Nodes = Annotated[
    Literal["all"] | tuple[str, ...],
    BeforeValidator(_node_list),
    Refers("node"),
    WithJsonSchema(
        {
            "description": 'Nodes by name, or "all".',
            "anyOf": [
                {"const": "all"},
                {
                    "type": "array",
                    "items": {"enum": [*NODE_NAMES, *SENTINEL_NAMES]},
                    "minItems": 1,
                    "uniqueItems": True,
                },
            ],
        }
    ),
]
"""A set of nodes: "all", or names in the order given."""
