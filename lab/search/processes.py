"""Seeds on the cores of this machine: a few worker processes, each of which may die without a loss.

``concurrent.futures`` and ``multiprocessing`` have pools, but there the death of one worker breaks the pool
or is not noticed, and no one can say which seed it was. Here a worker answers seed by seed, so the seed that
was running is known: it gets a second try, and the others that the worker still had are run by the next one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import pickle
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from lab.errors import LabError, UnknownOutcome
from lab.search.campaign import OnResult, Task, failed
from lab.search.tally import SeedResult
from lab.search.worker import Answer, Order

TRIES: Final = 2
"""How often a seed may end its worker before it is given up."""
STARTS: Final = 3
"""How often in a row a worker may fail to start."""
ENDS_WITHIN_S: Final = 10.0
CHUNK_MAX: Final = 64
CHUNK_S: Final = 0.5
"""A worker is handed about as much work at once: enough to keep it busy, little enough to share the rest."""
LINE_MAX: Final = 16 * 2**20


class _Died(Exception):
    """A worker ended unasked; the text says how."""


class Cores:
    """The seeds of a campaign that are still to be run, and the workers that run them."""

    def __init__(self, task: Task, seeds: Sequence[int], on_result: OnResult, ends_s: float | None) -> None:
        self._order = msgspec.json.encode(
            Order(
                base64.b64encode(pickle.dumps(task)).decode(),
                [entry or str(Path.cwd()) for entry in sys.path],
            )
        )
        self._todo = deque(seeds)
        self._total = self._left = len(self._todo)
        self._on_result = on_result
        self._ends_s = ends_s
        self._deaths: dict[int, int] = {}
        self._failed_starts = 0
        self._more = asyncio.Event()

    async def run(self, jobs: int) -> None:
        """Run all seeds, with so many workers at once."""
        async with asyncio.TaskGroup() as group:
            for _ in range(min(jobs, self._left)):
                group.create_task(self._serve())

    async def _serve(self) -> None:
        """Keep one worker after another at work until nothing is left to do."""
        while await self._wait_for_work():
            with tempfile.TemporaryFile() as talk:
                worker = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "lab.search.worker",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=talk,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
                    start_new_session=True,  # a Ctrl-C is for the lab alone
                    limit=LINE_MAX,
                )
                try:
                    await self._feed(_Worker(worker, talk))
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        worker.kill()
                    await asyncio.shield(worker.communicate())

    async def _wait_for_work(self) -> bool:
        """Whether there is something to run; another worker's death may still bring more."""
        while not self._todo and self._left and not self._over():
            self._more.clear()
            await self._more.wait()
        return bool(self._todo) and not self._over()

    def _over(self) -> bool:
        """Whether the time is up; who has come to nothing yet goes on, or would never come to anything."""
        return self._ends_s is not None and self._left < self._total and time.monotonic() >= self._ends_s

    async def _feed(self, worker: _Worker) -> None:
        """Let one worker run seeds until none are left, or until it dies."""
        try:
            await worker.begin(self._order)
        except _Died as death:
            self._failed_starts += 1
            if self._failed_starts >= STARTS:
                raise UnknownOutcome(
                    f"the workers die before they have begun: {death}",
                    hint="nothing was lost: --resume goes on",
                ) from None
            return
        self._failed_starts = 0
        size = 1
        while await self._wait_for_work():
            chunk = [self._todo.popleft() for _ in range(min(size, len(self._todo)))]
            began_s, took = time.monotonic(), len(chunk)
            try:
                await self._answers(worker, chunk)
            except _Died as death:
                self._blame(chunk, death)
                return
            each_s = (time.monotonic() - began_s) / took
            size = max(1, min(CHUNK_MAX, int(CHUNK_S / max(each_s, 1e-6)), 2 * size))

    async def _answers(self, worker: _Worker, chunk: list[int]) -> None:
        """Take a result for each seed of ``chunk``, and remove the seed from it."""
        await worker.send(msgspec.json.encode(chunk))
        while chunk:
            result = await worker.result()
            if result.seed != chunk[0]:
                raise UnknownOutcome(f"a worker answered seed {result.seed} when asked for {chunk[0]}")
            del chunk[0]
            self._done(result)

    def _done(self, result: SeedResult) -> None:
        self._left -= 1
        self._on_result(result)
        self._more.set()

    def _blame(self, chunk: list[int], death: _Died) -> None:
        """Give the seed that was running another chance, after all the others, or give it up."""
        self._todo.extendleft(reversed(chunk[1:]))
        for seed in chunk[:1]:
            self._deaths[seed] = self._deaths.get(seed, 0) + 1
            if self._deaths[seed] < TRIES:
                self._todo.append(seed)
            else:
                self._done(failed(seed, f"its worker died {TRIES} times: {death}", lost=True))
        self._more.set()


class _Worker:
    """The lab's side of one worker process."""

    def __init__(self, process: asyncio.subprocess.Process, talk: BinaryIO) -> None:
        self._process, self._talk = process, talk

    async def begin(self, order: bytes) -> None:
        """Hand over the task.

        Raises:
            LabError: it cannot be run there, whoever tries.
        """
        await self.send(order)
        answer = msgspec.json.decode(await self._line(), type=Answer)
        if not answer.ready:
            raise LabError(
                f"a worker cannot run this: {answer.cannot}",
                expected="a task that another process can import and run",
                hint="is the lab, and the lock under test, the same there as here?",
            )

    async def send(self, line: bytes) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._death() from None

    async def result(self) -> SeedResult:
        """Read the result of the next seed."""
        return msgspec.json.decode(await self._line(), type=SeedResult)

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):  # the end, perhaps in the middle of a line
            raise await self._death()
        return line

    async def _death(self) -> _Died:
        """Say how it ended: by which signal or code, and its last word."""
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                code = await self._process.wait()
        except TimeoutError:  # it has closed its end of the pipe and goes on: it can be of no more use
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            code = await self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._talk.seek(0)
        said = [line for line in self._talk.read().decode(errors="replace").splitlines() if line.strip()]
        return _Died(f"{how}, its last word: {said[-1].strip()}" if said else how)


async def on_cores(
    task: Task, seeds: Sequence[int], on_result: OnResult, *, jobs: int, seconds: float | None = None
) -> None:
    """Run ``task`` over ``seeds`` in ``jobs`` processes, and tell each result as it comes.

    With ``seconds``, no more work is handed out after that time, except to come to one result at least.

    Raises:
        LabError: the workers cannot run this task, or do not even start.
    """
    ends_s = None if seconds is None else time.monotonic() + seconds
    cores = Cores(task, seeds, on_result, ends_s)
    try:
        await cores.run(jobs)
    except* LabError as errors:
        raise first_error(errors) from None


def first_error(group: BaseExceptionGroup[LabError]) -> LabError:
    """The first of several errors that came at once."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
