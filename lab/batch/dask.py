"""The workers of a Dask cluster, as a place for jobs.

There, too, each job runs in a process of its own beside the Dask worker, for the same reasons and by the same
code as on this machine. Dask adds the transport, and gives the work of a lost worker to another. A job may
then be run twice, with the same answer, which is used once.

Scheduler and workers run any code that they are sent, so they belong on trusted networks only.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import multiprocessing
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, NamedTuple

from lab.batch.executor import Executor, Job, Rules, Taken, Worker, describe
from lab.batch.preload import Died
from lab.batch.seeds import run_seeds
from lab.batch.task import OnResult, Task, code_digest
from lab.errors import LabError, UnknownOutcome

PIECE_MAX: Final = 512
"""Jobs that are handed to a worker at once."""
PIECE_S: Final = 5.0
"""After this time a worker returns the jobs it has not begun: no more work is lost with a lost worker."""
CONNECT_S: Final = 30.0
PIECES_PER_THREAD: Final = 2
"""Enough that a worker does not wait for the next piece."""
KEPT_S: Final = 60.0
"""How long a worker keeps an idle process, in seconds."""
LOOKS_EVERY_S: Final = 0.5
"""How often a worker looks whether the work is still wanted."""


class Cluster:
    """The workers of a Dask cluster; as many as ``size`` pieces of work are handed out at once.

    Args:
        address: of its scheduler.
        piece_s: after this time a worker returns what it has not begun.

    Raises:
        LabError: the extra is not installed, the scheduler or its workers cannot be reached, or they have
            another lab.
    """

    def __init__(self, address: str, piece_s: float = PIECE_S) -> None:
        self.dask = _dask()
        self.client = _connected(self.dask, address)
        self.piece_s, self.name = piece_s, secrets.token_hex(8)
        try:
            self.size = PIECES_PER_THREAD * _threads(self.client, address)
        except OSError as error:
            self.client.close()
            raise _no_scheduler(address, error) from error
        except BaseException:
            self.client.close()
            raise

    def start(self, work: bytes, rules: Rules, *, forked: bool) -> Worker:
        """Reserve a place for a piece of work, and let a process start there."""
        return _Lane(self, work, replace(rules, caller_helps=False, deaths=None))

    def close(self) -> None:
        """Let the workers end what runs, and what they keep."""
        if self.client.status == "running":
            with contextlib.suppress(OSError, RuntimeError, TimeoutError):
                self.client.run(end_kept, self.name, on_error="return")
        self.client.close()


class _Lane:
    """One piece of work after the other, each by whichever worker has time."""

    pid = 0

    def __init__(self, cluster: Cluster, work: bytes, rules: Rules) -> None:
        self._cluster, self._work, self._rules = cluster, work, rules
        self._answered = _Flag()
        self._future: Any = None
        self.ready = False
        self.give([])  # some process loads the work

    def fileno(self) -> int:
        return self._answered.file

    def suspects(self, has: int) -> int:
        return has

    def room(self, has: int, queued: int) -> int:
        return 0 if self._future is not None else min(PIECE_MAX, max(1, queued // (2 * self._cluster.size)))

    def give(self, lines: list[bytes]) -> None:
        piece = Piece(self._cluster.name, self._work, self._rules, tuple(lines), self._cluster.piece_s)
        self._future = self._cluster.client.submit(run_piece, piece, pure=False)
        self._future.add_done_callback(self._answered.set)

    def take(self) -> Taken:
        self._answered.clear()
        future, self._future = self._future, None
        try:
            taken: Taken = future.result()
        except self._cluster.dask.KilledWorker as error:
            raise Died(str(error)) from None
        except (self._cluster.dask.client.FutureCancelledError, CancelledError) as error:
            raise UnknownOutcome(
                "the scheduler has ended, or has lost its work", hint="--resume continues"
            ) from error
        finally:
            future.release()
        self.ready = True
        return taken

    def stop(self) -> None:
        """Only all together can be interrupted: see ``Cluster.close``."""

    def end(self, within_s: float) -> bool:
        if self._future is not None:
            self._future.release()
        self._answered.close()
        return True


class _Flag:
    """A descriptor that can be read when it is set, by any thread."""

    def __init__(self) -> None:
        self.file = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._open = True

    def set(self, _: object) -> None:
        with self._lock:
            if self._open:  # or else somebody else may have its number
                os.eventfd_write(self.file, 1)

    def clear(self) -> None:
        os.eventfd_read(self.file)

    def close(self) -> None:
        with self._lock:
            self._open = False
            os.close(self.file)


class Piece(NamedTuple):
    """Jobs for one worker of a cluster, of the ``name``d user."""

    name: str
    work: bytes
    rules: Rules
    lines: Sequence[bytes]
    seconds: float


def run_piece(piece: Piece) -> Taken:
    """Run jobs for about the time of the piece, on a worker of the cluster; return their answers.

    Raises:
        LabError: the work cannot be done there.
    """
    ends_s = time.monotonic() + piece.seconds
    jobs: list[Job[None, Any]] = [Job(None, line) for line in piece.lines]
    with _kept(piece) as executor:
        executor.submit(*jobs)
        executor.start()
        to_go = len(jobs)
        # Without jobs it is to load the work.
        while (to_go if jobs else not executor.ready) and piece.name not in _ENDED:
            done = len(executor.receive(LOOKS_EVERY_S))
            to_go -= done
            if executor.failure is not None:
                raise executor.failure
            if to_go < len(jobs) and time.monotonic() >= ends_s:
                to_go -= executor.queued
                executor.forget(jobs)
        answers = {at: (job.answer, job.error) for at, job in enumerate(jobs) if job.done}
        return Taken(answers, dict(executor.cpu_s), returned=True)


_KEPT: Final[dict[str, list[tuple[Executor[None, Any], threading.Timer]]]] = {}
"""Processes that wait for the next piece, by the name of their user."""
_ENDED: Final[set[str]] = set()
"""Users who want nothing more."""
_LOCK: Final = threading.Lock()


@contextlib.contextmanager
def _kept(piece: Piece) -> Iterator[Executor[None, Any]]:
    """A process for the piece: one that is kept, or a new one; it is kept afterwards."""
    # Dask's nannies start their workers as daemons, which may have no children, since those would be left
    # behind. Ours end with the worker.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    with _LOCK:
        kept, timer = _KEPT[piece.name].pop() if _KEPT.get(piece.name) else (None, None)
    if timer is not None:
        timer.cancel()
    executor: Executor[None, Any] = Executor(piece.work, 1, piece.rules) if kept is None else kept
    try:
        yield executor
    except BaseException:
        executor.close()
        raise
    timer = threading.Timer(KEPT_S, _end, (piece.name, executor))
    timer.daemon = True
    with _LOCK:
        keep = piece.name not in _ENDED
        if keep:
            _KEPT.setdefault(piece.name, []).append((executor, timer))
            timer.start()
    if not keep:
        executor.close()


def _end(name: str, executor: Executor[None, Any]) -> None:
    """End a process if it is idle."""
    with _LOCK:
        kept = _KEPT.get(name, [])
        idle = any(one is executor for one, _ in kept)
        _KEPT[name] = [each for each in kept if each[0] is not executor]
    if idle:
        executor.close()


def end_kept(name: str) -> None:
    """On a worker of the cluster: end what is kept, or runs, for this user."""
    with _LOCK:
        _ENDED.add(name)
        kept = _KEPT.pop(name, [])
    for executor, timer in kept:
        timer.cancel()
        executor.close()


def cluster_at(address: str, jobs: int | None = None) -> Cluster:
    """The cluster with this scheduler.

    Raises:
        LabError: as ``Cluster``; or a number of processes is given as well.
    """
    refuse_jobs(jobs)
    return Cluster(address)


def refuse_jobs(jobs: int | None) -> None:
    """Refuse a number of processes beside a cluster. Raises ``LabError``."""
    if jobs is not None:
        raise LabError(
            "--jobs is the number of processes on this machine, and with --dask there are none",
            hint="leave one of them out",
        )


def version() -> str:
    """The versions on which results depend, which must be the same on all machines."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"lock-lab {importlib.metadata.version('lock-lab')} ({code_digest()[:12]}), Python {python}"


async def on_cluster(
    task: Task, seeds: Sequence[int], on_result: OnResult, *, address: str, piece_s: float = PIECE_S
) -> None:
    """Run ``task`` over ``seeds`` on the cluster with this scheduler; call ``on_result`` for each result.

    Raises:
        LabError: as ``Cluster``, or they cannot run this task.
    """
    cluster = await asyncio.to_thread(Cluster, address, piece_s)
    await run_seeds(task, seeds, on_result, jobs=cluster.size, place=cluster)


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


def _connected(dask: Any, address: str) -> Any:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what happens is told by errors of ours
    try:
        # A client that cannot connect to an invalid address logs errors when it is deleted: check it first.
        scheme, _ = dask.comm.parse_address(address)
        dask.comm.registry.get_backend(scheme)
        dask.comm.get_address_host_port(address, strict=True)
        return dask.Client(address, set_as_default=False, timeout=CONNECT_S)
    except (OSError, ValueError, RuntimeError) as error:
        raise _no_scheduler(address, error) from error


def _no_scheduler(address: str, error: Exception) -> LabError:
    return LabError(
        f"no scheduler answers: {describe(error)}",
        where=f"--dask {address}",
        expected="the address of a Dask scheduler, like tcp://127.0.0.1:8786",
        hint="`dask scheduler` starts one and prints its address, `dask worker ADDRESS` a worker",
    )


def _threads(client: Any, address: str) -> int:
    """The number of threads of the cluster, after checking that each worker has this lab."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError as error:
        raise LabError(
            "the scheduler has no workers",
            where=f"--dask {address}",
            hint=f"`dask worker {address}` starts one",
        ) from error
    versions: dict[str, Any] = client.run(version, on_error="return")
    for worker, there in versions.items():
        if there != version():
            seen = describe(there) if isinstance(there, BaseException) else there
            raise LabError(
                f"a worker has another lab: {seen}",
                where=worker,
                expected=version(),
                hint="install this version of lock-lab[distributed] there, and restart the worker",
            )
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))
