"""The mutants as the task of a campaign: each number is one mutant and one way to catch it, simulated."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import shlex
import time
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from checker import Finding, Verdict
from checker.verdict import Severity
from lab.analysis.comparison import compare_properties
from lab.batch.item import Item
from lab.batch.row import Row
from lab.batch.scenario_task import simulated
from lab.errors import ExitCode, LabError
from lab.locks.broken import MUTANTS, Mutant, place
from lab.scenario.load import LoadedScenario, load_scenario
from lab.search.faults import Kind

Way = Literal["scenario", "search"]

SEARCHED_MAX: Final = 400
"""How many schedules a search for a mutant's finding may try."""
CONTROLS_MIN: Final = 50
"""How many schedules of the real lock are searched at least, where a search caught its mutant."""
SEARCH_OPTIONS: Final[dict[str, str | int | float | bool]] = {"node_timeout": "250ms", "retry_count": 2}


Result = Literal["caught", "survived", "control", "unknown"]
"""``control``: the real lock is not clean in the same scenario, or under the same search, so that this is no
proof against the mutant."""
RESULTS: Final[dict[Result, str]] = {
    "caught": "",
    "survived": "SURVIVED",
    "control": "NO PROOF",
    "unknown": "UNKNOWN",
}


class Catch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one way to catch one mutant.

    ``by`` is the name of a scenario, or the search; ``schedules`` and ``seconds`` are the number of runs and
    their time, without those of the real lock. ``witness`` holds the indices of the events that prove the
    finding, ``why`` is the checker's sentence, or for a search the steps that were left after shrinking.
    ``reasons``: why it was not caught.
    """

    mutant: str
    breaks: str
    by: str
    finding: str
    result: Result
    schedules: int = 0
    seconds: float = 0.0
    witness: tuple[int, ...] = ()
    why: str = ""
    reasons: tuple[str, ...] = ()
    repeat: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """0: caught, 1: not caught, 3: unknown."""
        codes = {"caught": ExitCode.EXPECTED, "unknown": ExitCode.UNKNOWN}
        return codes.get(self.result, ExitCode.UNEXPECTED)

    def row(self, seed: int) -> Row:
        """The result as a row of a batch."""
        return Row(
            seed,
            int(self.exit_code),
            findings=(self.finding,) if self.result == "caught" else (),
            reasons=tuple(f"{RESULTS[self.result]}: {reason}" for reason in self.reasons),
            wall_s=self.seconds,
            words=f"caught ({self.finding})" if self.result == "caught" else "",
            repeat=self.repeat,
            facts=msgspec.to_builtins(self),
        )


@dataclass(frozen=True, slots=True)
class SelftestTask:
    """Every mutant of ``names``, by its scenario and, where it has one, by its search."""

    names: tuple[str, ...]
    seed: int = 1
    name: str = "selftest"

    @property
    def ways(self) -> tuple[tuple[Mutant, Way], ...]:
        """The way of each number; searches first, since they take longest."""
        mutants = [MUTANTS[name] for name in self.names]
        searched: list[tuple[Mutant, Way]] = [(mutant, "search") for mutant in mutants if mutant.search]
        return (*searched, *((mutant, "scenario") for mutant in mutants))

    @property
    def items(self) -> tuple[Item, ...]:
        """The item for each number."""
        named = ((mutant, scenario_of(mutant) if way == "scenario" else way) for mutant, way in self.ways)
        return tuple(Item(f"{by}/{mutant.lock}/sim", by, mutant.lock, "sim") for mutant, by in named)

    def session(self) -> contextlib.AbstractContextManager[None]:
        """Each run prepares the process for simulations, and restores it."""
        return contextlib.nullcontext()

    def __call__(self, seed: int) -> Row:
        """Try to catch one; the facts of the row are the ``Catch``."""
        mutant, way = self.ways[seed]
        return (by_scenario(mutant, self.seed) if way == "scenario" else by_search(mutant, self.seed)).row(
            seed
        )

    def identity(self) -> dict[str, Any]:
        """The mutants and the seed."""
        return {"selftest": self.names, "seed": self.seed}

    def repeat(self, seed: int) -> str:
        """The same mutant alone."""
        only = ["--only", self.ways[seed][0].name]
        return shlex.join(["lab", "suite", "--selftest", *only, "--seed", str(self.seed)])

    def completed(self, row: Row) -> Row:
        """A row with its item, and with a ``Catch`` also if its worker died."""
        if not row.facts:
            mutant, way = self.ways[row.seed]
            failed = replace(blank(mutant, way), reasons=row.reasons, repeat=self.repeat(row.seed))
            row = replace(failed.row(row.seed), lost=row.lost)
        return replace(row, item=self.items[row.seed].id)


def blank(mutant: Mutant, way: Way) -> Catch:
    """The result before anything is known."""
    module, _, name = place(mutant.lock).partition(":")
    breaks = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    by = scenario_of(mutant) if way == "scenario" else f"search: {', '.join(mutant.search)}"
    return Catch(mutant.name, breaks.splitlines()[0], by, mutant.finding, "unknown")


def scenario_of(mutant: Mutant) -> str:
    """The name of its scenario. Raises ``LabError`` if it has none."""
    if mutant.scenario is None:
        raise LabError(
            f"the broken lock {mutant.name!r} has no scenario",
            expected="one with a scenario",
            hint="tests/known_bad shows the others",
        )
    return mutant.scenario


def by_scenario(mutant: Mutant, seed: int) -> Catch:
    """Run its scenario with the mutant and with the real lock. Raises ``LabError`` if it has none."""
    scenario = scenario_of(mutant)
    repeat = shlex.join(["lab", "run", scenario, "--lock", mutant.lock, "--seed", str(seed)])
    row = replace(blank(mutant, "scenario"), repeat=repeat)
    began_s = time.perf_counter()
    loaded = _loaded(scenario, mutant.lock)
    verdict, aborted, *_ = simulated(loaded, seed)
    row = replace(row, schedules=1, seconds=round(time.perf_counter() - began_s, 3))
    control = _clean(scenario, mutant.real, seed)
    result, reasons = _judged(mutant, loaded, verdict, aborted)
    if result == "caught" and control:
        result, reasons = "control", control
    hit = _hits(verdict, mutant.finding)
    return replace(
        row,
        result=result,
        reasons=reasons,
        witness=hit[0].witnesses if hit else (),
        why=hit[0].why if hit else "",
    )


def _loaded(scenario: str, lock: str) -> LoadedScenario:
    return load_scenario(scenario, [f"lock.name={lock}"])


def _hits(verdict: Verdict, finding: str) -> list[Finding]:
    """The violations of that name, the one with the fewest witnesses first."""
    hits = [each for each in verdict.named(finding) if each.severity is Severity.VIOLATION]
    return sorted(hits, key=lambda each: len(each.witnesses))


def _judged(
    mutant: Mutant, loaded: LoadedScenario, verdict: Verdict, aborted: str | None
) -> tuple[Result, tuple[str, ...]]:
    """Whether the mutant is caught by this verdict, and why not.

    A violation that the scenario does not expect is certain, whatever else is unknown.
    """
    mismatches, unknown = compare_properties(verdict, loaded.scenario.expect)
    hits = _hits(verdict, mutant.finding)
    if aborted or (unknown and not (hits and mismatches)):
        return "unknown", (aborted,) if aborted else unknown
    if not hits:
        seen = [each.name for each in verdict.findings if each.severity is Severity.VIOLATION]
        return "survived", (f"{mutant.finding} was not found, only: {', '.join(seen) or 'nothing'}",)
    if not mismatches:
        return "survived", (f"the scenario expects {mutant.finding} of any lock",)
    return "caught", ()


@functools.cache  # several mutants share a scenario
def _clean(scenario: str, lock: str, seed: int) -> tuple[str, ...]:
    """Why the real lock is not clean in this scenario; empty if it is."""
    loaded = _loaded(scenario, lock)
    verdict, aborted, *_ = simulated(loaded, seed)
    mismatches, unknown = compare_properties(verdict, loaded.scenario.expect)
    violations = [each.why for each in verdict.findings if each.severity is Severity.VIOLATION]
    wrong = [f"{m.what}: {m.seen}, expected {m.expected}" for m in mismatches]
    reasons = [*([aborted] if aborted else []), *unknown, *wrong, *violations]
    return tuple(f"the real lock: {reason}" for reason in reasons)


def by_search(mutant: Mutant, seed: int) -> Catch:
    """Search for its finding, and for the same with the real lock."""
    from lab.search.as_scenario import scenarios_of
    from lab.search.find import Search
    from lab.search.runner import trials
    from lab.search.space import parse_kinds

    kinds = parse_kinds(",".join(mutant.search))
    words = [
        "lab",
        "search",
        "--lock",
        mutant.lock,
        "--find",
        mutant.finding,
        "--faults",
        ",".join(mutant.search),
    ]
    repeat = shlex.join([*words, "--seed", str(seed), "--schedules", str(SEARCHED_MAX)])
    row = replace(blank(mutant, "search"), repeat=repeat)
    ended = Search(_space(mutant.lock, kinds), mutant.finding, schedules=SEARCHED_MAX, seed=seed)
    found = ended.run()
    if found.found is None or found.first is None:
        tried = found.progress.schedules
        why = f"{mutant.finding} was not found in {tried} schedules"
        return replace(row, result="survived", schedules=tried, reasons=(why,))
    needed = max(found.first.tried, CONTROLS_MIN)
    control = Search(_space(mutant.real, kinds), mutant.finding, schedules=needed, seed=seed)
    accused = control.run().found is not None
    with trials():
        why = scenarios_of(found.found, mutant.finding, command=repeat)[0].why
    return replace(
        row,
        result="control" if accused else "caught",
        reasons=(f"the same search finds {mutant.finding} with {mutant.real}",) if accused else (),
        schedules=found.first.tried,
        seconds=round(found.first.seconds, 3),
        why=why.partition("as small as it could. ")[2] or why,
    )


def _space(lock: str, kinds: tuple[Kind, ...]) -> Any:
    from lab.search.draw import Space

    return Space(lock, SEARCH_OPTIONS, kinds=kinds)
