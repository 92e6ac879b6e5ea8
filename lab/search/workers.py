"""Trials on several processes: this one runs them, and helpers beside it; answers come in the trials' order.

What is asked of a trial is a function of a module whose answer depends on the trial alone, so it does not
matter which process runs it, or when. Each process has drivers of its own, on a CPU of its own. This one
takes part, as it has drivers anyway: those with which it looks closer at what was found, while the helpers go
on with the trials that come next.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

from lab.batch import executor as executors
from lab.batch.dask import cluster_at
from lab.batch.executor import Executor, Rules, Work, cores
from lab.search.runner import trials
from lab.search.trial import Trial

A = TypeVar("A")
"""What is answered."""
K = TypeVar("K")
Within = AbstractContextManager[object]
Job: TypeAlias = executors.Job[Trial, A]
"""A trial whose answer is asked for."""

QUEUED: Final = 4
"""How many trials a helper has at a time: enough for it to go on while this process runs one."""
RULES: Final = Rules(starts=3, deaths=6, ahead=QUEUED, hangs_s=120.0, ends_within_s=5.0, caller_helps=True)
LOOKS_EVERY_S: Final = 5.0
"""How often helpers that hang are looked for."""


class Workers(Generic[A]):
    """Processes that answer the same question about trials; end them with ``close``.

    Make it outside ``trials``, when what the trials need is imported: helpers are forked. Use it inside.

    Args:
        ask: the question, a function of a module.
        jobs: how many processes, this one included; as many as there are cores if None.
        within: what each helper opens before its first trial; this process opens it by itself.
        rules: of the helpers.
        dask: the scheduler of a Dask cluster whose workers are the helpers, in place of ``jobs``.

    Raises:
        LabError: the cluster cannot be used, or cannot answer this question.
    """

    def __init__(
        self,
        ask: Callable[[Trial], A],
        jobs: int | None = 1,
        within: Callable[[], Within] = nullcontext,
        *,
        rules: Rules = RULES,
        dask: str = "",
    ) -> None:
        self._ask = ask
        cluster = cluster_at(dask, jobs) if dask else None
        helpers = (cores() if jobs is None else jobs) - 1 if cluster is None else cluster.size
        work = Work(ask, partial(_session, within))
        self._executor: Executor[Trial, A] = Executor(work, helpers, rules, cluster)
        self._executor.start(forked=True)
        if cluster is not None:
            self._wait_for_one()

    def _wait_for_one(self) -> None:
        """Wait until a helper is there. Raises ``LabError``: it cannot answer, or there is none any more."""
        try:
            while not self._executor.ready:
                self._executor.receive(LOOKS_EVERY_S)
                if self._executor.failure is not None:
                    raise self._executor.failure
        except BaseException:
            self._executor.close()
            raise

    @property
    def jobs(self) -> int:
        """How many processes there are."""
        return 1 + self._executor.size

    @property
    def why_fewer(self) -> str:
        """Why there are fewer processes than was asked for."""
        return "" if self._executor.failure is None else self._executor.failure.seen

    @property
    def helping(self) -> int:
        """How many helpers have answered already: they, and their drivers, have started."""
        return self._executor.helping

    @property
    def pids(self) -> list[int]:
        """The process ids of the helpers."""
        return self._executor.pids

    @property
    def helpers_cpu_s(self) -> float:
        """Processor time of all helpers for what they have answered, with their drivers."""
        return sum(self._executor.cpu_s.values())

    def busiest_s(self) -> float:
        """Processor time of the process that has had most of it, this one or a helper, with its drivers."""
        return max(self._executor.here_s(), *self._executor.cpu_s.values(), 0.0)

    def in_order(self, source: Iterable[tuple[K, Trial]], ahead: int) -> Iterator[tuple[K, Job[A]]]:
        """Each trial with what belongs to it, as a job for ``result``, in their order.

        As many as ``ahead`` are drawn before one of them is yielded, for any number of processes: so what is
        drawn with regard to earlier results is always the same.
        """
        drawn = iter(source)
        waiting: deque[tuple[K, Job[A]]] = deque()
        failed: Exception | None = None
        over = False
        try:
            while True:
                while not over and len(waiting) < ahead:
                    try:
                        key, trial = next(drawn)
                    except StopIteration:
                        over = True
                    except Exception as error:  # noqa: BLE001 - it is raised when its turn has come
                        over, failed = True, error
                    else:
                        waiting.append((key, executors.Job(trial)))
                        self._executor.submit(waiting[-1][1])
                if not waiting:
                    break
                yield waiting.popleft()
        finally:
            self.forget(job for _, job in waiting)
        if failed is not None:
            raise failed

    def here(self, trial: Trial) -> A:
        """The answer about a trial that others wait for, from this process. Raises what the question does."""
        self.go_on()
        return self._ask(trial)

    def at_once(self, trials_: Sequence[Trial]) -> list[Job[A]]:
        """Jobs that are begun before all others, for ``result`` in their order."""
        return self.begin(trials_, first=True)

    def begin(self, trials_: Sequence[Trial], *, first: bool = False) -> list[Job[A]]:
        """Jobs for ``result`` in their order, which are begun after all others, or before them."""
        found: list[Job[A]] = [executors.Job(trial) for trial in trials_]
        self._executor.submit(*found, first=first)
        self.go_on()
        return found

    def forget(self, jobs: Iterable[Job[A]]) -> None:
        """Do not begin these any more."""
        self._executor.forget(jobs)

    def result(self, job: Job[A]) -> A:
        """The answer about a trial. Raises what the question raised.

        Raises:
            UnknownOutcome: it ended each process that ran it.
        """
        while not job.done:
            self.go_on()
            if job.done:
                break
            for_here = self._executor.reclaim(job)
            if for_here is None:
                self._executor.receive(LOOKS_EVERY_S)
            else:
                self._run(for_here)
        return job.result()

    def go_on(self) -> None:
        """Take what helpers have answered, and give them more; to be called between this process's trials."""
        if self._executor.size:
            self._executor.receive()

    def close(self) -> None:
        """End the helpers, and their drivers."""
        self._executor.close()

    def _run(self, job: Job[A]) -> None:
        """Answer it here."""
        try:
            job.answer = self._ask(job.argument)
        except Exception as error:  # noqa: BLE001 - it is raised when its turn has come
            job.error = error
        job.done = True


@contextlib.contextmanager
def _session(within: Callable[[], Within]) -> Iterator[None]:
    """The context of all trials of a helper."""
    with within(), trials():
        yield
