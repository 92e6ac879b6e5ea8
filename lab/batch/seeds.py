"""The seeds of a campaign on workers: each has a result, whatever dies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final

from lab.batch.executor import Executor, Job, Lost, Place, Rules, Work, cores, describe, readable
from lab.batch.row import Row, unknown
from lab.batch.task import OnResult, Task
from lab.substrates.interruption import Interrupted

RULES: Final = Rules(tries=2, starts=3, ahead=2, quick_s=0.1)
QUEUED: Final = 4096
"""Seeds that wait in the executor: those of a large campaign need not all be there at once."""


async def run_seeds(
    task: Task,
    seeds: Sequence[int],
    on_result: OnResult,
    *,
    jobs: int | None = None,
    place: Place | None = None,
) -> None:
    """Run ``task`` over ``seeds`` on so many workers of a place, and call ``on_result`` for each result.

    On the cores of this machine if there is no place, one for each if ``jobs`` is None. A seed that ends its
    worker is tried again after all others.

    Raises:
        LabError: the workers cannot run this task, or cannot be started.
    """
    work = Work(partial(run_seed, task), task.session)
    left, to_go = iter(seeds), len(seeds)
    with Executor[int, Row](work, min(jobs or cores(), to_go), RULES, place) as executor:
        while to_go:
            executor.submit(*map(Job[int, Row], islice(left, QUEUED - executor.queued)))
            done = executor.receive()
            for job in done:
                on_result(_row(job))
            to_go -= len(done)
            # The loop has its turn in any case, so that this can be cancelled.
            await (asyncio.sleep(0) if done else readable(executor.fileno()))


def _row(job: Job[int, Row]) -> Row:
    """The result of a seed. Raises ``LabError``: there are no workers."""
    if isinstance(job.error, Lost):
        return unknown(job.argument, f"its worker died {RULES.tries} times: {job.error.why}", lost=True)
    return job.result()


def run_seed(task: Task, seed: int) -> Row:
    """Run one seed; an exception is an unknown result."""
    try:
        return task(seed)
    except Interrupted:
        raise  # the process is being ended: the seed has no result
    except Exception as error:  # noqa: BLE001 - a seed that fails must not cost the others
        return unknown(seed, describe(error))
