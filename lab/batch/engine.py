"""From a plan to its rows: several runs at once, each written to the journal when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from lab.batch.choose import DIRECTORIES, JOURNAL, only, repeated
from lab.batch.dask import cluster_at
from lab.batch.executor import cores
from lab.batch.item import Item, Plan
from lab.batch.journal import Journal, plan_in
from lab.batch.one_run import Workers, refuse_elsewhere, run_one
from lab.batch.result import Result
from lab.batch.row import Row
from lab.errors import LabError
from lab.report.files import Picture
from lab.substrates import is_simulated

OnStart = Callable[[Item], None]
OnRow = Callable[[Item, Row], None]


class Batch:
    """A plan that is being run, with its directory and its journal."""

    def __init__(self, directory: Path, plan: Plan, journal: Journal) -> None:
        self.directory, self.plan, self._journal = directory, plan, journal
        self._rows = list(journal.rows)
        self._began_s = time.monotonic()

    @classmethod
    def begin(cls, plan: Plan, out: Path) -> Batch:
        """Begin in a new directory below ``out``. Raises ``LabError`` if it cannot be written."""
        stamp = f"{datetime.now().astimezone():%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        directory = out.resolve() / f"{DIRECTORIES}{stamp}"
        journal = Journal(directory / JOURNAL)
        journal.begin(msgspec.json.encode(plan))
        return cls(directory, plan, journal)

    @classmethod
    def resume(cls, directory: Path, patterns: Sequence[str] = (), repeat: int = 1) -> Batch:
        """Continue the batch in a directory, or a part of it, ``repeat`` times as often.

        Raises:
            LabError: nothing was begun there, its journal is damaged, or another lab is writing it.
        """
        path = directory.resolve() / JOURNAL
        if not path.is_file():
            raise LabError(
                "there is nothing to continue",
                where=str(directory),
                expected=f"the directory of a suite, with its {JOURNAL}",
                hint=f"lab suite prints the directory when it begins: reports/{DIRECTORIES}…",
            )
        journal = Journal(path)
        try:
            plan = plan_in(journal)
            if plan.by_task:
                raise LabError(
                    "a self-test cannot be resumed", where=str(directory), hint="lab suite --selftest"
                )
            return cls(path.parent, repeated(only(plan, patterns), repeat), journal)
        except BaseException:
            journal.close()
            raise

    @property
    def result(self) -> Result:
        """The result so far."""
        return Result.of(self.plan, self._rows, time.monotonic() - self._began_s)

    @property
    def missing(self) -> tuple[Item, ...]:
        """The items that are still to be run, with the number of missing runs."""
        return tuple(
            replace(cell.item, repeat=cell.missing)
            for cell in self.result.cells
            if cell.missing and cell.state != "n/a"
        )

    async def run(
        self,
        *,
        jobs: int | None = None,
        seed: int | None = None,
        dask: str | None = None,
        on_start: OnStart = lambda item: None,
        on_row: OnRow = lambda item, row: None,
    ) -> Result:
        """Run what is missing, ``jobs`` real runs at once (one for each core if None).

        With ``seed``, the seeds of the runs are drawn from it, and are the same each time. With ``dask``, the
        address of a scheduler, all runs take place on its cluster. On cancellation, the runs are interrupted
        and tear down first; results of finished runs are kept.

        Raises:
            LabError: a run cannot take place on a cluster, or that cannot be used.
            UnknownOutcome: a row could not be written; the other runs were interrupted.
        """
        begun = Counter(row.item for row in self._rows)

        async def one(item: Item, at: int) -> None:
            on_start(item)
            picture: Picture = "never" if self.plan.survey else "unexpected"
            drawn = _seed(seed, item, begun[item.id] + at)
            row = await run_one(item, drawn, self.directory, picture=picture, workers=workers)
            self.keep(row)
            on_row(item, row)

        cluster = None
        if dask is not None:
            refuse_elsewhere(self.missing)
            cluster = await asyncio.to_thread(cluster_at, dask, jobs)
        with one_error():
            async with Workers(jobs, cluster) as workers:
                await run_items(self.missing, one, simulated=workers.simulated, jobs=jobs or cores())
        return self.result

    def keep(self, row: Row) -> None:
        """Add the row of a finished run, and write it. Raises ``UnknownOutcome`` if that is not possible."""
        self._rows.append(row)
        self._journal.append(row)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()


async def run_items(
    items: Sequence[Item],
    run: Callable[[Item, int], Awaitable[None]],
    *,
    simulated: int,
    jobs: int,
) -> None:
    """Call ``run`` for each run of each item, with the number of the run, from 0 on.

    Simulated runs come first, so many at once: they do not depend on wall clocks. Real ones follow, ``jobs``
    at once and without simulated ones beside them, since they need processor time. They go round by round, so
    that a temporary disturbance of the machine does not hit one item only. No run is retried.
    """
    rounds = max((item.repeat for item in items), default=0)
    wanted = [(item, at) for at in range(rounds) for item in items if at < item.repeat]

    async def one(item: Item, at: int, free: asyncio.Semaphore) -> None:
        async with free:
            await run(item, at)

    for is_real, at_once in ((False, simulated), (True, jobs)):
        free = asyncio.Semaphore(at_once)
        async with asyncio.TaskGroup() as group:
            for item, at in wanted:
                if is_simulated(item.on) != is_real:
                    group.create_task(one(item, at, free))


def _seed(seed: int | None, item: Item, at: int) -> int:
    """The seed of one run: drawn from the batch's, or from the system's entropy."""
    draw = random.SystemRandom() if seed is None else random.Random(f"{seed}/{item.id}/{at}")
    return draw.randrange(2**31)


@contextlib.contextmanager
def one_error() -> Iterator[None]:
    """What several tasks raised becomes the first of their lab errors, unless there was something else.

    What is raised in an ``except*`` comes in a group again before Python 3.11.4.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        errors, others = group.split(LabError)
        if errors is None or others is not None:
            raise
        raise _first(errors) from None


def _first(group: BaseExceptionGroup[LabError]) -> LabError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
