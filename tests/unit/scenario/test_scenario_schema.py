"""The JSON schema: it accepts what the loader accepts, and finds an editor's common mistakes."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from lab.scenario import files
from lab.scenario.registry import steps
from lab.scenario.schema import DIALECT, json_schema

SCHEMA = json_schema()
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
CHECKED = {
    *(
        "$ref",
        "$defs",
        "$schema",
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "title",
        "description",
        "default",
    ),
    *("properties", "required", "additionalProperties", "patternProperties", "minProperties"),
    *("items", "minItems", "uniqueItems", "pattern", "minimum", "maximum", "exclusiveMaximum"),
}


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """A small validator for the keywords of JSON Schema that our schema uses."""
    assert set(schema) <= CHECKED, set(schema) - CHECKED
    if "$ref" in schema and not valid(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")]):
        return False
    kind = schema.get("type")
    if kind and (
        not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind in ("integer", "number"))
    ):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and (type(value), value) != (type(schema["const"]), schema["const"]):
        return False
    if "anyOf" in schema and not any(valid(value, one) for one in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(valid(value, one) for one in schema["oneOf"]) != 1:
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, dict):
        return valid_object(value, schema)
    if isinstance(value, list):
        return valid_array(value, schema)
    return not isinstance(value, int | float) or valid_number(value, schema)


def valid_object(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    if len(value) < schema.get("minProperties", 0) or not set(schema.get("required", ())) <= set(value):
        return False
    for key, child in value.items():
        inner = [schema["properties"][key]] if key in schema.get("properties", {}) else []
        inner += [
            one for pattern, one in schema.get("patternProperties", {}).items() if re.search(pattern, key)
        ]
        if not inner and schema.get("additionalProperties") is False:
            return False
        if not all(valid(child, one) for one in inner):
            return False
    return True


def valid_array(value: list[Any], schema: dict[str, Any]) -> bool:
    unique = not schema.get("uniqueItems") or len({json.dumps(one) for one in value}) == len(value)
    enough = len(value) >= schema.get("minItems", 0)
    return unique and enough and all(valid(one, schema.get("items", {})) for one in value)


def valid_number(value: float, schema: dict[str, Any]) -> bool:
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    return bool(low <= value <= high and value < schema.get("exclusiveMaximum", value + 1))


def shipped(name: str) -> dict[str, Any]:
    data = yaml.safe_load(files.shipped(name).read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data


def test_the_shipped_scenarios_are_valid() -> None:
    assert [name for name in files.ordinary_names() if not valid(shipped(name), SCHEMA)] == []


@pytest.mark.parametrize(
    ("action", "fits"),
    [
        ("release", True),
        ({"release": None}, True),
        ({"acquire": {"ttl": "2s", "cancel": "30ms", "at": {"bob": "granted", "nth": 2}}}, True),
        ({"heal": {"at": {"bob": "granted"}}}, True),
        ({"cut": {"client": "bob", "nodes": ["A"], "at": "1s", "until": {"bob": "refused"}}}, True),
        ("relase", False),
        ({"wait": "1s"}, False),
        ({"acquire": {"tll": "2s"}}, False),
        ({"cut": {"client": "bob", "nodes": ["A"], "at": {}}}, False),
        ({"acquire": {"at": 3}}, False),
    ],
)
def test_an_action_of_a_track_may_have_triggers(action: object, fits: bool) -> None:
    data = shipped("cancelled-acquire")
    assert valid(data, SCHEMA)
    data["tracks"]["alice"].append(action)
    assert valid(data, SCHEMA) is fits


def test_it_is_json_and_names_its_dialect() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["$schema"] == DIALECT == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("titel",), "x"),
        (("title",), " "),
        (("lock", "ttl"), 10),
        (("lock", "ttl"), "10"),
        (("lock", "ttl"), "-10s"),
        (("lock", "tll"), "10s"),
        (("lock", "options"), {"node-timeout": 1}),
        (("cluster", "nodes"), 27),
        (("cluster", "nodes"), 0),
        (("cluster", "persistence"), "aof"),
        (("clients",), []),
        (("clients",), ["Alice"]),
        (("clients",), {"alice": {"check": True}}),
        (("claims",), [0]),
        (("key",), "a b"),
        (("expect", "mutual_exclusion"), "absent"),
        (("expect", "findings"), ["overlaps"]),
        (("expect", "operations"), {"bob works": "fine"}),
        (("expect", "operations"), {"bob sleeps": "ok"}),
        (("expect", "operations"), {"bob works": []}),
        (("steps",), []),
        (("steps", 0), {"do": "alice acquire"}),
        (("steps", 0), {"do": []}),
        (("steps", 0), {"do": "alice reads until read"}),
        (("steps", 0), {"say": "x", "wait": "1s"}),
        (("steps", 0), {"sya": "x"}),
        (("steps", 0), {"wait": "1"}),
        (("steps", 0), {"heal": "everything"}),
        (("steps", 0), {"heal": {"nodes": "all"}}),
        (("steps", 0), {"hold": {"client": "alice"}}),
        (("steps", 0), {"hold": {"client": "alice", "nodes": "all", "store": True}}),
        (("steps", 0), {"cut": {"client": "alice", "nodes": ["a"]}}),
        (("steps", 0), {"cut": {"client": "alice", "nodes": []}}),
        (("steps", 0), {"jump": {"node": "A", "by": "11"}}),
        (("steps", 0), {"until": {"keys": "here"}}),
        (("steps", 0), {"until": {"lease": "alice", "over": "no"}}),
        (("steps", 0), {"until": {"nodes": ["A"], "up": False}}),
        (("steps", 0), {"until": {"client": "alice", "at": "somewhere"}}),
        (("steps", 0), {"cut": {"node": "A", "store": True}}),
        (("steps", 0), {"pause": {"node": "A", "client": "alice"}}),
        (("steps", 0), {"correct": "everything"}),
        (("steps", 0), {"bandwidth": {"client": "alice", "nodes": "all", "rate": "10"}}),
        (("steps", 0), {"drift": {"node": "A", "ppm": 2_000_000}}),
        (("cluster", "replicas"), {"B": "a"}),
    ],
)
def test_mistakes_are_found(path: tuple[str | int, ...], value: object) -> None:
    data = copy.deepcopy(shipped("partition-clockjump"))
    inner: Any = data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    assert not valid(data, SCHEMA)


@pytest.mark.parametrize(
    "step",
    [
        {"hold": {"client": "alice", "store": True}},
        {"heal": {"client": "alice", "nodes": ["A"]}},
        {"heal": "all"},
        {"until": {"nodes": ["A"], "executed": "SET", "within": "3s"}},
        {"until": {"lease": "alice", "over": True}},
        {"until": {"lease": "alice", "over": False}},
        {"until": {"keys": "gone"}},
        {"finish": ["alice", "bob"]},
        {"start": "alice continues until written"},
        {"jump": {"node": "A", "by": "-1.5h"}},
        {"wait": "100µs"},
        {"cut": {"node": "B", "from": "A"}},
        {"cut": {"client": "alice", "store": True}},
        {"heal": {"node": "B", "from": "A"}},
        {"delay": {"client": "alice", "nodes": "all", "by": "200ms", "jitter": "50ms", "direction": "both"}},
        {"bandwidth": {"client": "alice", "store": True, "rate": "10KB/s"}},
        {"reset": {"client": "alice", "nodes": ["A"]}},
        {"pause": {"node": "A"}},
        {"jump": {"client": "alice", "by": "-1s"}},
        {"drift": {"node": "A", "ppm": -500}},
        {"strobe": {"node": "A", "by": "+1s", "every": "50ms"}},
        {"correct": "all"},
        {"correct": {"client": "alice"}},
        {"power_cut": {"nodes": ["A"]}},
        {"restart": {"nodes": "all", "after": "10s"}},
        {"until": {"nodes": ["A"], "synced": False}},
        {"until": {"nodes": ["B"], "replicated": True, "within": "2s"}},
        {"until": {"nodes": ["B", "C"], "leads": True}},
        {"until": {"client": "alice", "at": "before-write"}},
    ],
)
def test_every_form_of_a_step_is_valid(step: dict[str, Any]) -> None:
    assert valid({**shipped("healthy"), "steps": [step]}, SCHEMA)


def described(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Paths of the properties that have no description."""
    for key, child in schema.get("properties", {}).items():
        target = SCHEMA["$defs"][child["$ref"].removeprefix("#/$defs/")] if "$ref" in child else {}
        if key not in steps() and "description" not in {**target, **child}:
            yield f"{path}.{key}"
        yield from described(child, f"{path}.{key}")


def test_everything_has_a_description() -> None:
    schemas = {"": SCHEMA, **SCHEMA["$defs"]}
    assert [path for name, schema in schemas.items() for path in described(schema, name)] == []
    assert all(schema.get("description") for schema in schemas.values())


def test_defaults_are_written_as_people_write_them() -> None:
    assert SCHEMA["$defs"]["Lock"]["properties"]["ttl"]["default"] == "10s"
    assert SCHEMA["$defs"]["KeysGone"]["properties"]["within"]["default"] == "10s"
    assert SCHEMA["properties"]["grace"]["default"] == "1s"
