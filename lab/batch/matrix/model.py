"""What a matrix is made of: cells with their runs, rows that were skipped, and what they come to."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from checker.verdict import Outcome, worst
from lab.batch.suite.load import labelled
from lab.batch.verdicts import OneRun
from lab.drivers import PREFIX
from lab.drivers.registry import row, rows
from lab.errors import ExitCode
from lab.search.tally import Interval, wilson
from lab.substrates import AUTO

State = Literal["known", "unknown", "n/a", "missing"]
"""What is known of a cell: something; nothing, though it was run; that it cannot be run; nothing yet."""


def is_known(run: OneRun) -> bool:
    """Whether a run came to a verdict, whatever its scenario expects; a violation stands in any case."""
    return (
        run.exit_code in (ExitCode.EXPECTED, ExitCode.UNEXPECTED) or Outcome.VIOLATED in run.outcomes.values()
    )


class Cell(msgspec.Struct, frozen=True):
    """One lock in one scenario on one substrate, and its runs.

    ``path`` is how the scenario is called to run it; ``title`` is its own, ``control_of`` the story whose
    control it is. ``own``: it is run as it stands, with its own lock, so that it says what must come out.
    ``why_not`` says why it cannot be run.
    """

    id: str
    scenario: str
    path: str
    title: str
    lock: str
    on: str
    settings: tuple[str, ...] = ()
    label: str = ""
    control_of: str = ""
    own: bool = False
    wanted: int = 1
    why_not: str = ""
    runs: tuple[OneRun, ...] = ()

    @property
    def row(self) -> str:
        """The lock, with its label behind it."""
        return labelled(self.lock, self.label)

    @property
    def reason(self) -> str:
        """Why it cannot be run with this lock, or why nothing is known; empty otherwise."""
        if self.why_not:
            return self.why_not
        if not self.runs:
            return "not run yet"
        if self.known:
            return ""
        refused = next((run.refused for run in self.runs if run.refused), "")
        return refused or next((reason for run in self.runs for reason in run.reasons), "no reason was given")

    @property
    def known(self) -> tuple[OneRun, ...]:
        """The runs that came to a verdict."""
        return tuple(run for run in self.runs if is_known(run))

    @property
    def unknown(self) -> int:
        """How many of its runs came to none."""
        return len(self.runs) - len(self.known)

    @property
    def state(self) -> State:
        """What is known of it; a run that was refused as bad input says that it cannot be run."""
        if self.why_not or (self.runs and all(run.refused for run in self.runs)):
            return "n/a"
        if self.known:
            return "known"
        return "unknown" if self.runs else "missing"

    @property
    def outcomes(self) -> dict[str, str]:
        """Property → the worst that came out of it in any run."""
        names = dict.fromkeys(name for run in self.known for name in run.outcomes)
        return {
            name: str(worst(Outcome(run.outcomes[name]) for run in self.known if name in run.outcomes))
            for name in names
        }

    @property
    def findings(self) -> tuple[str, ...]:
        """The names of the violations, each once."""
        return tuple(dict.fromkeys(name for run in self.known for name in run.findings))

    def violated(self, name: str | None = None) -> int:
        """In how many runs this property was violated, or any."""
        return sum(
            any(
                outcome == Outcome.VIOLATED
                for seen, outcome in run.outcomes.items()
                if name is None or seen == name
            )
            for run in self.known
        )

    @property
    def rate(self) -> Interval:
        """Between which shares of runs that violate anything the true one lies, with 95 % confidence."""
        return wilson(self.violated(), len(self.known))

    @property
    def as_expected(self) -> int:
        """How many of all its runs came out as the scenario says, of a scenario with its own lock."""
        return sum(run.as_expected for run in self.runs)

    @property
    def as_expected_rate(self) -> Interval:
        """The same as an interval; what is unknown counts against it."""
        return wilson(self.as_expected, len(self.runs))

    @property
    def wall_s(self) -> float:
        """How long a run took on the average, in seconds."""
        return sum(run.wall_s for run in self.runs) / len(self.runs) if self.runs else 0.0

    @property
    def versions(self) -> dict[str, str]:
        """What was under test."""
        return {name: version for run in self.runs for name, version in run.versions.items()}

    @property
    def shown(self) -> OneRun | None:
        """The run that stands for the others: the first that came to what most of them came to."""
        if not self.known:
            return self.runs[0] if self.runs else None
        votes = Counter(_verdict(run) for run in self.known)
        most = votes.most_common(1)[0][0]
        return next(run for run in self.known if _verdict(run) == most)

    @property
    def command(self) -> str:
        """The command that repeats it: the run that stands for the others, or any if there is none."""
        if self.shown is not None:
            return self.shown.repeat
        words = ["lab", "run", self.path, *(["--on", self.on] if self.on != AUTO else [])]
        return shlex.join([*words, *(word for setting in self.settings for word in ("--set", setting))])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: what it came to, without the single runs."""
        told: dict[str, Any] = {
            "id": self.id,
            "scenario": self.scenario,
            "title": self.title,
            "control_of": self.control_of or None,
            "lock": self.lock,
            "label": self.label or None,
            "library": library_of(self.lock) or None,
            "on": self.on,
            "settings": list(self.settings),
            "state": self.state,
            "reason": self.reason or None,
            "outcomes": self.outcomes,
            "findings": list(self.findings),
            "runs": len(self.runs),
            "unknown": self.unknown,
            "violated": self.violated(),
            "violated_by_property": {name: self.violated(name) for name in self.outcomes},
            "wilson_95": _ends(self.rate),
            "own": self.own,
            "wall_s": round(self.wall_s, 2),
            "versions": self.versions,
            "command": self.command,
        }
        if self.own:
            told |= {"as_expected": self.as_expected, "as_expected_wilson_95": _ends(self.as_expected_rate)}
        return told


class Skipped(msgspec.Struct, frozen=True):
    """A row without cells, and why."""

    row: str
    reason: str


class Matrix(msgspec.Struct, frozen=True):
    """A matrix as far as it is known."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """1 if a scenario with its own lock came out otherwise than it says; 3 if a cell is not known.

        What other locks come to is no business of the scenario's, so it is no failure.
        """
        if any(run.exit_code == ExitCode.UNEXPECTED for cell in self.cells if cell.own for run in cell.runs):
            return ExitCode.UNEXPECTED
        open_cells = [cell for cell in self.cells if cell.state in ("unknown", "missing")]
        return ExitCode.UNKNOWN if open_cells or not self.cells else ExitCode.EXPECTED

    def count(self, state: State) -> int:
        """How many cells are in that state."""
        return sum(cell.state == state for cell in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "matrix": self.name,
            "title": self.title,
            "exit_code": int(self.exit_code),
            "cells": [cell.to_dict() for cell in self.cells],
            "skipped": [msgspec.to_builtins(one) for one in self.skipped],
        }


class Table(msgspec.Struct, frozen=True):
    """Rows (and the lock of each), columns of scenarios; ``cells`` by (row, column)."""

    rows: dict[str, str]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


class Line(msgspec.Struct, frozen=True):
    """A story that one lock only was run in, and its control."""

    story: Cell
    control: Cell | None


def table_of(matrix: Matrix) -> Table:
    """The scenarios that several locks were run in. On several substrates each has a column of its own."""
    shared = _shared(matrix)
    cells = [cell for cell in matrix.cells if cell.scenario in shared]
    substrates = {cell.on for cell in cells}

    def column(cell: Cell) -> str:
        return f"{cell.scenario} ({cell.on})" if len(substrates) > 1 else cell.scenario

    rows = {cell.row: cell.lock for cell in cells}
    columns = dict.fromkeys(column(cell) for cell in cells)
    return Table(rows, tuple(columns), {(cell.row, column(cell)): cell for cell in cells})


def lines_of(matrix: Matrix) -> tuple[Line, ...]:
    """The stories that one lock only was run in, each with its control where that was run beside it."""
    shared = _shared(matrix)
    alone = [cell for cell in matrix.cells if cell.scenario not in shared]
    controls = {(cell.control_of, cell.row, cell.on): cell for cell in alone if cell.control_of}
    stories = {(cell.scenario, cell.row, cell.on) for cell in alone}
    return tuple(
        Line(cell, controls.get((cell.scenario, cell.row, cell.on)))
        for cell in alone
        if not cell.control_of or (cell.control_of, cell.row, cell.on) not in stories
    )


def _shared(matrix: Matrix) -> frozenset[str]:
    rows: dict[str, set[str]] = {}
    for cell in matrix.cells:
        rows.setdefault(cell.scenario, set()).add(cell.row)
    return frozenset(name for name, locks in rows.items() if len(locks) > 1)


def library_of(lock: str) -> str:
    """The library behind a lock, its pinned version and where it is from; empty for any other lock."""
    name = lock.removeprefix(PREFIX)
    if not lock.startswith(PREFIX) or name not in rows():
        return ""
    known = row(name)
    return " ".join(word for word in (known.library, known.version, f"({known.registry})") if word)


def with_runs(cells: Iterable[Cell], ended: Iterable[tuple[str, OneRun]]) -> tuple[Cell, ...]:
    """The cells with the runs that ended, by the ids of their cells, behind those that they have."""
    found: dict[str, list[OneRun]] = {}
    for name, run in ended:
        found.setdefault(name, []).append(run)
    return tuple(msgspec.structs.replace(cell, runs=(*cell.runs, *found.get(cell.id, ()))) for cell in cells)


def _verdict(run: OneRun) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    return tuple(run.outcomes.items()), run.findings


def _ends(interval: Interval) -> list[float]:
    return [round(interval.low, 4), round(interval.high, 4)]
