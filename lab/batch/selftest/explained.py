"""What can go from a scenario without anything noticing, and why it is there all the same.

Each line of `decoration.yaml` names a scenario, a change of it that makes no difference, and a class of
reasons, whose sentence stands there once. A change that makes no difference and has no line is a hole in the
scenario: what it expects does not depend on its story. A line about a change that is noticed is out of date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
import yaml

from lab.batch.selftest.change_task import ChangeRow
from lab.errors import ExitCode

FILE: Final = "decoration.yaml"


class Explanations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The classes of reasons with their sentences, and the class of each change, by scenario."""

    reasons: dict[str, str]
    without: dict[str, dict[str, str]]

    def why(self, row: ChangeRow) -> str | None:
        """The class of reasons for which a change makes no difference."""
        return self.without.get(row.scenario, {}).get(row.what)


@cache
def explanations() -> Explanations:
    """The file's content. Raises ``msgspec.ValidationError`` if it has another shape."""
    data = yaml.safe_load(files("lab.batch.selftest").joinpath(FILE).read_text(encoding="utf-8"))
    return msgspec.convert(data, type=Explanations)


class ScenarioSelftest(msgspec.Struct, frozen=True):
    """All changes of some scenarios, and what is wrong with them.

    ``holes`` are changes that nothing noticed and nothing explains; ``outdated`` lines explain what was
    noticed, or is no change at all.
    """

    rows: tuple[ChangeRow, ...]
    holes: tuple[str, ...]
    outdated: tuple[str, ...]
    seconds: float

    @property
    def exit_code(self) -> ExitCode:
        """1 if there is a hole or an outdated line, 3 if a change could not be tried."""
        if self.holes or self.outdated:
            return ExitCode.UNEXPECTED
        lost = not self.rows or any(row.result == "lost" for row in self.rows)
        return ExitCode.UNKNOWN if lost else ExitCode.EXPECTED


def concluded(
    names: Sequence[str], rows: Iterable[ChangeRow], seconds: float, known: Explanations | None = None
) -> ScenarioSelftest:
    """Hold what came out for these scenarios against the explanations."""
    known = known or explanations()
    rows = tuple(rows)
    survived = {(row.scenario, row.what): row for row in rows if row.result == "survived"}
    lost = {row.scenario for row in rows if row.result == "lost"}
    holes = tuple(f"{row.scenario}: {row.what}" for row in survived.values() if known.why(row) is None)
    outdated = tuple(
        f"{name}: {what}"
        for name, lines in _of(names, known.without).items()
        for what in lines
        if (name, what) not in survived and name not in lost
    )
    return ScenarioSelftest(rows, holes, outdated, seconds)


def _of(names: Sequence[str], lines: Mapping[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {name: lines[name] for name in names if name in lines}
