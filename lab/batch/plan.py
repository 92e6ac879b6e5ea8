"""What a user asks for, as a plan: a suite file, scenarios by name, a whole set of them, or a survey."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.batch.choose import moved, only, repeated, shard, since_failure
from lab.batch.item import Plan
from lab.batch.matrix_plan import load_matrix, matrix_plan
from lab.batch.suite_plan import Choice, is_suite, library_plan, load_suite, scenarios_plan
from lab.errors import LabError
from lab.substrates import AUTO


@dataclass(frozen=True)
class Selection:
    """What is to be run.

    ``what``: a suite's file, or names and files of scenarios, which are run with their controls; the suite
    that comes with the lab if empty. ``choice``: a set of scenarios instead. ``survey``: as a survey of
    locks, which expects nothing. ``on``: the substrate, in place of what a file says. ``only``, ``shard``
    and ``since_failure`` (with the directory of earlier batches) choose of it.
    """

    what: tuple[str, ...] = ()
    choice: Choice | None = None
    survey: bool = False
    on: str | None = None
    only: tuple[str, ...] = ()
    shard: str | None = None
    since_failure: Path | None = None
    repeat: int = 1

    def plan(self) -> Plan:
        """The plan.

        Raises:
            LabError: a file, a name or an option is wrong (exit code 2).
        """
        plan = only(self._everything(), self.only)
        if self.shard is not None:
            plan = shard(plan, self.shard)
        if self.since_failure is not None:
            plan = since_failure(plan, self.since_failure)
        plan = repeated(plan, self.repeat)
        return matrix_plan(plan) if self.survey else plan

    def _everything(self) -> Plan:
        if self.choice is not None:
            return library_plan(self.choice, self.on or AUTO)
        file = Path(self.what[0]) if len(self.what) == 1 else None
        if self.survey and len(self.what) > 1:
            raise LabError(
                "a survey of several files",
                where=f"--matrix {' '.join(self.what)}",
                expected="one file in the format of a suite",
                hint="lab suite --matrix --show prints the one that comes with the lab, to start from",
            )
        if self.survey:
            plan = load_matrix(file)
        elif not self.what or (file is not None and is_suite(file)):
            plan = load_suite(file)
        else:
            return scenarios_plan(self.what, self.on or AUTO)
        return plan if self.on is None else moved(plan, self.on)
