"""The steps of scenarios: those of `lab.scenario.steps`, and those of all modules in the packages named here.

A new file in one of the packages is enough to add a step. The packages are imported when the steps are first
needed, so no module of a scenario depends on them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from lab.scenario.fault_step import Effect, FaultStep
from lab.scenario.step_base import StepModel

OWN: Final = "lab.scenario.steps"
PACKAGES: Final = ("lab.faults",)


@cache
def steps() -> Mapping[str, type[StepModel]]:
    """All steps by their key: those of `OWN` in the order of the module, then the others by key.

    Raises:
        TypeError: two steps have one key.
    """
    own = _defined_in(import_module(OWN))
    others = [step for name in PACKAGES for module in _modules(name) for step in _defined_in(module)]
    found: dict[str, type[StepModel]] = {}
    for step in (*own, *sorted(others, key=lambda step: step.KEY)):
        if step.KEY in found:
            raise TypeError(f"two steps have the key {step.KEY}: {found[step.KEY]} and {step}")
        found[step.KEY] = step
    return found


@cache
def fault_steps() -> Mapping[str, type[FaultStep]]:
    """The steps that are faults, by their key, which is also their name in a history."""
    return {key: step for key, step in steps().items() if issubclass(step, FaultStep)}


def effect_of(f: str) -> Effect | None:
    """The effect of the fault of this name in a history; None: the lab has no such fault."""
    fault = fault_steps().get(f)
    return None if fault is None else fault.SIGN.effect


def _modules(package: str) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(import_module(package).__path__):
        yield import_module(f"{package}.{found.name}")


def _defined_in(module: ModuleType) -> Iterator[type[StepModel]]:
    for value in vars(module).values():
        is_step = isinstance(value, type) and issubclass(value, StepModel) and "KEY" in vars(value)
        if is_step and value.__module__ == module.__name__:
            yield value


class FromRegistry:
    """Makes the type of a field when its model is first used, from the steps that are registered then."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(self._make())
