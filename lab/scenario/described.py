"""The descriptions of a model's fields: the texts below them in the source, read at the first use.

Pydantic can read them as well, but does so for every model at import, which takes longer than a run in
simulation.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys

from pydantic import BaseModel


@functools.cache
def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field of a model, by the field's name in Python; those of its bases as well."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if kind is not BaseModel and issubclass(kind, BaseModel):
            found |= _in_module(kind.__module__).get(kind.__name__, {})
    return found


@functools.cache
def _in_module(name: str) -> dict[str, dict[str, str]]:
    """The texts below the fields of each class of a module; none where there is no source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except OSError:
        return {}
    return {node.name: _below_fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _below_fields(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            found[field.target.id] = inspect.cleandoc(text.value.value)
    return found
