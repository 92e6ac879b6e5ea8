"""The base class of steps, `{KEY: body}` in a file, and of three shapes of a body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import GetJsonSchemaHandler, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lab.scenario.problems import kind, problem
from lab.scenario.types import Model

if TYPE_CHECKING:
    from lab.scenario.impossible import Found, StepState


class StepModel(Model):
    """A step: in a file `{KEY: body}`, in Python an object with the body's fields."""

    KEY: ClassVar[str]
    """The one key of the step in a file."""
    EXAMPLE: ClassVar[str]
    """An example of a body, for errors and pages."""
    FITS_SENTINELS: ClassVar[bool] = False
    """Whether a Sentinel may be named in it where a node is."""

    @classmethod
    def unpack(cls, body: Any) -> Any:
        """The fields for `body`, the value under the key. If it is no mapping, override this and `pack`."""
        if not isinstance(body, dict):
            raise problem(f"{kind(body)} is not a body for {cls.KEY}", f"a mapping such as {cls.EXAMPLE}")
        return body

    def pack(self, fields: dict[str, Any]) -> Any:
        """The body for `fields`, the dumped fields: the inverse of `unpack`."""
        return fields

    @classmethod
    def body_schema(cls, fields: JsonSchemaValue) -> JsonSchemaValue:
        """The JSON schema of the body, given that of the fields."""
        return fields

    def impossible(self, state: StepState) -> Iterator[Found]:
        """What of it can't happen after the steps before it, whose `state` it then changes."""
        return iter(())

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, data: Any) -> Any:
        return cls.unpack(data[cls.KEY]) if isinstance(data, dict) and data.keys() == {cls.KEY} else data

    @model_serializer(mode="wrap")
    def _wrap(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {self.KEY: self.pack(handler(self))}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        fields = handler.resolve_ref_schema(schema)
        about = fields.pop("description", None)
        body = cls.body_schema(dict(fields))
        fields.clear()
        fields.update(
            type="object", properties={cls.KEY: body}, required=[cls.KEY], additionalProperties=False
        )
        fields.update({"description": about} if about else {})
        return schema


class Sole(StepModel):
    """A step whose body is the value of its only field: `wait: 500ms`."""

    FIELD: ClassVar[str]
    """The name of the only field."""

    @classmethod
    def unpack(cls, body: Any) -> Any:
        """The field with the body as its value."""
        return {cls.FIELD: body}

    def pack(self, fields: dict[str, Any]) -> Any:
        """The value of the field."""
        return fields[self.FIELD]

    @classmethod
    def body_schema(cls, fields: JsonSchemaValue) -> JsonSchemaValue:
        """The schema of the field."""
        return dict(fields["properties"][cls.FIELD])


class AllOrOne(StepModel):
    """A step whose body is the word "all", or names a client or a node: `heal: all`."""

    WHOSE: ClassVar[str]
    """What a body must name, for an error."""

    @property
    def everything(self) -> bool:
        """Whether all is meant."""
        return getattr(self, "client", None) is None and getattr(self, "node", None) is None

    @classmethod
    def unpack(cls, body: Any) -> Any:
        """No fields for the word "all"."""
        if body == "all":
            return {}
        if not isinstance(body, dict) or not (body.get("client") or body.get("node")):
            raise problem(f"{kind(body)} does not say {cls.WHOSE}", cls.EXAMPLE)
        return body

    def pack(self, fields: dict[str, Any]) -> Any:
        """The word "all", or the fields."""
        return "all" if self.everything else fields

    @classmethod
    def body_schema(cls, fields: JsonSchemaValue) -> JsonSchemaValue:
        """The word "all", or a mapping."""
        return {"anyOf": [{"const": "all"}, fields]}


class Series(Sole):
    """A step whose body is one item or a list of them: `finish: alice`, `finish: [alice, bob]`."""

    @classmethod
    def unpack(cls, body: Any) -> Any:
        """The field with a list of items, at least one."""
        items = body if isinstance(body, list | tuple) else [body]
        if not items:
            raise problem(f"the list under {cls.KEY} is empty", f"at least one item, like {cls.EXAMPLE}")
        return {cls.FIELD: items}

    def pack(self, fields: dict[str, Any]) -> Any:
        """A single item stands alone."""
        items = list(fields[self.FIELD])
        return items[0] if len(items) == 1 else items

    @classmethod
    def body_schema(cls, fields: JsonSchemaValue) -> JsonSchemaValue:
        """The schema of an item, or of a list of them."""
        item = fields["properties"][cls.FIELD]["items"]
        return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}
