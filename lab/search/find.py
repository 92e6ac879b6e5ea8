"""The search itself: Hypothesis draws trials in batches, and shrinks the first one that violates.

``guided`` differs from ``random`` in three ways. Each batch enables a random subset of the kinds of faults
(swarm). Faults are anchored on events and come in decisive sizes. And trials in which a kind of fault left
the lock in a state in which it never had left it before are kept, those first in which most nodes had
forgotten a lease that counts; most trials are such a one with one thing changed (coverage). ``random`` draws
times, places and sizes uniformly.

With several processes, the trials of a batch are drawn once before they are run, and helpers begin with them:
what is drawn in a batch depends on earlier batches only. The search itself goes on as with one process, and
asks for the results in the same order, so it comes to the same.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import itemgetter
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.faults.cut import Cut
from lab.search.draw import Draw, Space, Strategy, choice, draw_trial, mutated
from lab.search.minimise import minimise
from lab.search.pin import pinned
from lab.search.runner import Outcome, Wire, run_trial, trials
from lab.search.suspicion import found, named, suspect
from lab.search.trial import Trial
from lab.search.workers import Job, Workers

BATCH: Final = 60
"""How many trials Hypothesis draws before the enabled faults and what is kept are chosen anew."""
ENABLED: Final = 0.7
"""The chance of each kind of fault to be enabled in a batch."""
SHRINKS_MAX: Final = 100
"""How many trials Hypothesis may spend on shrinking; our own minimiser goes on from there."""
LOOSE: Final = 4
STEADY: Final = 5
VARIANTS: Final = LOOSE + STEADY
"""How many variants of a trial must violate: one that needs a lucky race makes no scenario. They have other
pauses; ``LOOSE`` draw their latencies, in the others the nodes always answer in one and the same order."""
UNSTEADY_NS: Final = 40_000_000
"""By how much the pauses may differ."""
RESCUES_MAX: Final = 4
"""How many trials that need a lucky race are made smaller, in the hope that the race goes away."""
SAMPLE: Final = 50
"""Of so many trials that the first look clears, one is shown to the checker all the same."""
KEPT_MAX: Final = 12
COLLECT_EVERY: Final = 100


@dataclass(frozen=True)
class Budget:
    """How long a search may go on: in seconds, in trials, or both. None: no bound."""

    seconds: float | None = None
    trials: int | None = None


@dataclass
class Progress:
    """How far a search is."""

    tried: int = 0
    seconds: float = 0.0
    violations: int = 0
    sampled: int = 0
    covered: set[tuple[str, str]] = field(default_factory=set)
    stage: str = "searching"

    @property
    def per_second(self) -> float:
        """Schedules per second."""
        return self.tried / self.seconds if self.seconds else 0.0


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
    """How a search ended. ``found`` is what is left of ``first`` after shrinking; both None: nothing found.

    ``racy``: it violates in some variants only, since it needs packets to arrive in a lucky order.
    """

    first: First | None
    found: Trial | None
    racy: bool
    progress: Progress
    interrupted: bool = False


class Missed(Exception):
    """The first look cleared a trial in which the checker finds what is searched for: a fault of the lab."""


class _Violation(Exception):
    """Tells Hypothesis that this is one."""


class _Over(BaseException):
    """The budget is spent; no ``Exception``, so that Hypothesis does not take it for a violation."""


class Search:
    """One search.

    Args:
        space: what is drawn.
        finding: the checker's name for what is searched for.
        budget: how long.
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
        budget: Budget,
        *,
        seed: int = 0,
        strategy: Strategy = "guided",
        wire: Wire = "direct",
        jobs: int | None = 1,
        dask: str = "",
    ) -> None:
        self.space, self._finding, self._budget, self._seed = space, finding, budget, seed
        self._strategy, self.wire, self._jobs, self._dask = strategy, wire, jobs, dask
        self._workers: Workers[Seen]
        self._begun: dict[bytes, Job[Seen]] = {}
        """Trials that helpers may run already, by their keys."""
        self.on_progress: Callable[[Progress], None] = lambda progress: None
        """Called after each trial."""
        self._random = Random(seed)
        self._kept: list[tuple[int, int, Trial]] = []
        self._verdicts: dict[bytes, bool] = {}
        self._began = 0.0
        self._first: First | None = None
        self._best: Trial | None = None
        self._racy: First | None = None
        self._lucky = False
        self._rescues = 0
        self.progress = Progress()

    def run(self) -> Ended:
        """Search until something is found and small, or the budget is spent.

        Raises:
            LabError: no such lock, or options that it does not have.
            UnknownOutcome: the lock raised an exception of its own, in a trial that shows nothing else.
            Missed: see there.
        """
        ask = partial(look, finding=self._finding, wire=self.wire)
        with closing(Workers(ask, self._jobs, dask=self._dask)) as self._workers:
            return self._run()

    def _run(self) -> Ended:
        self._began = time.monotonic()
        interrupted = False
        try:
            with trials(self.wire):
                try:
                    for batch in count():
                        self._search_batch(batch)
                        if self._best is not None:
                            break
                    self.progress.stage = "minimising"
                    self._best = self._best and minimise(self._best, self._still, same_cluster=True)
                except _Over:
                    self._settle_for_luck()
        except KeyboardInterrupt:
            interrupted = True
            if self._best is None and self._racy is not None:
                self._first, self._best, self._lucky = self._racy, self._racy.trial, True
        finally:
            gc.collect()
        return Ended(self._first, self._best, self._lucky, self.progress, interrupted)

    def _search_batch(self, batch: int) -> None:
        space = self._swarm() if self._strategy == "guided" else self.space
        kept = [trial for _, _, trial in self._kept]
        if self._workers.jobs > 1:
            ahead: dict[bytes, Trial] = {}

            def note(trial: Trial) -> bool:
                ahead.setdefault(trial.key(), trial)
                return False

            self._draw_batch(batch, space, kept, note)
            self._begin(trial for key, trial in ahead.items() if key not in self._verdicts)
        self._draw_batch(batch, space, kept, self._violates)
        self._forget()

    def _draw_batch(
        self, batch: int, space: Space, kept: list[Trial], violates: Callable[[Trial], bool]
    ) -> None:
        """Draw trials, the same each time, until one violates or the batch is over."""
        import hypothesis
        from hypothesis import HealthCheck, Phase, strategies

        @strategies.composite  # ``data()`` would draw the same, and take twice as long
        def drawn(draw: Callable[[Any], Any]) -> Trial:
            source = _HypothesisDraw(draw)
            if kept and source.integer(0, 3):
                return mutated(source, space, choice(source, kept))
            return draw_trial(source, space, self._strategy)

        @hypothesis.seed(self._seed << 20 | batch)
        @hypothesis.settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
            verbosity=hypothesis.Verbosity.quiet,
        )
        @hypothesis.given(drawn())
        def holds(trial: Trial) -> None:
            if violates(trial):
                raise _Violation

        try:
            holds()
        except _Violation:
            return

    def _swarm(self) -> Space:
        kinds = [kind for kind in self.space.kinds if self._random.random() < ENABLED]
        return self.space.only(kinds or self.space.kinds)

    def _violates(self, trial: Trial) -> bool:
        """Run a trial that Hypothesis asks about, unless shrinking has gone on for long enough."""
        key = trial.key()
        known = self._verdicts.get(key)
        if known is None:
            if self._first is not None and self.progress.tried - self._first.tried >= SHRINKS_MAX:
                return False
            sure: Trial | None = None
            if self._judge(trial):
                first = First(self.progress.tried, self.progress.seconds, trial)
                sure = self._without_luck(first)
            known = self._verdicts[key] = sure is not None
            self._best = sure or self._best
        return known

    def _still(self, trial: Trial) -> bool:
        """Run a trial that the minimiser asks about."""
        key = trial.key()
        if key not in self._verdicts:
            self._verdicts[key] = self._judge(trial) and self._without_races(trial)
        return self._verdicts[key]

    def _without_races(self, trial: Trial) -> bool:
        """Whether it violates whatever the seed of its latencies is, and a moment sooner or later."""
        variants = [variant(trial, number) for number in range(1, VARIANTS)]
        self._begin(variants, first=True)
        without = all(map(self._judge, variants))
        self._forget(variants)
        return without

    def _without_luck(self, seen: First) -> Trial | None:
        """The trial that was seen to violate, or one made of it, that violates in all variants."""
        sure: Trial | None = seen.trial
        if not self._without_races(seen.trial):
            self._racy = self._racy or seen
            sure = self._rescued(seen.trial)
        if sure is not None and self._first is None:
            self.progress.stage = "shrinking"
            self._first = seen
        return sure

    def _rescued(self, trial: Trial) -> Trial | None:
        """Something smaller that needs no luck: it has fewer races, and the minimiser likes turns."""
        if self._rescues == RESCUES_MAX:
            return None
        self._rescues += 1
        smaller = minimise(trial, self._judge, same_cluster=True)
        if self._without_races(smaller):
            return smaller
        return pinned(smaller, self._count, VARIANTS) if Cut in self.space.kinds else None

    def _count(self, trial: Trial, least: int) -> int:
        """In how many variants a trial violates; the count ends where it can't reach ``least`` any more."""
        count = 0
        variants = [variant(trial, number) if number else trial for number in range(VARIANTS)]
        self._begin(variants, first=True)
        for number, one in enumerate(variants):
            count += self._judge(one)
            if count + VARIANTS - 1 - number < least:
                break
        self._forget(variants)
        return count

    def _begin(self, wanted: Iterable[Trial], *, first: bool = False) -> None:
        """Let helpers run these; ``first``: they are few, and their results are asked for next."""
        if self._workers.jobs > 1 and (self._workers.near or not first):
            new = {trial.key(): trial for trial in wanted}
            new = {key: trial for key, trial in new.items() if key not in self._begun}
            jobs = self._workers.begin(list(new.values()), first=first)
            self._begun |= dict(zip(new, jobs, strict=True))

    def _forget(self, trials_: Iterable[Trial] | None = None) -> None:
        """The results of these, or of all, are not asked for any more."""
        keys = list(self._begun) if trials_ is None else [trial.key() for trial in trials_]
        self._workers.forget([job for key in keys if (job := self._begun.pop(key, None)) is not None])

    def _look(self, trial: Trial) -> Seen:
        """What came of a trial, from whoever has run it."""
        job = self._begun.pop(trial.key(), None) if self._begun else None
        return self._workers.here(trial) if job is None else self._workers.result(job)

    def _settle_for_luck(self) -> None:
        """Nothing else was found: make what needs a lucky race as small as it can be."""
        if self._best is None and self._racy is not None:
            self._first, self._best, self._lucky = self._racy, self._racy.trial, True
            self.progress.stage = "minimising"
            self._best = minimise(self._best, self._judge, same_cluster=True)

    def _judge(self, trial: Trial) -> bool:
        progress, budget = self.progress, self._budget
        progress.seconds = time.monotonic() - self._began
        if self._first is None and (
            (budget.trials is not None and progress.tried >= budget.trials)
            or (budget.seconds is not None and progress.seconds >= budget.seconds)
        ):
            raise _Over
        seen = self._look(trial)
        progress.tried += 1
        self._cover(trial, seen)
        if seen.failure and not seen.violates:
            raise UnknownOutcome(seen.failure, where=trial.key().decode())
        if progress.tried % SAMPLE == 0 and not seen.suspect:
            progress.sampled += 1
            outcome = seen.outcome or run_trial(trial, self.wire)
            if any(each.name == self._finding for each in named(outcome)):
                raise Missed(f"the first look missed {self._finding} in {trial.key().decode()}")
        progress.violations += seen.violates
        if progress.tried % COLLECT_EVERY == 0:
            gc.collect()
        progress.seconds = time.monotonic() - self._began
        self.on_progress(progress)
        return seen.violates

    def _cover(self, trial: Trial, seen: Seen) -> None:
        """Keep what did something new, and of that what came nearest to breaking the lock."""
        new = seen.covered - self.progress.covered
        self.progress.covered |= new
        if new and self._strategy == "guided" and self._first is None:
            self._kept.append((seen.eroded, self.progress.tried, trial))
            self._kept = sorted(self._kept, key=itemgetter(0, 1))[-KEPT_MAX:]


def variant(trial: Trial, number: int) -> Trial:
    """The same trial with other latencies, and every pause between rounds a little longer."""
    random = Random(number)
    clients = {
        name: tuple(replace(each, think_ns=each.think_ns + random.randrange(UNSTEADY_NS)) for each in rounds)
        for name, rounds in trial.clients.items()
    }
    seed = trial.seed + number if number < LOOSE else LOOSE - 1 - number
    return replace(trial, seed=seed, clients=clients)


class _HypothesisDraw:
    """Choices by Hypothesis, which records them and so can shrink them."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def integer(self, least: int, most: int) -> int:
        """Whatever Hypothesis likes."""
        return int(self._draw(_integers(least, most)))


@functools.cache
def _integers(least: int, most: int) -> Any:
    """Hypothesis' whole numbers; it keeps them as well, and takes longer to find them."""
    from hypothesis import strategies

    return strategies.integers(least, most)


__all__ = ["Budget", "Draw", "Ended", "First", "Missed", "Progress", "Search"]
