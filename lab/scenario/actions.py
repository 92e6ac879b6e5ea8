"""The sentences of `do` and `start`: "alice acquires", "bob works until before-write"."""

from __future__ import annotations

from typing import Any, Final, Literal, Self, get_args

from pydantic import GetJsonSchemaHandler, model_serializer, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lab.client_protocol import POINTS, Point
from lab.scenario.problems import choice, kind, nearest, problem, shown, unknown_word
from lab.scenario.types import CLIENT_NAME, ClientName, Model

Verb = Literal["acquires", "extends", "reads", "checks", "writes", "releases", "works", "continues"]
"""What a client can do. `works` is the whole critical section: acquire, read, check, write, release."""

VERBS: Final[tuple[Verb, ...]] = get_args(Verb)
STOPPABLE: Final[tuple[Verb, ...]] = ("works", "continues")
"""The verbs that take "until POINT"."""

GRAMMAR: Final = '"<client> <verb>", like "alice acquires" or "alice works until before-write"'


class Action(Model):
    """One operation of one client. Built from its sentence: `Action.model_validate("alice acquires")`."""

    client: ClientName
    """The client that does it."""
    verb: Verb
    """What it does."""
    until: Point | None = None
    """Where `works` or `continues` stops; None: at its end."""

    @model_validator(mode="before")
    @classmethod
    def _parse(cls, data: Any) -> Any:
        if isinstance(data, Action):
            return data
        if not isinstance(data, str):
            raise problem(f"{kind(data)} is not an action", GRAMMAR)
        return parse_action(data)

    @model_validator(mode="after")
    def _stoppable(self) -> Self:
        if self.until is not None and self.verb not in STOPPABLE:
            raise problem(f'"{self.verb}" has no pause point', f'"until" after {choice(STOPPABLE)} only')
        return self

    @model_serializer(mode="plain")
    def _text(self) -> str:
        return str(self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        steps = "|".join(VERBS)
        stops = f"(?:{'|'.join(STOPPABLE)}) +until +(?:{'|'.join(POINTS)})"
        pattern = f"^ *{CLIENT_NAME} +(?:(?:{steps})|{stops}) *$"
        return {"type": "string", "pattern": pattern, "description": f"{GRAMMAR}."}

    def __str__(self) -> str:
        return f"{self.client} {self.verb}" + (f" until {self.until}" if self.until is not None else "")


def parse_action(text: str) -> dict[str, str]:
    """The fields of the action that `text` describes; raises a problem that names the word that is wrong."""
    words = text.split()
    if len(words) not in (2, 4) or (len(words) == 4 and words[2] != "until"):
        raise problem(f"{shown(text)} is not an action", GRAMMAR)
    client, verb, *rest = words
    if verb not in VERBS:
        # "alice acquire": the nearest verb; "acquires alice": the right order.
        hint = f'write "{verb} {client}"' if client in VERBS else nearest(verb, VERBS)
        raise problem(f"unknown verb {shown(verb)}", choice(VERBS), hint)
    if not rest:
        return {"client": client, "verb": verb}
    if rest[1] not in POINTS:
        raise unknown_word("point", rest[1], POINTS)
    return {"client": client, "verb": verb, "until": rest[1]}
