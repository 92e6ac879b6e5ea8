"""Many runs from Python: suites, campaigns and searches, as ``Lab`` calls them in a process of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.batch.campaign import open_results, parse_seeds, run_campaign, runner
from lab.batch.engine import run_many
from lab.batch.plan import Selection
from lab.batch.result import Result
from lab.batch.tally import Tally
from lab.search.command import Asked, save, search_of
from lab.search.find import Ended
from lab.search.tasks import task_for
from lab.substrates.execute import execute


@dataclass(frozen=True)
class Searched:
    """How a search ended; ``scenario`` is the file that tells what was found, None if nothing was."""

    ended: Ended
    scenario: Path | None = None

    @property
    def found(self) -> bool:
        """Whether a schedule was found that breaks the lock."""
        return self.ended.found is not None


def suite(selection: Selection, out: Path, jobs: int | None, seed: int | None) -> Result:
    """Run a plan, as ``lab suite`` does. Raises ``LabError``: it cannot be made, or a row cannot be kept."""
    return run_many(selection.plan(), out=out, jobs=jobs, seed=seed)


def campaign(
    scenario: str | None,
    seeds: str,
    lock: str | None,
    faults: str | None,
    overrides: tuple[str, ...],
    jobs: int | None,
    out: Path,
) -> Tally:
    """Run a scenario, or drawn schedules, over many seeds, as ``lab campaign --resume`` does.

    Raises:
        LabError: bad input, or the file of results cannot be written.
    """
    task = task_for(scenario, overrides=list(overrides), lock=lock, faults=faults, wire=None)
    wanted, run = parse_seeds(seeds), runner(jobs, None)
    with open_results(out / f"campaign-{task.name}.jsonl", task, resume=True) as journal:
        return execute(run_campaign(task, wanted, journal, run, lambda row, tally: None))


def search(asked: Asked) -> Searched:
    """Search for a schedule that breaks a lock, and keep it, as ``lab search`` does. Raises ``LabError``."""
    wanted = search_of(asked)
    ended = wanted.run()
    return Searched(ended, None if ended.found is None else save(asked, ended.found, wanted).path)
