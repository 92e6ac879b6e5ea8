"""From a file, a name or a text to a validated scenario; whatever is wrong is one LabError."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError
from yaml.nodes import MappingNode, Node

from lab.errors import LabError
from lab.scenario.explain import explain
from lab.scenario.files import displayed, find, read
from lab.scenario.model import Scenario
from lab.scenario.overrides import apply
from lab.scenario.yaml_data import plain
from lab.scenario.yaml_tree import add_core_schema, compose, position

_EXPECTED: Final = "a mapping with title, source, why, clients, steps and expect"
_HINT: Final = "`lab list healthy` prints a scenario to start from"


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario with its file and its overrides."""

    name: str
    """The name of its file, without directory and suffix."""
    scenario: Scenario
    """The validated model, overrides included."""
    overrides: tuple[str, ...]
    """The overrides, as they were given."""

    @cached_property
    def text(self) -> str:
        """The scenario as it is run, as YAML with overrides and defaults. It loads to the same model."""
        return dump(self.scenario)


def load_scenario(path_or_name: str | Path, overrides: Iterable[str] = ()) -> LoadedScenario:
    """The scenario in the file of that path or with that name, with overrides (`key.path=value`) put in.

    Raises LabError, exit code 2, for whatever is wrong: its `where` names file, line, column and key.
    """
    path = find(path_or_name)
    return _loaded(read(path), displayed(path), tuple(overrides), path.stem)


def load_text(text: str, source: str, overrides: Iterable[str] = ()) -> LoadedScenario:
    """The scenario in `text`; `source` says in errors where the text comes from. Raises LabError."""
    return _loaded(text, source, tuple(overrides), Path(source).stem)


# A suite asks for the same scenarios again and again: as they are, and with what is set for a lock. To read
# the text takes most of the time, and is the same whatever is set. Nobody changes a scenario or a tree.
_tree = lru_cache(maxsize=512)(compose)


@lru_cache(maxsize=1024)
def _loaded(text: str, source: str, given: tuple[str, ...], name: str) -> LoadedScenario:
    root = _tree(text, source)
    if root is None:
        raise LabError("the scenario is empty", where=source, expected=_EXPECTED, hint=_HINT)
    if not isinstance(root, MappingNode):
        raise LabError(_seen_instead(root), where=position(root), expected=_EXPECTED, hint=_HINT)
    plain(root)  # errors of the file come before those of an override
    root = apply(root, given)
    try:
        scenario = Scenario.model_validate(_of_other_steps(plain(root), given))
    except ValidationError as error:
        raise explain(error, root) from error
    return LoadedScenario(name=name, scenario=scenario, overrides=given)


def _of_other_steps(data: Any, overrides: tuple[str, ...]) -> Any:
    """The data, without the expected outcomes of operations if an override replaces all steps."""
    keys = {override.partition("=")[0].strip() for override in overrides}
    expect = data.get("expect")
    if "steps" not in keys or any(key.startswith("expect") for key in keys) or not isinstance(expect, dict):
        return data
    return {**data, "expect": {key: value for key, value in expect.items() if key != "operations"}}


def _seen_instead(root: Node) -> str:
    shape = "a list" if isinstance(root.value, list) else "a single value"
    return f"the scenario is {shape}"


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 or 1.2 would take for anything but text, and writes paragraphs as paragraphs."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way; the parent's must not be shared
        first: list(found) for first, found in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        """Never an alias: the text is for people."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Of all that breaks lines, only "\n" survives a reading outside of double quotes.
    exact = all(char.isprintable() or char == "\n" for char in text)
    style = ("|" if "\n" in text else None) if exact else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


add_core_schema(_Dumper)
_Dumper.add_representer(str, _text)


def dump(scenario: Scenario) -> str:
    """The scenario as YAML, defaults written out, in the order of the model. It loads to an equal one."""
    data = scenario.model_dump(mode="json", exclude_none=True)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
