"""Suites, as ``lab suite`` runs them: scenarios × locks, surveys, and the self-tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lab.batch import matrix_plan, suite_plan, tables
from lab.batch.choose import served
from lab.batch.dask import refuse_jobs
from lab.batch.engine import Batch
from lab.batch.exit_code import worst
from lab.batch.one_run import refuse_elsewhere
from lab.batch.plan import Selection
from lab.batch.reports import Reports
from lab.batch.result import Result
from lab.batch.servers_plan import on_servers, print_servers, servers_table
from lab.errors import LabError
from lab.run.request import RunRequest
from lab.substrates import AUTO, choose, substrate
from lab.substrates.execute import execute
from lab.substrates.interruption import Interrupted

__all__ = ["Interrupted", "Reports", "Selection", "begin", "print_servers", "suite", "tables", "worst"]


@dataclass(frozen=True)
class SelftestOptions:
    """Options of a self-test: of changed scenarios or of broken locks, and how often the real lock is run."""

    scenarios: bool = False
    full: bool = False
    simulated: int | None = None
    real: int | None = None


@dataclass
class Suite:
    """A suite that is ready to run; ``page`` makes its Markdown, if that is not the tables.

    ``server`` is the one that was asked for.
    """

    batch: Batch
    work: Callable[..., Coroutine[Any, Any, Result]]
    page: Callable[[Result], str] | None = None
    server: str = ""

    @property
    def servers(self) -> str:
        """Product and version of the nodes on each substrate, where they are known before the runs."""
        if self.batch.plan.servers:
            return f"on {', '.join(self.batch.plan.servers)}"
        names = dict.fromkeys(
            choose(item.on, server=self.server or None)[0] if item.on == AUTO else item.on
            for item in self.batch.plan.items
        )
        known = {name: substrate(name).servers(self.server or None) for name in names}
        return ", ".join(f"{name}: {servers}" for name, servers in known.items() if servers)

    def run(self, **callbacks: Callable[..., None]) -> Result:
        """Run what is missing, with the callbacks of ``Batch.run``.

        Raises:
            LabError: a row cannot be written.
            Interrupted: a signal ended it; what had ended is in the journal, and ``begin`` resumes it.
        """
        return execute(self.work(**callbacks))


def begin(
    selection: Selection,
    out: Path,
    *,
    selftest: SelftestOptions | None = None,
    resume: Path | None = None,
    jobs: int | None = None,
    seed: int | None = None,
    like: str | None = None,
    servers: Sequence[str] = (),
    dask: str | None = None,
) -> Suite:
    """Make the plan and its directory below ``out``; or open the directory ``resume``.

    ``like`` names the reference whose kind the lock of ``selection.for_lock`` is; by default it is found.
    ``servers`` has the server that all Redis nodes are, in place of the default, or those on each of which
    all is run. ``dask`` is the address of the scheduler of a Dask cluster on which all runs take place, which
    must be simulated.

    Raises:
        LabError: a file, a name or an option is wrong, or the directory cannot be written.
    """
    server = servers[0] if servers else ""
    if server and (selftest is not None or resume is not None):
        other = "--selftest" if selftest is not None else "--resume"
        raise LabError(f"--server {server} together with {other}", expected="either one or the other")
    if len(servers) > 1 and (selection.for_lock is not None or selection.survey):
        other = "--for" if selection.for_lock is not None else "--matrix"
        raise LabError(f"several servers together with {other}", expected="one server, or scenarios")
    if selection.for_lock is not None or like is not None:
        from lab.search.kind import with_kind  # imports the simulation

        selection = with_kind(selection, like, server)
    if selftest is not None:
        from lab.selftest.run import Trials, of_locks, of_scenarios

        trials = Trials(selftest.full, selftest.simulated, selftest.real, selection.on or "auto", jobs)
        only = selection.only
        test = of_scenarios(only) if selftest.scenarios else of_locks(only, trials, seed or 1)
        batch = Batch.begin(test.plan, out)
        return Suite(batch, partial(test.work, batch), test.page)
    if resume is not None:
        batch = Batch.resume(resume, selection.only, selection.repeat)
    else:
        plan = selection.plan()
        if len(servers) > 1:
            plan = on_servers(plan, servers)
        elif server and selection.for_lock is None:
            plan = served(plan, server)
        if server and not plan.servers:  # refused before anything runs
            for item in {item.on: item for item in plan.items}.values():
                RunRequest(item.scenario, item.settings, substrate=item.on).plan()
        if dask is not None:
            refuse_elsewhere(plan.items)
            refuse_jobs(jobs)
        batch = Batch.begin(plan, out)
    page = (lambda result: servers_table(result).markdown()) if batch.plan.servers else None
    return Suite(batch, partial(batch.run, jobs=jobs, seed=seed, dask=dask), page, server)


def suite(
    selection: Selection, out: Path, jobs: int | None, seed: int | None, like: str | None = None
) -> Result:
    """Run a plan to its end. Raises ``LabError``: it cannot be made, or a row cannot be written."""
    begun = begin(selection, out, jobs=jobs, seed=seed, like=like)
    try:
        return begun.run()
    finally:
        begun.batch.close()


def shipped_file(*, matrix: bool) -> str:
    """The text of the suite, or the survey, that comes with the lab."""
    file = matrix_plan.DEFAULT if matrix else suite_plan.DEFAULT
    return file.read_text(encoding="utf-8")
