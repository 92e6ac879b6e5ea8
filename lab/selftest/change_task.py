"""The changes of scenarios as the task of a campaign: each number is a scenario with all its changes."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

import msgspec
import yaml

from lab.analysis.comparison import compare
from lab.analysis.outcomes import outcomes
from lab.batch.row import Row
from lab.batch.scenario_task import simulated
from lab.durations import UNITS_NS
from lab.errors import ExitCode
from lab.scenario.load import LoadedScenario
from lab.scenario.model import Scenario
from lab.scenario.outcomes import actions
from lab.scenario.steps import Until
from lab.selftest.changes import Change, Vary, changes, scenario_of, wrong_versions
from lab.substrates.sim.patches import simulating

SEED: Final = 1
"""One seed is enough: the steps of scenarios are anchored, so that the result is the same with any."""

Noticed = Literal["noticed", "survived"]


class ChangeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a scenario, and whether the scenario's expectation notices it.

    ``by`` is the first reason: a mismatch, or why the run proves nothing. ``differs`` names the differences
    that are not noticed, since the run is as expected.
    """

    scenario: str
    kind: str
    what: str
    result: Noticed
    by: str = ""
    differs: tuple[str, ...] = ()


class _Simulated(NamedTuple):
    """The result of a scenario; ``problems`` are what was not as expected, or why nothing is known."""

    problems: tuple[str, ...]
    properties: dict[str, str]
    violations: tuple[str, ...]
    operations: tuple[str, ...]


def _simulate(name: str, scenario: Scenario) -> _Simulated:
    verdict, aborted, _, history = simulated(LoadedScenario(name, _impatient(scenario), ()), SEED)
    compared = compare(verdict, history, scenario)
    found = [each.name for seen in verdict.properties.values() for each in seen.violations]
    return _Simulated(
        (
            *(f"{m.what}: {m.seen}, not {m.expected}" for m in compared.mismatches),
            *((aborted,) if aborted else ()),
            *compared.unknown,
        ),
        {str(property_): str(seen.outcome) for property_, seen in verdict.properties.items()},
        tuple(dict.fromkeys(found)),
        tuple(outcome for _, outcome in outcomes(history, scenario.steps)),
    )


def _impatient(scenario: Scenario) -> Scenario:
    """The same with shorter limits for anchors (a lease and a second): with a change, many never hold."""
    longest_ns = scenario.lock.ttl_ns + UNITS_NS["s"]
    steps = []
    for step in scenario.steps:
        if isinstance(step, Until) and step.anchor.within_ns > longest_ns:
            step = Until(anchor=step.anchor.model_copy(update={"within_ns": longest_ns}))
        steps.append(step)
    return scenario.model_copy(update={"steps": tuple(steps)})


@functools.cache
def _unchanged(name: str) -> tuple[Scenario, _Simulated]:
    scenario = scenario_of(name)
    return scenario, _simulate(name, scenario)


@functools.cache
def _changes(name: str) -> tuple[Change, ...]:
    return tuple(changes(name))


@functools.cache
def versions(name: str) -> tuple[tuple[str, str, Vary, tuple[str, ...]], ...]:
    """The wrong versions of a scenario: kind, words, the function that makes it, the problems noticed."""
    scenario = scenario_of(name)
    return tuple(
        (kind, what, vary, _simulate(name, vary(scenario)).problems)
        for kind, what, vary in wrong_versions(scenario)
    )


def try_change(change: Change) -> ChangeResult:
    """Run a changed scenario; only inside ``simulating``."""
    row = functools.partial(ChangeResult, change.scenario, change.kind, change.what)
    if change.missed:
        return row("noticed", f"the outcome of {change.missed!r} is expected")
    if not change.changed.steps:
        return row("noticed", "no step is left")
    result = _simulate(change.scenario, change.changed)
    if change.kind == "put back" and not _violates_as_expected(change, result):
        return row("survived", differs=("the scenario violates a property, and this does not",))
    if result.problems:
        return row("noticed", result.problems[0])
    for _, what, vary, before in versions(change.scenario):
        if not before and change.kind != "put back":
            continue
        after = _simulate(change.scenario, vary(change.changed)).problems
        if bool(before) != bool(after):
            return row("noticed", f"{what} makes a difference with one of them only: {(before or after)[0]}")
    return row("survived", differs=tuple(_differences(change, result)))


def _violates_as_expected(change: Change, result: _Simulated) -> bool:
    """Whether something is violated, if the scenario whose steps were put back expects that."""
    control = scenario_of(change.scenario)
    controlled = scenario_of(control.control_of or "")
    return "violated" not in controlled.expect.outcomes.values() or "violated" in result.properties.values()


def try_versions(name: str) -> list[ChangeResult]:
    """The wrong versions of a scenario: of several other locks, or persistences, one must be noticed."""
    by: dict[tuple[str, str], str] = {}
    for kind, what, _, problems in versions(name):
        one = what.partition(":")[0] if kind == "lock" or what.startswith("persistence") else what
        key = kind, one if one == what else f"another {one}"
        by[key] = by.get(key) or (f"{what}: {problems[0]}" if problems else "")
    return [
        ChangeResult(name, kind, what, "noticed" if why else "survived", why)
        for (kind, what), why in by.items()
    ]


def _differences(change: Change, result: _Simulated) -> Iterator[str]:
    """How the result differs from the one without the change."""
    scenario, before = _unchanged(change.scenario)
    for name, outcome in result.properties.items():
        if outcome != before.properties[name]:
            yield f"{name}: {outcome}, not {before.properties[name]}"
    if result.violations != before.violations:
        yield f"found: {', '.join(result.violations) or 'nothing'}, not {', '.join(before.violations)}"
    done = zip(actions(scenario.steps), before.operations, strict=True)
    earlier = {id(action): one for action, one in done}
    for action, one in zip(actions(change.changed.steps), result.operations, strict=True):
        if one != earlier.get(id(action), one):
            yield f"{action}: {one}, not {earlier[id(action)]}"


class Explanations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``reasons``: classes of reasons with a sentence each. ``without``: scenario → change → class.

    It lists the changes that make no difference. If one is missing, what the scenario expects does not depend
    on that step; if one is noticed, its line is out of date.
    """

    reasons: dict[str, str]
    without: dict[str, dict[str, str]]

    def why(self, change: ChangeResult) -> str | None:
        """The class of reasons for which a change makes no difference."""
        return self.without.get(change.scenario, {}).get(change.what)


@functools.cache
def explanations() -> Explanations:
    """The content of ``decoration.yaml``. Raises ``msgspec.ValidationError`` if it has another shape."""
    data = yaml.safe_load(files("lab.selftest").joinpath("decoration.yaml").read_text(encoding="utf-8"))
    return msgspec.convert(data, type=Explanations)


def judged(name: str, seed: int, results: Sequence[ChangeResult], known: Explanations | None = None) -> Row:
    """All changes of a scenario as one row, compared with the explanations; its facts are the changes."""
    known = known or explanations()
    survived = {one.what: one for one in results if one.result == "survived"}
    noticed = sum(one.result == "noticed" for one in results)
    wrong = [
        f"a hole, nothing notices this change: {what}" for what in survived if not known.why(survived[what])
    ]
    wrong += [
        f"noticed, or no change: its line in decoration.yaml is out of date: {what}"
        for what in known.without.get(name, {})
        if what not in survived
    ]
    return Row(
        seed,
        int(ExitCode.UNEXPECTED if wrong else ExitCode.EXPECTED),
        reasons=tuple(wrong),
        words=f"{noticed} of {len(results)} changes are noticed, the others are explained",
        facts={"changes": msgspec.to_builtins(results)},
    )


def changes_of(row: Row) -> tuple[ChangeResult, ...]:
    """The changes in a row's facts; none if they could not be tried."""
    return msgspec.convert(row.facts.get("changes", ()), tuple[ChangeResult, ...])


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Each number is a scenario of these names with all its changes, which share its wrong versions."""

    names: tuple[str, ...]
    name: str = "scenario-changes"

    def session(self) -> AbstractContextManager[None]:
        """Prepare the process for simulations."""
        return simulating()

    def __call__(self, seed: int) -> Row:
        """Try all changes of one scenario."""
        name = self.names[seed]
        return judged(name, seed, [*map(try_change, _changes(name)), *try_versions(name)])

    def identity(self) -> dict[str, Any]:
        """The scenarios."""
        return {"scenarios": self.names}

    def repeat(self, seed: int) -> str:
        """The same scenario alone."""
        return shlex.join(["lab", "suite", "--selftest", "--scenarios", "--only", self.names[seed]])
