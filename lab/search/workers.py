"""Trials on several cores: this process runs them, and helpers beside it; answers come in the trials' order.

What is asked of a trial is a function of a module whose answer depends on the trial alone, so it does not
matter which process runs it, or when. Each process has drivers of its own, on a CPU of its own. This one
takes part, as it has drivers anyway: those with which it looks closer at what was found, while the helpers go
on with the trials that come next.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final, Generic, TypeVar

from lab.batch.cores import cores, describe
from lab.batch.preload import Child, Died
from lab.errors import UnknownOutcome
from lab.search.find import COLLECT_EVERY
from lab.search.runner import trials
from lab.search.trial import Trial
from lab.substrates.cleanup import sweep

A = TypeVar("A")
"""What is answered."""
K = TypeVar("K")
Within = AbstractContextManager[object]

QUEUED: Final = 4
"""How many trials a helper has at a time: enough for it to go on while this process runs one."""
TRIES: Final = 2
"""How often a trial may end the helper that runs it before it is given up; one that hangs may once."""
DEATHS: Final = 6
"""After so many deaths in a row, with no answer in between, no more helpers are started."""
HANGS_S: Final = 120.0
"""A helper that has not answered for so long, in real time, is ended."""
LOOKS_EVERY_S: Final = 5.0
"""How often that is looked at."""
ENDS_WITHIN_S: Final = 5.0
"""How long an interrupted helper may take to end its drivers, before it is killed and they are swept up."""


class Job(Generic[A]):
    """A trial whose answer is asked for."""

    __slots__ = ("answer", "deaths", "done", "error", "trial")

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.answer: A | None = None
        self.error: Exception | None = None
        self.done = False
        self.deaths = 0
        """How many helpers ended while they ran it; this process does not run it after that."""


class _Helper(Generic[A]):
    """A process that answers one trial after the other."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.answered = 0
        """How many trials."""
        self.under_way: deque[Job[A]] = deque()
        self.since_s = time.monotonic()
        """When it began with what it does."""
        self.cpu_s = 0.0
        """Its processor time as it was with its last answer, with its drivers."""

    def fileno(self) -> int:
        """What can be read when it has answered, or ended."""
        return self.child.fileno()


class Workers(Generic[A]):
    """Processes that answer the same question about trials; end them with ``close``.

    Make it outside ``trials``, when what the trials need is imported: helpers are forked. Use it inside.

    Args:
        ask: the question, a function of a module.
        jobs: how many processes, this one included; as many as there are cores if None.
        within: what each helper opens before its first trial; this process opens it by itself.
    """

    def __init__(
        self, ask: Callable[[Trial], A], jobs: int | None = 1, within: Callable[[], Within] = nullcontext
    ) -> None:
        self._ask, self._within = ask, within
        self.jobs = cores() if jobs is None else jobs
        """How many processes there are."""
        self.why_fewer = ""
        """Why there are fewer processes than was asked for."""
        self._ended_cpu_s = self._reaped_s = 0.0
        """Processor time of helpers that have ended, and what of it the kernel counts as this process's."""
        self._affinity = os.sched_getaffinity(0)
        self._helpers: list[_Helper[A]] = []
        self._todo: deque[Job[A]] = deque()
        self._deaths = 0
        self._start(forked=True)

    @property
    def helping(self) -> int:
        """How many helpers have answered already: they, and their drivers, have started."""
        return sum(helper.answered > 0 for helper in self._helpers)

    @property
    def pids(self) -> list[int]:
        """The process ids of the helpers."""
        return [helper.child.pid for helper in self._helpers]

    @property
    def helpers_cpu_s(self) -> float:
        """Processor time of all helpers for what they have answered, with their drivers."""
        return self._ended_cpu_s + sum(helper.cpu_s for helper in self._helpers)

    def busiest_s(self) -> float:
        """Processor time of the process that has had most of it, this one or a helper, with its drivers."""
        here_s = processor_s(without=self.pids) - self._reaped_s
        return max([here_s, *(helper.cpu_s for helper in self._helpers)])

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
                        waiting.append((key, Job(trial)))
                        self._todo.append(waiting[-1][1])
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
        found: list[Job[A]] = [Job(trial) for trial in trials_]
        self._todo.extendleft(reversed(found))
        self.go_on()
        return found

    def forget(self, jobs: Iterable[Job[A]]) -> None:
        """Do not begin these any more."""
        left = set(jobs)
        self._todo = deque(job for job in self._todo if job not in left)

    def result(self, job: Job[A]) -> A:
        """The answer about a trial. Raises what the question raised.

        Raises:
            UnknownOutcome: it ended each process that ran it.
        """
        while not job.done:
            self.go_on()
            if job.done:
                break
            for_here = (job,) if job in self._todo else self._todo
            mine = next((each for each in for_here if not each.deaths), None)
            if mine is None:
                self._receive(LOOKS_EVERY_S)
            else:
                self._todo.remove(mine)
                self._run(mine)
        if job.error is not None:
            raise job.error
        return job.answer  # type: ignore[return-value]  # it is done

    def go_on(self) -> None:
        """Take what helpers have answered, and give them more; to be called between this process's trials."""
        if self._helpers or self.jobs > 1:
            self._receive(0)
            self._start(forked=False)
            self._feed()

    def close(self) -> None:
        """End the helpers, and their drivers."""
        ending, self._helpers = self._helpers, []
        self.jobs = 1
        self._todo.clear()
        for helper in ending:
            if helper.answered:  # before that it may not be ready to be interrupted
                helper.child.stop()
        ended_well = [self._end(helper, ENDS_WITHIN_S if helper.answered else 0) for helper in ending]
        if not all(ended_well):
            sweep()

    def _run(self, job: Job[A]) -> None:
        """Answer it here."""
        try:
            job.answer = self._ask(job.trial)
        except Exception as error:  # noqa: BLE001 - it is raised when its turn has come
            job.error = error
        job.done = True

    def _start(self, *, forked: bool) -> None:
        """Start the helpers that there should be; inside ``trials`` this process cannot be forked."""
        while len(self._helpers) < self.jobs - 1:
            paths = [entry or str(Path.cwd()) for entry in sys.path]
            child = Child(_help, self._ask, self._within, paths, self._affinity, forked=forked)
            try:
                child.begin()
            except (OSError, EOFError) as error:
                child.end()
                self._be_fewer(f"no process could be started: {describe(error)}")
                return
            self._helpers.append(_Helper(child))

    def _be_fewer(self, why: str) -> None:
        """Go on with the processes that there are; without helpers, what has ended one is given up."""
        self.jobs, self.why_fewer = 1 + len(self._helpers), why
        for job in self._todo if self.jobs == 1 else ():
            if job.deaths:
                job.error, job.done = UnknownOutcome(why), True

    def _feed(self) -> None:
        """Give trials to the helpers, the next one to who has fewest."""
        while self._todo and self._helpers:
            helper = min(self._helpers, key=lambda each: len(each.under_way))
            if len(helper.under_way) == QUEUED:
                return
            if not helper.under_way:
                helper.since_s = time.monotonic()
            helper.under_way.append(self._todo.popleft())
            try:
                helper.child.give(pickle.dumps(helper.under_way[-1].trial))
            except Died as death:
                self._lose(helper, f"the process that ran it ended: {death}")

    def _receive(self, wait_s: float) -> None:
        """Take the answers that are there; if there are none, wait for one for so long."""
        by_number = {helper.fileno(): helper for helper in self._helpers}
        for helper in [by_number[number] for number in wait(by_number, wait_s) if isinstance(number, int)]:
            try:
                self._take(helper, *pickle.loads(helper.child.take()))
            except Died as death:
                self._lose(helper, f"the process that ran it ended: {death}")
        now_s = time.monotonic()
        for helper in [each for each in self._helpers if each.under_way and now_s - each.since_s > HANGS_S]:
            self._lose(helper, f"it did not come to an end within {HANGS_S:.0f} s", 1)

    def _take(self, helper: _Helper[A], answer: A | None, error: Exception | None, cpu_s: float) -> None:
        """A helper has answered."""
        job = helper.under_way.popleft()
        job.answer, job.error, job.done = answer, error, True
        helper.answered += 1
        helper.since_s = time.monotonic()
        helper.cpu_s = cpu_s
        self._deaths = 0

    def _end(self, helper: _Helper[A], within_s: float = 0.0) -> bool:
        """End a helper; whether it ended by itself, and without an error."""
        before_s = _reaped_s()
        well = helper.child.end(within_s)
        self._reaped_s += _reaped_s() - before_s
        self._ended_cpu_s += helper.cpu_s
        return well

    def _lose(self, helper: _Helper[A], why: str, tries: int = TRIES) -> None:
        """A helper has ended, or is to be: another one gets the trial that it ran, once, and the others."""
        self._helpers.remove(helper)
        self._end(helper)
        sweep()  # its drivers
        if helper.under_way:
            helper.under_way[0].deaths += 1
            if helper.under_way[0].deaths >= tries:
                job = helper.under_way.popleft()
                job.error, job.done = UnknownOutcome(why), True
        self._todo.extendleft(reversed(helper.under_way))
        self._deaths += 1
        if self._deaths == DEATHS:
            self._be_fewer(f"processes die: {why}")


def _help(
    pipe: Connection,
    ask: Callable[[Trial], object],
    within: Callable[[], Within],
    paths: list[str],
    affinity: set[int],
) -> None:
    """A helper: answer each trial until the pipe is closed, with the processor time so far."""
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGTERM: the caller is gone
        signal.signal(number, _interrupted)
    try:
        os.sched_setaffinity(0, affinity)
        sys.path[:] = [*dict.fromkeys([*paths, *sys.path])]
        with within(), trials():
            done = 0
            while True:
                trial = pickle.loads(pipe.recv_bytes())
                answer: object = None
                failed: Exception | None = None
                try:
                    answer = ask(trial)
                except Exception as error:  # noqa: BLE001 - the caller raises it when its turn has come
                    failed = error
                done += 1
                if done % COLLECT_EVERY == 0:
                    gc.collect()
                pipe.send((answer, failed, processor_s()))
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return


def _interrupted(*_: object) -> None:
    """End the drivers as well, undisturbed by another signal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def processor_s(without: Iterable[int] = ()) -> float:
    """Processor time of this process and its children, also of those that run yet, in seconds.

    Args:
        without: ids of children that do not count.
    """
    return time.process_time() + _reaped_s() + sum(map(_stat_s, _children() - {*without}))


def _reaped_s() -> float:
    """Processor time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or this kernel does not list them
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _stat_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_S
