"""The search itself: trials are drawn until one violates in all its variants, which is then made small.

``guided`` differs from ``random`` in three ways. Each trial has a random subset of the kinds of faults
(swarm). Faults are anchored on events and come in decisive sizes. And trials in which a kind of fault left
the lock in a state in which it never had left it before are kept, those first in which most nodes had
forgotten a lease that counts; most trials are such a one with one thing changed (coverage). ``random`` draws
times, places and sizes uniformly.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from random import Random
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.faults.cut import Cut
from lab.search.draw import Space, Strategy, drawn
from lab.search.loop import LAG, Budget, Loop, OutOfTime, variants
from lab.search.loop import Progress as Counted
from lab.search.minimise import minimise
from lab.search.pin import pinned
from lab.search.runner import Outcome, Wire, run_trial, trials
from lab.search.suspicion import found, named, suspect
from lab.search.trial import Trial
from lab.search.workers import Workers

VARIANTS: Final = 9
"""How many variants of a trial must violate: one that needs a lucky race makes no scenario."""
RESCUES_MAX: Final = 4
"""How many trials that need a lucky race are made smaller, in the hope that the race goes away."""
SAMPLE: Final = 50
"""Of so many trials that the first look clears, one is shown to the checker all the same."""
KEPT_MAX: Final = 12


@dataclass
class Progress(Counted):
    """How far a search is."""

    stage: str = "searching"
    violations: int = 0
    sampled: int = 0

    def note(self, answer: Seen) -> None:
        """Count a trial that was run."""
        super().note(answer)
        self.violations += answer.violates

    @property
    def per_second(self) -> float:
        """Schedules per second."""
        return self.schedules / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class First:
    """The first violation: after how many trials and seconds, and the trial."""

    tried: int
    seconds: float
    trial: Trial


@dataclass(frozen=True)
class Seen:
    """What a search wants to know about a trial that was run."""

    violates: bool
    suspect: bool
    """Whether the checker may find what is searched for, at the first look."""
    covered: frozenset[tuple[str, str]]
    eroded: int
    failure: str
    """The first exception that the lock must not raise."""
    outcome: Outcome | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """An outcome stays in the process that has run the trial: it is large."""
        return Seen, (self.violates, self.suspect, self.covered, self.eroded, self.failure)


def look(trial: Trial, finding: str, wire: Wire) -> Seen:
    """Run a trial. Raises what ``run_trial`` raises."""
    outcome = run_trial(trial, wire)
    suspected = suspect(outcome, finding)
    return Seen(
        suspected and found(outcome, finding),
        suspected,
        outcome.covered,
        outcome.eroded,
        outcome.failures[0].sentence if outcome.failures else "",
        outcome,
    )


@dataclass(frozen=True)
class Ended:
    """How a search ended. ``found`` is what is left of ``first`` when it is small; both None: nothing found.

    ``racy``: it violates in some variants only, since it needs packets to arrive in a lucky order.
    """

    first: First | None
    found: Trial | None
    racy: bool
    progress: Progress
    interrupted: bool = False


class Missed(Exception):
    """The first look cleared a trial in which the checker finds what is searched for: a fault of the lab."""


class Search:
    """One search.

    Args:
        space: what is drawn.
        finding: the checker's name for what is searched for.
        budget_s: for how long, until something is found; see ``Budget``.
        schedules: how many are drawn at most.
        seed: of all that is drawn.
        strategy: see the module.
        wire: how requests reach the nodes.
        jobs: how many processes run trials, this one included; as many as there are cores if None.
        dask: the scheduler of a Dask cluster whose workers run trials beside this process, in place of
            ``jobs``.
    """

    def __init__(
        self,
        space: Space,
        finding: str,
        *,
        budget_s: float = math.inf,
        schedules: int | None = None,
        seed: int = 0,
        strategy: Strategy = "guided",
        wire: Wire = "direct",
        jobs: int | None = 1,
        dask: str = "",
    ) -> None:
        self.space, self._finding, self._budget_s, self._schedules = space, finding, budget_s, schedules
        self._seed, self._strategy, self.wire, self._jobs, self._dask = seed, strategy, wire, jobs, dask
        self.on_progress: Callable[[Progress], None] = lambda progress: None
        """Called after each trial."""
        self.progress = Progress()
        self._loop: Loop[Seen]
        self._first: First | None = None
        self._best: Trial | None = None
        self._racy: First | None = None
        self._lucky = False
        self._rescues = 0

    def run(self) -> Ended:
        """Search until something is found and small, or the budget is spent.

        Raises:
            LabError: no such lock, or options that it does not have.
            UnknownOutcome: the lock raised an exception of its own, in a trial that shows nothing else.
            Missed: see there.
        """
        ask = partial(look, finding=self._finding, wire=self.wire)
        interrupted = False
        with closing(Workers(ask, self._jobs, dask=self._dask)) as workers, trials(self.wire):
            budget = Budget(self._budget_s, workers.busiest_s)
            self._loop = Loop(workers, budget, self.progress, self.on_progress, self._schedules)
            try:
                try:
                    self._find()
                except OutOfTime:
                    self._settle_for_luck()
                self._make_small()
            except KeyboardInterrupt:
                interrupted = True
                self._settle_for_luck()
        gc.collect()
        return Ended(self._first, self._best, self._lucky, self.progress, interrupted)

    def _find(self) -> None:
        """Draw trials until one violates for certain. Raises ``OutOfTime``."""
        loop, kept = self._loop, list[Trial]()
        best: list[tuple[int, int, Trial]] = []
        source = ((None, trial) for trial in drawn(self.space, Random(self._seed), kept, self._strategy))
        for _, job in loop.in_order(source, LAG, loop.budget.check):
            known = len(self.progress.covered)
            trial, seen = job.argument, loop.answer(job)
            self._must_be_right(trial, seen)
            if seen.violates:
                self._look_into(First(self.progress.schedules, self.progress.seconds, trial))
            if self._best is not None:
                return
            if len(self.progress.covered) > known:
                best.append((seen.eroded, self.progress.schedules, trial))
                best = sorted(best, key=itemgetter(0, 1))[-KEPT_MAX:]
                kept[:] = [trial for _, _, trial in best]

    def _must_be_right(self, trial: Trial, seen: Seen) -> None:
        """Raises ``UnknownOutcome`` where the lock is at fault, ``Missed`` where the lab is."""
        if seen.failure and not seen.violates:
            raise UnknownOutcome(seen.failure, where=trial.key().decode())
        if self.progress.schedules % SAMPLE == 0 and not seen.suspect:
            self.progress.sampled += 1
            outcome = seen.outcome or run_trial(trial, self.wire)
            if any(each.name == self._finding for each in named(outcome)):
                raise Missed(f"the first look missed {self._finding} in {trial.key().decode()}")

    def _look_into(self, first: First) -> None:
        """Take what violates in all variants, or something made of it that does."""
        if self._always(first.trial):
            self._first, self._best = first, first.trial
            return
        self._racy = self._racy or first
        if self._rescues < RESCUES_MAX:
            self._rescues += 1
            self._best = self._rescued(first.trial)
            self._first = None if self._best is None else first

    def _rescued(self, trial: Trial) -> Trial | None:
        """Something smaller that needs no luck: it has fewer races, and the minimiser likes turns."""
        smaller = minimise(trial, self._violates, same_cluster=True)
        if self._always(smaller):
            return smaller
        return pinned(smaller, self._count, VARIANTS) if Cut in self.space.kinds else None

    def _make_small(self) -> None:
        """What was found, as small as it can be."""
        if self._best is not None:
            self.progress.stage = "minimising"
            still = self._violates if self._lucky else self._always
            self._best = minimise(self._best, still, same_cluster=True)

    def _settle_for_luck(self) -> None:
        """Nothing else was found: take what needs a lucky race."""
        if self._best is None and self._racy is not None:
            self._first, self._best, self._lucky = self._racy, self._racy.trial, True

    def _violates(self, trial: Trial) -> bool:
        return self._is_violation(trial, self._loop.here(trial))

    def _is_violation(self, trial: Trial, seen: Seen) -> bool:
        self._must_be_right(trial, seen)
        return seen.violates

    def _always(self, trial: Trial) -> bool:
        """Whether it violates whatever the seed of its latencies is, and a moment sooner or later."""
        return self._count(trial, VARIANTS) == VARIANTS

    def _count(self, trial: Trial, least: int) -> int:
        """In how many variants a trial violates; the count ends where it can't reach ``least`` any more."""
        count = 0
        of = variants(trial, VARIANTS)
        for run, (each, seen) in enumerate(zip(of, self._loop.at_once(of), strict=True), 1):
            count += self._is_violation(each, seen)
            if count + VARIANTS - run < least:
                break
        return count


__all__ = ["Ended", "First", "Missed", "Progress", "Search"]
