"""A suite file: cases, each of them scenarios × locks × substrates, and the expected result."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from lab.scenario.model import Expect
from lab.scenario.problems import kind, problem, shown
from lab.scenario.types import Bool, Int, Model, Text

ALL: Final = "all"
"""In place of a list of scenarios: all that come with the lab."""
REPEAT_MAX: Final = 1000
LABEL_MAX: Final = 24


def _listed(value: Any) -> Any:
    """A single name as a list of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple):
        raise problem(f"{kind(value)} is no list of names", "a name, or a list of names")
    if not value:
        raise problem("the list is empty", "at least one name")
    return tuple(value)


Names = Annotated[
    tuple[Text, ...],
    BeforeValidator(_listed),
    Field(json_schema_extra={"description": "A name, or a list of names."}),
]


def _label(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]*", text) or len(text) > LABEL_MAX:
        raise problem(
            f"{shown(text)} can't be a label", f"a word or two of at most {LABEL_MAX} characters, like tuned"
        )
    return text


class Case(Model):
    """Scenarios, run with each of these locks on each of these substrates."""

    scenarios: Names
    """Names or files of scenarios (files as seen from the suite's own), or `all` that come with the lab."""
    controls: Bool = False
    """Whether the control of each scenario is run as well; without `expect` only, since it has its own."""
    locks: Names | None = None
    """The locks under test, by name or as package.module:Class; without it, each scenario's own."""
    label: Annotated[Text, AfterValidator(_label)] | None = None
    """Shown after the lock's name, to distinguish cases with the same lock: tuned."""
    on: Names = ("auto",)
    """Substrates: sim, virtual, local, docker, or auto."""
    set: Names = ()
    """Keys of the scenario to override, as `--set` does: lock.ttl=2s."""
    repeat: Annotated[Int, Field(ge=1, le=REPEAT_MAX)] = 1
    """How often each is run, with another seed each time."""
    expect: Expect | None = None
    """The expected result, in place of the scenario's own: for a lock that is known to be broken."""


def _not_empty(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    if not cases:
        raise problem("the list of cases is empty", "at least one case, like {scenarios: all, on: sim}")
    return cases


class Suite(Model):
    """A list of cases."""

    title: Text
    """One line: what the suite is for."""
    cases: Annotated[tuple[Case, ...], AfterValidator(_not_empty)]
    """What is run."""
