"""The JSON schema of scenario files (draft 2020-12), for editors and for `lab list --schema`."""

from __future__ import annotations

from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from lab.durations import PATTERN, format_duration
from lab.scenario.model import Scenario

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, with the defaults of durations written as people write them."""

    schema_dialect = DIALECT

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """The schema of a field with a default."""
        built = super().default_schema(schema)
        default = built.get("default")
        if isinstance(default, int) and str(built.get("pattern", "")).endswith(f"{PATTERN}$"):
            built["default"] = format_duration(default)
        return built


def json_schema() -> dict[str, Any]:
    """The JSON schema of a scenario file. Which clients and nodes there are, only loading can check."""
    schema = Scenario.model_json_schema(schema_generator=_Generator, mode="validation")
    return {"$schema": DIALECT, **schema, "title": "A scenario of the lock lab"}
