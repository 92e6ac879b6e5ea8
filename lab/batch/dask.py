"""Seeds on a Dask cluster: the same campaign, with workers on other machines.

Each piece of work runs in a process of its own beside its Dask worker, for the same reasons and by the same
code as on this machine (``cores``). Dask adds the transport, and gives the work of a lost worker to another.
A seed may then be run twice, with the same result, which is reported once.

Scheduler and workers run any code that they are sent, so they belong on trusted networks only.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import multiprocessing
import platform
from collections import Counter, deque
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

import msgspec

from lab.batch.cores import TRIES, describe, on_cores, one_error
from lab.batch.row import Row, unknown
from lab.batch.task import OnResult, Task, code_digest
from lab.errors import LabError, UnknownOutcome

PIECE_MAX: Final = 512
"""Seeds that are handed to a worker at once."""
PIECE_S: Final = 5.0
"""After this time a worker returns the seeds it has not begun: no more work is lost with a lost worker."""
CONNECT_S: Final = 30.0
PIECES_PER_THREAD: Final = 2
"""Enough that a worker does not wait for the next piece."""


def run_piece(task: Task, seeds: Sequence[int], seconds: float) -> list[bytes]:
    """Run seeds for about this time, on a worker of the cluster; return their results.

    Raises:
        LabError: the task cannot be run there.
    """
    # Dask's nannies start their workers as daemons, which may have no children, since those would be left
    # behind. Ours end with the worker.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    results: list[bytes] = []
    asyncio.run(
        on_cores(
            task,
            seeds,
            lambda result: results.append(msgspec.json.encode(result)),
            jobs=1,
            seconds=seconds,
        )
    )
    return results


def version() -> str:
    """The versions on which results depend, which must be the same on all machines."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"lock-lab {importlib.metadata.version('lock-lab')} ({code_digest()[:12]}), Python {python}"


async def on_cluster(
    task: Task, seeds: Sequence[int], on_result: OnResult, *, address: str, piece_s: float = PIECE_S
) -> None:
    """Run ``task`` over ``seeds`` on the cluster with this scheduler; call ``on_result`` for each result.

    Raises:
        LabError: the extra is not installed, the scheduler or its workers cannot be reached, they have
            another lab, or they cannot run this task.
    """
    dask = _dask()
    client = await _connected(dask, address)
    try:
        lanes = PIECES_PER_THREAD * await _threads(client, address)
        work = _Pieces(dask, client, task, seeds, on_result, piece_s, lanes)
        with one_error():
            async with asyncio.TaskGroup() as group:
                for _ in range(min(lanes, len(seeds))):
                    group.create_task(work.serve())
    finally:
        await client.close()


class _Pieces:
    """The pieces of work that are still to be done, and how often the workers of each seed died."""

    def __init__(
        self,
        dask: Any,
        client: Any,
        task: Task,
        seeds: Sequence[int],
        on_result: OnResult,
        piece_s: float,
        lanes: int,
    ) -> None:
        self._dask, self._client, self._on_result = dask, client, on_result
        self._run = partial(run_piece, task, seconds=piece_s)
        size = max(1, min(PIECE_MAX, len(seeds) // (2 * lanes)))
        self._todo = deque(seeds[at : at + size] for at in range(0, len(seeds), size))
        self._under_way = 0
        self._deaths: Counter[int] = Counter()
        self._more = asyncio.Event()

    async def serve(self) -> None:
        """Send one piece after another until none are left, including those that others may return."""
        while self._todo or self._under_way:
            if self._todo:
                self._under_way += 1
                try:
                    await self._send(self._todo.popleft())
                finally:
                    self._under_way -= 1
                    self._more.set()
            else:
                self._more.clear()
                await self._more.wait()

    async def _send(self, piece: Sequence[int]) -> None:
        future = self._client.submit(self._run, piece, pure=False)
        try:
            rows = [msgspec.json.decode(line, type=Row) for line in await future]
        except self._dask.KilledWorker as error:
            self._blame(piece, error)
        except self._dask.client.FutureCancelledError as error:
            raise UnknownOutcome(
                "the scheduler has ended, or has lost its work", hint="--resume continues"
            ) from error
        else:
            for row in rows:
                self._on_result(row)
            done = {row.seed for row in rows}
            if left := [seed for seed in piece if seed not in done]:
                self._todo.append(left)  # not begun by the worker
        finally:
            future.release()

    def _blame(self, piece: Sequence[int], error: Exception) -> None:
        """The scheduler gave up a piece after several workers died; one of its seeds may be the reason."""
        for seed in piece:
            self._deaths[seed] += 1
            if self._deaths[seed] < TRIES:
                self._todo.appendleft([seed])
            else:
                why = f"the workers of the cluster that ran it died: {error}"
                self._on_result(unknown(seed, why, lost=True))


def _dask() -> Any:
    """Dask's package, which is an extra, and heavy."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise LabError(
            "a cluster needs Dask, which is not installed",
            where="--dask",
            hint="pip install 'lock-lab[distributed]', here and on the workers",
        ) from error


async def _connected(dask: Any, address: str) -> Any:
    logging.getLogger("distributed").setLevel(logging.ERROR)
    try:
        # A client that cannot connect to an invalid address logs errors when it is deleted: check it first.
        scheme, _ = dask.comm.parse_address(address)
        dask.comm.registry.get_backend(scheme)
        dask.comm.get_address_host_port(address, strict=True)
        return await dask.Client(address, asynchronous=True, set_as_default=False, timeout=CONNECT_S)
    except (OSError, ValueError, RuntimeError) as error:
        raise LabError(
            f"no scheduler answers: {describe(error)}",
            where=f"--dask {address}",
            expected="the address of a Dask scheduler, like tcp://127.0.0.1:8786",
            hint="`dask scheduler` starts one and prints its address, `dask worker ADDRESS` a worker",
        ) from error


async def _threads(client: Any, address: str) -> int:
    """The number of threads of the cluster, after checking that each worker has this lab."""
    try:
        await client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError as error:
        raise LabError(
            "the scheduler has no workers",
            where=f"--dask {address}",
            hint=f"`dask worker {address}` starts one",
        ) from error
    versions: dict[str, Any] = await client.run(version, on_error="return")
    for worker, there in versions.items():
        if there != version():
            seen = describe(there) if isinstance(there, BaseException) else there
            raise LabError(
                f"a worker has another lab: {seen}",
                where=worker,
                expected=version(),
                hint="install this version of lock-lab[distributed] there, and restart the worker",
            )
    threads: dict[str, int] = await client.nthreads()
    return max(1, sum(threads.values()))
