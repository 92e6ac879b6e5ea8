"""The result of a plan: its items with their runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from checker.verdict import Outcome
from checker.verdict import worst as worst_outcome
from lab.batch.exit_code import worst
from lab.batch.item import Item, Plan, library_of
from lab.batch.rate import Interval, wilson
from lab.batch.row import Row
from lab.errors import ExitCode
from lab.servers import Server

State = Literal["known", "unknown", "n/a", "missing"]
"""Of an item: it has a verdict; it was run without one; it cannot be run; it was not run yet."""


class Cell(msgspec.Struct, frozen=True):
    """An item with the runs of it that have ended."""

    item: Item
    rows: tuple[Row, ...] = ()
    survey: bool = False

    @property
    def known(self) -> tuple[Row, ...]:
        """The runs that have a verdict."""
        return tuple(row for row in self.rows if row.is_known)

    @property
    def unknown(self) -> int:
        """How many of its runs have none."""
        return len(self.rows) - len(self.known)

    @property
    def missing(self) -> int:
        """How many of the planned runs did not take place."""
        return max(0, self.item.repeat - len(self.rows))

    @property
    def state(self) -> State:
        """Its state; an item whose runs were refused as bad input cannot be run."""
        if self.item.why_not or (self.rows and all(row.refused for row in self.rows)):
            return "n/a"
        if self.known:
            return "known"
        return "unknown" if self.rows else "missing"

    @property
    def exit_code(self) -> ExitCode:
        """0 only if all planned runs ended as expected.

        In a survey nothing is expected of a lock that the scenario was not written for, so that no result of
        it is a failure; an item that cannot be run counts as known.
        """
        if self.survey:
            if self.item.own and any(row.exit_code == ExitCode.UNEXPECTED for row in self.rows):
                return ExitCode.UNEXPECTED
            return ExitCode.EXPECTED if self.state in ("known", "n/a") else ExitCode.UNKNOWN
        missing = [ExitCode.UNKNOWN] if self.missing else []
        return worst([*map(self.code_of, self.rows), *missing])

    def code_of(self, row: Row) -> int:
        """The exit code of one run; 0 for a known result where nothing is expected."""
        if self.survey and not self.item.own:
            return ExitCode.EXPECTED if row.is_known or row.refused else ExitCode.UNKNOWN
        return row.exit_code

    @property
    def reason(self) -> str:
        """Why it cannot be run, or has no verdict; empty otherwise."""
        if self.item.why_not:
            return self.item.why_not
        if not self.rows:
            return "not run yet"
        if self.known:
            return ""
        refused = next((row.refused for row in self.rows if row.refused), "")
        return refused or next((reason for row in self.rows for reason in row.reasons), "no reason was given")

    @property
    def outcomes(self) -> dict[str, str]:
        """Property → its worst outcome in any run."""
        names = dict.fromkeys(name for row in self.known for name in row.outcomes)
        return {
            name: str(
                worst_outcome(Outcome(row.outcomes[name]) for row in self.known if name in row.outcomes)
            )
            for name in names
        }

    @property
    def findings(self) -> tuple[str, ...]:
        """The names of the violations, each once."""
        return tuple(dict.fromkeys(name for row in self.known for name in row.findings))

    def violated(self, name: str | None = None) -> int:
        """In how many runs this property was violated, or any."""
        return sum(row.violates(name) for row in self.known)

    @property
    def rate(self) -> Interval:
        """The share of runs that violate anything: its 95 % confidence interval."""
        return wilson(self.violated(), len(self.known))

    @property
    def as_expected(self) -> int:
        """How many of all its runs were as the scenario expects."""
        return sum(row.as_expected for row in self.rows)

    @property
    def as_expected_rate(self) -> Interval:
        """The share of runs as expected: its 95 % confidence interval; an unknown run is not as expected."""
        return wilson(self.as_expected, len(self.rows))

    @property
    def wall_s(self) -> float:
        """The average duration of a run, in seconds."""
        return sum(row.wall_s for row in self.rows) / len(self.rows) if self.rows else 0.0

    @property
    def shown(self) -> Row | None:
        """The run that represents the others: the first with the verdict that most of them have."""
        if not self.known:
            return self.rows[0] if self.rows else None
        verdicts = [(tuple(row.outcomes.items()), row.findings) for row in self.known]
        return self.known[verdicts.index(Counter(verdicts).most_common(1)[0][0])]

    @property
    def command(self) -> str:
        """The command that repeats the run that is shown, or runs the item if there is none."""
        if self.shown is not None and self.shown.repeat:
            return self.shown.repeat
        return self.item.command()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without the single runs."""
        item = self.item
        fields: dict[str, Any] = {
            "id": item.id,
            "scenario": item.name,
            "title": item.title,
            "control_of": item.control_of or None,
            "lock": item.lock,
            "label": item.label or None,
            "library": library_of(item.lock) or None,
            "on": item.on,
            "settings": list(item.settings),
            "state": self.state,
            "exit_code": int(self.exit_code),
            "reason": self.reason or None,
            "outcomes": self.outcomes,
            "findings": list(self.findings),
            "runs": len(self.rows),
            "wanted": item.repeat,
            "unknown": self.unknown,
            "violated": self.violated(),
            "violated_by_property": {name: self.violated(name) for name in self.outcomes},
            "wilson_95": _ends(self.rate),
            "own": item.own,
            "wall_s": round(self.wall_s, 2),
            "versions": {name: version for row in self.rows for name, version in row.versions.items()},
            "command": self.command,
        }
        if item.own or not self.survey:
            fields |= {"as_expected": self.as_expected, "as_expected_wilson_95": _ends(self.as_expected_rate)}
        return fields


class Result(msgspec.Struct, frozen=True):
    """A plan with the runs so far, which took ``seconds``."""

    plan: Plan
    cells: tuple[Cell, ...]
    seconds: float = 0.0

    @classmethod
    def of(cls, plan: Plan, rows: Iterable[Row], seconds: float = 0.0) -> Result:
        """The items with the runs of each, in the order in which they ended."""
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row.item, []).append(row)
        cells = (Cell(item, tuple(found.get(item.id, ())), plan.survey) for item in plan.items)
        return cls(plan, tuple(cells), round(seconds, 1))

    @property
    def exit_code(self) -> ExitCode:
        """The worst of all items; unknown if there is none."""
        return worst(cell.exit_code for cell in self.cells)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All runs."""
        return tuple(row for cell in self.cells for row in cell.rows)

    @property
    def servers(self) -> tuple[str, ...]:
        """Product and version of the nodes, as the runs recorded them: "Redis 7.0.15"."""
        seen = dict.fromkeys(row.versions["server"] for row in self.rows if "server" in row.versions)
        return tuple(Server.parse(text).words for text in seen)

    def count(self, code: ExitCode) -> int:
        """How many items ended with this code."""
        return sum(cell.exit_code == code for cell in self.cells)

    def to_dict(self, *, rows: bool = True) -> dict[str, Any]:
        """The JSON form, with the single runs or without."""
        cells = [
            {
                **cell.to_dict(),
                **({"rows": [msgspec.structs.asdict(row) for row in cell.rows]} if rows else {}),
            }
            for cell in self.cells
        ]
        return {
            "name": self.plan.name,
            "title": self.plan.title,
            "exit_code": int(self.exit_code),
            "servers": list(self.servers),
            **({"seconds": self.seconds} if rows else {}),
            "cells": cells,
            "skipped": [msgspec.to_builtins(one) for one in self.plan.skipped],
        }


def _ends(interval: Interval) -> list[float]:
    return [round(interval.low, 4), round(interval.high, 4)]
