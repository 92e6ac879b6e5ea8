"""Campaigns, as ``lab campaign`` runs them: one scenario, or drawn schedules, over many seeds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from lab.batch import tally_table
from lab.batch.campaign import known_results, open_results, parse_seeds, results_path, run_campaign, runner
from lab.batch.row import Row
from lab.batch.tally import Tally
from lab.search.space import Drawn
from lab.search.tasks import task_for
from lab.substrates.execute import execute
from lab.substrates.interruption import Interrupted

__all__ = ["Campaign", "Drawn", "Interrupted", "campaign", "tally_table"]


class Campaign:
    """A campaign and its open file of results; use it with ``with``.

    Args:
        scenario: its name or file; None: schedules are drawn against ``lock``.
        seeds: as ``--seeds`` takes them.
        lock: the lock under test.
        drawn: options of drawn schedules, and overrides.
        out: the directory of the file of results.
        jobs: how many processes run seeds; the number of cores if absent.
        dask: the address of a Dask cluster that runs them instead.
        resume: whether results of an earlier run may be there.

    Raises:
        LabError: bad input, or the file of results cannot be written.
    """

    def __init__(
        self,
        scenario: str | None,
        seeds: str,
        lock: str | None,
        drawn: Drawn,
        out: Path,
        *,
        jobs: int | None = None,
        dask: str | None = None,
        resume: bool = False,
    ) -> None:
        self.task = task_for(scenario, lock=lock, drawn=drawn)
        self.seeds, self._runner = parse_seeds(seeds), runner(jobs, dask)
        self.path = results_path(out, self.task)
        self.journal = open_results(self.path, self.task, resume=resume)
        known = known_results(self.journal)
        self.known = sum(seed in known for seed in self.seeds)
        """How many of the seeds have a result already."""

    def __enter__(self) -> Campaign:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.journal.close()

    def run(self, on_result: Callable[[Row, Tally], None] = lambda row, tally: None) -> Tally:
        """Run the seeds without a result, and return the tally of all of them.

        Raises:
            LabError: no worker can be started, or the task cannot be run.
            Interrupted: a signal ended it; the results so far are kept.
        """
        return execute(run_campaign(self.task, self.seeds, self.journal, self._runner, on_result))


def campaign(
    scenario: str | None, seeds: str, lock: str | None, drawn: Drawn, jobs: int | None, out: Path
) -> Tally:
    """Run a campaign to its end, as ``lab campaign --resume`` does. Raises ``LabError``."""
    with Campaign(scenario, seeds, lock, drawn, out, jobs=jobs, resume=True) as begun:
        return begun.run()
