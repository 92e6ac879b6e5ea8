"""A user's selection as a plan: a suite file, scenarios by name, a whole set of them, or a survey."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from lab.batch.choose import moved, only, repeated, shard, since_failure
from lab.batch.for_lock import Kind, plan_for
from lab.batch.item import Plan
from lab.batch.matrix_plan import DEFAULT, matrix_plan
from lab.batch.suite_plan import Choice, chosen, is_suite, library_plan, load_suite, scenarios_plan
from lab.drivers import is_driver
from lab.errors import LabError
from lab.substrates import AUTO

SIMULATED: Final = "sim"


@dataclass(frozen=True)
class Selection:
    """A selection of scenarios.

    ``what``: a suite's file, or names and files of scenarios, which are run with their controls; the lab's
    own suite if empty. ``choice``: a set of scenarios instead. ``survey``: as a survey of locks, without
    expectations. ``on``: the substrate, in place of the file's, or several with commas between them.
    ``only``, ``shard`` and ``since_failure`` (with the directory of earlier batches) select from it.
    ``for_lock``: the scenarios that apply to this lock, which is of this ``kind``, in the simulation unless
    there is ``on``.
    """

    what: tuple[str, ...] = ()
    choice: Choice | None = None
    survey: bool = False
    on: str | None = None
    only: tuple[str, ...] = ()
    shard: str | None = None
    since_failure: Path | None = None
    repeat: int = 1
    for_lock: str | None = None
    kind: Kind | None = None

    def plan(self) -> Plan:
        """The plan.

        Raises:
            LabError: a file, a name or an option is wrong (exit code 2).
        """
        if self.on is not None and "," in self.on:
            plans = [dataclasses.replace(self, on=on.strip()).plan() for on in self.on.split(",")]
            return replace(plans[0], items=tuple(item for plan in plans for item in plan.items))
        plan = only(self._selected(), self.only)
        if self.shard is not None:
            plan = shard(plan, self.shard)
        if self.since_failure is not None:
            plan = since_failure(plan, self.since_failure)
        plan = repeated(plan, self.repeat)
        return matrix_plan(plan) if self.survey else plan

    def _selected(self) -> Plan:
        if self.for_lock is not None and self.kind is not None:
            on = self.on or (AUTO if is_driver(self.for_lock) else SIMULATED)
            return plan_for(self.for_lock, self.kind, chosen(on))
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
            plan = load_suite(file or DEFAULT)
        elif not self.what or (file is not None and is_suite(file)):
            plan = load_suite(file)
        else:
            return scenarios_plan(self.what, self.on or AUTO)
        return plan if self.on is None else moved(plan, self.on)
