"""Seeds on the cores of this machine: worker processes, each of which may die without losing results.

In the pools of ``concurrent.futures`` and ``multiprocessing`` the death of a worker breaks the pool or is not
noticed, and the seed that caused it is not known. Here a worker answers seed by seed, so the seed that was
running is known: it gets a second try, and the next worker runs the others that the dead one had.

A worker is a process of its own because a simulation changes clocks and entropy of the whole process, and
because a seed may crash its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import msgspec

from lab.batch.preload import Child, Died
from lab.batch.row import Row, unknown
from lab.batch.task import OnResult, Task
from lab.errors import LabError, UnknownOutcome
from lab.substrates.interruption import Interrupted

TRIES: Final = 2
"""How often a seed may end its worker before it is given up."""
STARTS: Final = 3
"""How often in a row a worker may fail to start."""
QUICK_S: Final = 0.1
"""If seeds take less than this, a worker gets the next one before it has answered."""
COLLECT_EVERY: Final = 64
"""Seeds between two garbage collections if the task's session has disabled the collector."""


class _Cores:
    """The seeds that are still to be run, and their workers."""

    def __init__(self, task: Task, seeds: Sequence[int], on_result: OnResult, ends_s: float | None) -> None:
        self._task = pickle.dumps(task)
        self._todo = deque(seeds)
        self._total = self._left = len(self._todo)
        self._on_result = on_result
        self._ends_s = ends_s
        self._deaths: Counter[int] = Counter()
        self._failed_starts = 0
        self._more = asyncio.Event()

    async def serve(self) -> None:
        """Run one worker after another until no seeds are left."""
        while await self._wait_for_work():
            worker = Child(_work, self._task, [entry or str(Path.cwd()) for entry in sys.path])
            under_way: deque[int] = deque()
            try:
                if await self._begun(worker):
                    await self._feed(worker, under_way)
            except Died as death:
                self._blame(list(under_way), death)
            finally:
                # Killed at once, it would leave the files of its run behind, and what its runs share.
                if under_way:
                    await worker.interrupt()
                await worker.finish()

    async def _wait_for_work(self) -> bool:
        """Whether there are seeds to run; the death of another worker may return some."""
        while not self._todo and self._left and not self._over():
            self._more.clear()
            await self._more.wait()
        return bool(self._todo) and not self._over()

    def _over(self) -> bool:
        """Whether the time is over; without any result yet it is not."""
        return self._ends_s is not None and self._left < self._total and time.monotonic() >= self._ends_s

    async def _begun(self, worker: Child) -> bool:
        """Whether a worker has started, and could load the task."""
        try:
            await worker.start()
            cannot = await worker.receive()
        except Died as death:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise UnknownOutcome(
                    f"the workers die at their start: {death}",
                    hint="no result was lost: --resume continues",
                ) from None
            return False
        if cannot:
            raise LabError(
                f"a worker cannot run this: {cannot.decode()}",
                expected="a task that another process can import and run",
                hint="are the lab and the lock under test the same there as here?",
            )
        self._failed_starts = 0
        return True

    async def _feed(self, worker: Child, under_way: deque[int]) -> None:
        """Send seeds to one worker until none are left, or until it dies."""
        ahead = 1
        while under_way or await self._wait_for_work():
            while len(under_way) < ahead and self._todo and not self._over():
                under_way.append(self._todo.popleft())
                await worker.send(b"%d" % under_way[-1])
            began_s = time.monotonic()
            row = msgspec.json.decode(await worker.receive(), type=Row)
            ahead = 2 if time.monotonic() - began_s < QUICK_S else 1
            under_way.popleft()
            self._done(row)

    def _done(self, row: Row) -> None:
        self._left -= 1
        self._on_result(row)
        self._more.set()

    def _blame(self, under_way: list[int], death: Died) -> None:
        """Retry the seed that was running, after all others, or give it up."""
        self._todo.extendleft(reversed(under_way[1:]))
        for seed in under_way[:1]:
            self._deaths[seed] += 1
            if self._deaths[seed] < TRIES:
                self._todo.append(seed)
            else:
                self._done(unknown(seed, f"its worker died {TRIES} times: {death}", lost=True))
        self._more.set()


async def on_cores(
    task: Task, seeds: Sequence[int], on_result: OnResult, *, jobs: int, seconds: float | None = None
) -> None:
    """Run ``task`` over ``seeds`` in ``jobs`` processes, and call ``on_result`` for each result.

    With ``seconds``, no more seeds are started after that time once there is at least one result.

    Raises:
        LabError: the workers cannot run this task, or cannot be started.
    """
    ends_s = None if seconds is None else time.monotonic() + seconds
    work = _Cores(task, seeds, on_result, ends_s)
    with one_error():
        async with asyncio.TaskGroup() as group:
            for _ in range(min(jobs, len(seeds))):
                group.create_task(work.serve())


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


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


def _work(pipe: Connection, pickled: bytes, path: list[str]) -> None:
    """A worker: send why the task cannot be loaded, or an empty message; then the row of each seed."""
    try:
        sys.path[:] = [*dict.fromkeys([*path, *sys.path])]
        task: Task = pickle.loads(pickled)
    except Exception as error:  # noqa: BLE001 - importing a task may raise anything
        pipe.send_bytes(describe(error).encode())
        return
    with task.session():
        pipe.send_bytes(b"")
        done = 0
        while True:
            try:
                seed = int(pipe.recv_bytes())
            except EOFError:
                return
            pipe.send_bytes(msgspec.json.encode(run_seed(task, seed)))
            done += 1
            if done % COLLECT_EVERY == 0 and not gc.isenabled():
                gc.collect()


def run_seed(task: Task, seed: int) -> Row:
    """Run one seed; an exception is an unknown result."""
    try:
        return task(seed)
    except Interrupted:
        raise  # the process is being ended: the seed has no result
    except Exception as error:  # noqa: BLE001 - a seed that fails must not cost the others
        return unknown(seed, describe(error))


def describe(error: BaseException) -> str:
    """An error on one line, with its class."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
