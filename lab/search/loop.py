"""The loop of a search and of an examination: trials in order, on all processes, within a budget, counted.

What is tried, and what becomes of what is seen, is theirs.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from lab.search.trial import Trial
from lab.search.workers import Job, Workers

SLOWEST: Final = 4
"""How much slower a machine may be, for the load of others, until a budget ends by real time."""
COLLECT_EVERY: Final = 100
AHEAD: Final = 64
"""So many trials ahead are begun on other cores, which so have work while one is looked at closely."""
LAG: Final = 32
"""So many trials later a new state counts in what is drawn: meanwhile other cores run the ones between."""
LOOSE: Final = 4
"""The variants up to this number draw their latencies; in others nodes always answer in one and the same
order."""
UNSTEADY_NS: Final = 40_000_000
"""By how much the pauses of variants may differ."""

A = TypeVar("A", bound="Answer")
K = TypeVar("K")


class OutOfTime(Exception):
    """The budget is spent."""


class Budget:
    """How many seconds a search or an examination may take, and how many it has taken.

    Processor time counts: that of the busiest process, with its drivers and servers. So on a busy machine as
    much is tried as on an idle one, and it ends later. Real time counts as well, but only a ``SLOWEST``-th of
    it, so that even a lock that waits without computing comes to an end.

    Args:
        seconds: how many there are.
        processor_s: the processor time of the busiest process so far.
        clock_s: the real time.
    """

    def __init__(
        self,
        seconds: float,
        processor_s: Callable[[], float] = time.process_time,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = seconds
        self._processor_s, self._clock_s = processor_s, clock_s
        self._processor_began_s, self._began_s = processor_s(), clock_s()

    @property
    def real_s(self) -> float:
        """The real time that has passed."""
        return self._clock_s() - self._began_s

    @property
    def spent_s(self) -> float:
        """How much of it is spent."""
        return max(self._processor_s() - self._processor_began_s, self.real_s / SLOWEST)

    @property
    def left_s(self) -> float:
        """How much of it is left."""
        return self.seconds - self.spent_s

    def check(self) -> None:
        """Raise ``OutOfTime`` if nothing is left."""
        if self.left_s <= 0:
            raise OutOfTime


class Answer(Protocol):
    """What is asked of every trial."""

    @property
    def covered(self) -> frozenset[tuple[str, str]]:
        """Which kinds of faults hit which states of the lock."""
        ...


@dataclass
class Progress:
    """How far it is."""

    schedules: int = 0
    seconds: float = 0.0
    stage: str = ""
    """What it is doing, or the part that it tries."""
    covered: set[tuple[str, str]] = field(default_factory=set)

    def note(self, answer: Any) -> None:
        """Count a trial that was run."""
        self.schedules += 1
        self.covered |= answer.covered


class Loop(Generic[A]):
    """Runs trials, and counts all that are run.

    Args:
        workers: who runs them.
        budget: how long it may take.
        progress: where they are counted.
        on_progress: called after each trial; it may raise ``OutOfTime``.
        schedules: how many of a source are tried at most. What it takes to look into them does not count.
    """

    def __init__(
        self,
        workers: Workers[A],
        budget: Budget,
        progress: Progress,
        on_progress: Callable[[Any], None] = lambda progress: None,
        schedules: int | None = None,
    ) -> None:
        self.workers, self.budget, self.progress = workers, budget, progress
        self._on_progress = on_progress
        self._left = math.inf if schedules is None else schedules

    def in_order(
        self, source: Iterable[tuple[K, Trial]], ahead: int, check: Callable[[], None]
    ) -> Iterator[tuple[K, Job[A]]]:
        """Each trial with what belongs to it, as a job for ``answer``; they are drawn so many ``ahead``.

        ``check`` is called before each of them. Raises ``OutOfTime``: also when there were as many as there
        may be.
        """
        for key, job in self.workers.in_order(source, ahead):
            check()
            if self._left <= 0:
                raise OutOfTime
            self._left -= 1
            yield key, job

    def answer(self, job: Job[A]) -> A:
        """What came of a trial. Raises what the question raises."""
        return self._counted(self.workers.result(job))

    def here(self, trial: Trial) -> A:
        """The same of a trial that others wait for, run in this process."""
        return self._counted(self.workers.here(trial))

    def at_once(self, trials: Sequence[Trial]) -> Iterator[A]:
        """What came of these, which are begun before all others, but for those that are not asked for."""
        jobs = self.workers.at_once(trials)
        try:
            for job in jobs:
                yield self.answer(job)
        finally:
            self.workers.forget(jobs)

    def _counted(self, answer: A) -> A:
        progress = self.progress
        progress.note(answer)
        progress.seconds = self.budget.real_s
        if progress.schedules % COLLECT_EVERY == 0:
            gc.collect()
        self._on_progress(progress)
        return answer


def variants(trial: Trial, count: int) -> list[Trial]:
    """A trial, and others that differ from it in what nobody decides: ``count`` in all."""
    return [variant(trial, number) if number else trial for number in range(count)]


def variant(trial: Trial, number: int) -> Trial:
    """The same trial with other latencies, and every pause between rounds a little longer."""
    random = Random(number)
    clients = {
        name: tuple(replace(each, think_ns=each.think_ns + random.randrange(UNSTEADY_NS)) for each in rounds)
        for name, rounds in trial.clients.items()
    }
    seed = trial.seed + number if number < LOOSE else LOOSE - 1 - number
    return replace(trial, seed=seed, clients=clients)
