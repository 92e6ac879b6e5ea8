"""From pydantic's validation errors to a `LabError` with places, in the order of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from yaml.nodes import Node

from lab.errors import LabError
from lab.scenario.described import descriptions
from lab.scenario.locate import Place, locate
from lab.scenario.model import Scenario
from lab.scenario.problems import Loc, choice, kind, nearest, shown
from lab.scenario.registry import steps
from lab.scenario.step_base import StepModel
from lab.scenario.types import Model
from lab.scenario.yaml_tree import OneLine


@dataclass(frozen=True)
class _Explained:
    seen: str
    expected: str
    hint: str | None = None
    at_key: bool = False
    """Whether the key is wrong, not its value."""


def explain(error: ValidationError, root: Node, model: type[Model] = Scenario) -> LabError:
    """The error to show for `error`, raised while the data of the tree `root` was validated as a `model`.

    It has all problems that were found, the first of them in front.
    """
    found: dict[tuple[Any, ...], LabError] = {}
    problems = error.errors(include_url=False)
    for details in problems:
        loc = details["loc"]
        # Items that are wrong are not counted: a list of these alone is "too short", too.
        if details["type"] == "too_short" and any(
            len(other["loc"]) > len(loc) and other["loc"][: len(loc)] == loc for other in problems
        ):
            continue
        explained = _explain(details, model)
        place = locate(root, loc)
        at_key = explained.at_key or "[key]" in loc
        shows = LabError(
            explained.seen,
            where=place.where(at_key=at_key),
            expected=explained.expected,
            hint=explained.hint,
        )
        # Wrong values come before missing keys: they often explain them.
        order = (details["type"] == "missing", *_order(place, at_key=at_key), place.path)
        missing = str(loc[-1]) if details["type"] == "missing" else ""
        found.setdefault((*order, missing), shows)
    return LabError.of_all([found[order] for order in sorted(found)])


def first_problem(error: ValidationError, model: type[Model], where: str) -> LabError:
    """The first problem of what is no YAML, but a value of one of the models at ``where``."""
    details = error.errors(include_url=False)[0]
    explained = _explain(details, model)
    return LabError(explained.seen, where=where, expected=explained.expected, hint=explained.hint)


def _order(place: Place, *, at_key: bool) -> tuple[int, int, int]:
    node = place.key if at_key and place.key is not None else place.value
    mark = node.start_mark
    return (0 if isinstance(mark.name, OneLine) else 1, mark.line, mark.column)


def _explain(details: ErrorDetails, model: type[Model]) -> _Explained:
    """One error of pydantic's in terms of a scenario."""
    value, context = details["input"], details.get("ctx", {})
    word = str(details["loc"][-1]) if details["loc"] else ""
    match details["type"]:
        case "lab_problem":
            return _Explained(context["seen"], context["expected"], context["hint"])
        case "missing":
            return _Explained(
                f"the key {shown(word)} is missing", _purpose(details["loc"], model), at_key=True
            )
        case "extra_forbidden":
            known = _keys(details["loc"][:-1], model)
            hint = nearest(word, known)
            return _Explained(f"unknown key {shown(word)}", choice(known), hint, at_key=True)
        case "literal_error":
            words = [part.strip("'") for part in context["expected"].replace(" or ", ", ").split(", ")]
            words = ["true" if part == "True" else part for part in words]
            return _Explained(f"{kind(value)} is not possible here", choice(words), nearest(value, words))
        case "greater_than_equal" | "less_than_equal" | "less_than" as bound:
            limits = {
                "greater_than_equal": "{ge} or more",
                "less_than_equal": "{le} or less",
                "less_than": "less than {lt}",
            }
            return _Explained(f"{kind(value)} is out of range", limits[bound].format(**context))
        case "too_short":
            return _Explained(f"{kind(value)} with nothing in it", "at least one")
    return _Explained(f"{kind(value)} is not possible here", _SHAPES.get(details["type"], details["msg"]))


_SHAPES: Mapping[str, str] = {
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_unicode": "a text of valid characters",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}


def _models(annotation: Any) -> list[type[Model]]:
    """The models inside a type: the members of a union, the items of a list, the values of a mapping."""
    if annotation is StepModel:
        return list(steps().values())
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    parts = (part for part in get_args(annotation) if not isinstance(part, str))
    return [model for part in parts for model in _models(part)]


def _model_at(loc: Loc, model: type[Model]) -> type[Model]:
    """The model whose fields lie at a location."""
    models = [model]
    for part in loc:
        tagged = [each for each in models if getattr(each, "KEY", None) == str(part).strip("<>")]
        if len(models) > 1:
            models = tagged or models
            continue
        fields = models[0].model_fields
        inner = next(
            (_models(info.annotation) for name, info in fields.items() if part in (name, info.alias)), []
        )
        models = inner or models
    return models[0]


def _keys(loc: Loc, model: type[Model]) -> list[str]:
    return [info.alias or name for name, info in _model_at(loc, model).model_fields.items()]


def _purpose(loc: Loc, model: type[Model]) -> str:
    """What a missing key is for, from the text below it in the model."""
    key = str(loc[-1])
    model = _model_at(loc[:-1], model)
    field = next((name for name, info in model.model_fields.items() if key in (name, info.alias)), "")
    about = descriptions(model).get(field)
    return f"{key}: {about[0].lower()}{about[1:].rstrip('.')}" if about else f"a value for {key}"
