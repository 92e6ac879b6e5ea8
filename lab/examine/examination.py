"""One examination: what is tried, in which order, and what becomes of each violation.

A violation within the assumptions is a defect: the reference has none there. A lock that is not served has
one without a known cause only if nearly all variants of the schedule show that, and the reference in none.
One beyond the assumptions is a limit of the kind where the reference is known to have it as well; otherwise
it is a defect if the lock has it in nearly every variant and the reference in none, and if its cause is
known. Each cause counts once.

The directed part is run to its end before any of its violations is looked into, and the causes of all are
looked for before any schedule is made smaller: that may take as long as running all of them.
"""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from lab.errors import LabError, NotModelled, UnknownOutcome, first_line
from lab.examine.defects import NO_CAUSE, OFTEN, RARE, SURE, VARIANTS, why_not_owed, why_uncertain
from lab.examine.kinds import CLOCKS, Kind, reference_in
from lab.examine.ledger.finders import OTHERS_KEY, all_violations, seen
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.naming import UNKNOWN, Cause, causes_of
from lab.examine.result import NO_TIME, Defect, Directed, Limit, Part, Undecided
from lab.examine.schedules.situations import SITUATIONS
from lab.examine.violations.evidence import Evidence
from lab.examine.violations.judge import ERROR, Violation, labels
from lab.search import loop
from lab.search.faults import every_fault, fault_of
from lab.search.loop import AHEAD, Budget, Loop, OutOfTime, variants
from lab.search.minimise import minimise
from lab.search.runner import run_trial
from lab.search.trial import OptionValue, Trial
from lab.search.workers import Job, Workers

AGAIN_MAX: Final = 2
"""How often, in each part, a defect that was seen in a race is looked for in a trial that shows it always.

Not among the situations: there is one of each sort. So often, too, a defect may be noted as it was found."""
STEADY: Final = 4
"""A trial and its variants up to this number must show a finding that is to be called steady."""
SHRINK_MAX: Final = 400
"""How many trials may be spent on making one smaller, and the half of what is left of the budget at most."""
RESERVED: Final = 2 * VARIANTS + 20
"""For how many trials time is left when the search ends: the last finding is to be confirmed, too."""
BREADTH: Final = 2 / 3
"""After this share of what schedules may take, what was seen so far is looked into, also before the directed
part ends: with the first defect the rest of the budget is kept for what comes afterwards."""
LOOKED_MAX: Final = 40
"""At how many violations of one kind in one part it is looked for their cause."""
BEYOND_MAX: Final = 12
"""After so many schedules beyond an assumption in which the reference fails as well, it is asked no more."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a trial: all that is wrong in it by the finding's name, and which states faults hit.

    ``branches`` are the steps of the lock's code that were taken, ``grants`` how often a client was granted
    the lock, ``steps`` how much happened: what takes time in a trial.
    """

    violations: dict[str, Violation]
    covered: frozenset[tuple[str, str]]
    branches: frozenset[int]
    grants: int
    steps: int


def tried(trial: Trial) -> Tried:
    """Run a trial, and look at it; only inside ``trials``. Raises what ``run_trial`` does."""
    if trial.closely:
        kept = keep(trial)
        outcome, found = kept.outcome, seen(kept)
    else:
        outcome = run_trial(trial)
        found = all_violations(outcome)
    grants = sum((event["f"], event["type"]) == ("acquire", "ok") for event in outcome.events)
    return Tried(found, outcome.covered, outcome.branches, grants, outcome.steps)


@dataclass
class Progress(loop.Progress):
    """How far an examination is."""

    found: list[Defect] = field(default_factory=list)
    """The defects so far; the one at a place keeps its cause."""
    settled: int = 0
    """How many findings were made as small as there was time for, and decided by that."""
    branches: set[int] = field(default_factory=set)
    """The steps of the lock's code that were taken."""
    grants: int = 0
    """How often a client was granted the lock."""

    def note(self, answer: Tried) -> None:
        """Count a trial that was run."""
        super().note(answer)
        self.branches |= answer.branches

    @property
    def reached(self) -> int:
        """How much was reached that no schedule had reached before: states, and branches."""
        return len(self.covered) + len(self.branches)

    @property
    def defects(self) -> int:
        """How many there are so far."""
        return len(self.found)


@dataclass(slots=True)
class Candidate:
    """A violation that may be a defect: the trial that shows it, and what is known of it so far.

    ``broken`` are the assumptions without which the reference may fail as well; it does not in this trial.
    ``noted``: it is among the defects already, with its trial as it was found.
    """

    part: Part
    trial: Trial
    violation: Violation
    broken: frozenset[str]
    causes: list[Cause]
    noted: bool = False

    @property
    def sort(self) -> tuple[str, str]:
        """What is made smaller once: a finding with its cause."""
        return self.violation.finding, self.causes[0].kind if self.causes else UNKNOWN


class Examination:
    """Runs trials of one lock and sorts out what it sees.

    Args:
        kind: what the lock is.
        options: of its reference.
        budget: how long it may take.
        on_progress: called after each trial; it may raise ``OutOfTime``.
        workers: who runs the trials; this process alone if None.
        after: the share of the budget that is needed after the examination if there are defects.
        schedules: how many are tried at most; what they show is looked into all the same.
    """

    def __init__(
        self,
        kind: Kind,
        options: dict[str, OptionValue],
        budget: Budget,
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        workers: Workers[Tried] | None = None,
        after: float = 0.0,
        schedules: int | None = None,
    ) -> None:
        self.kind, self._options, self._budget, self._after = kind, options, budget, after
        self._cpu_s = time.process_time()
        self._workers = Workers(tried) if workers is None else workers
        self.progress = Progress()
        self._loop = Loop(self._workers, budget, self.progress, on_progress, schedules)
        self.defects = self.progress.found
        self.limits: dict[tuple[str, str], Limit] = {}
        self.parts: list[Part] = []
        self.undecided: dict[tuple[str, str], Undecided] = {}
        """What counts neither as a defect nor as a limit, by the finding and why."""
        self.kept: list[Trial] = []
        """Those that took a branch of the lock's code that none had taken before."""
        self._dismissed = Counter[tuple[str, str]]()
        self._looked = Counter[tuple[str, str]]()
        self._again = Counter[tuple[str, str]]()
        self._waiting: list[tuple[Part, Trial, Violation, int]] | None = None
        """What the directed part has shown and is not looked into yet, with how much happens in the
        schedule; None: all is looked into at once."""
        self._shrinks_for_s = math.inf
        """For how long a finding may be made smaller now, beside the half of what is left."""
        self.ttl_step_ns = 1
        """Leases are multiples of this."""
        self.directed = Directed()
        """How much of the directed part was run."""
        self.failed: list[str] = []
        """Why schedules could not be run, or findings not be looked into, though the lock is not to blame."""

    @property
    def why_fewer(self) -> str:
        """Why fewer processes run trials than was asked for; nothing if all do."""
        return self._workers.why_fewer

    def try_all(self, part: Part, trials: Iterable[Trial]) -> None:
        """Run these trials. Raises ``OutOfTime``."""
        self.try_in_turn([(part, trials)])

    def try_directed(self, part: Part, trials: list[Trial]) -> None:
        """Run all of these first, and look into what they show afterwards. Raises ``OutOfTime``."""
        self.parts.append(part)
        part.of, self._waiting = len(trials), []
        self.directed = Directed(0, part.of)
        asked_s, asked_real_s = self._budget.spent_s, self._budget.real_s
        early = True
        try:
            for _ in self.try_each((part, trial) for trial in trials):
                self.directed = replace(self.directed, tried=part.tried)
                if early:  # what is looked into later says nothing of how long the schedules take
                    times = part.of / max(1, part.tried)
                    self.directed = replace(
                        self.directed,
                        budget_s=round(asked_s + (self._budget.spent_s - asked_s) * times, 1),
                        seconds=round(asked_real_s + (self._budget.real_s - asked_real_s) * times, 1),
                    )
                searches_s = self._budget.seconds * (1 - self._after)
                if early and self._waiting and self._budget.spent_s > searches_s * BREADTH:
                    early = False
                    self._look_into_waiting()
        except OutOfTime:
            self._look_into_waiting()
            raise
        else:
            self._look_into_waiting()
        finally:
            self._waiting = None

    def _look_into_waiting(self) -> None:
        """Look for the causes of all that was seen, then make one schedule of each defect smaller.

        One violation of each sort comes before any second one, the plainest first. A schedule that takes many
        times as long as another comes after it: a client that asks for a held lock every few milliseconds
        makes one of seconds, which is run some hundred times here. A defect with a cause counts as soon as it
        is confirmed, so that making another smaller cannot use up the time for it; they share what is left.
        """

        def plainness(one: tuple[Part, Trial, Violation, int]) -> tuple[int, int, int]:
            _, trial, _, steps = one
            faults = sum(1 for _ in every_fault(trial))
            return steps.bit_length() // 2, faults, len(trial.key())

        waiting = sorted(self._waiting or [], key=plainness)
        self._waiting = []
        times: Counter[str] = Counter()
        numbered = []
        for each in waiting:
            finding = each[2].finding
            numbered.append((times[finding], each))
            times[finding] += 1
        candidates, tries = [], Counter[tuple[str, str]]()
        # An act on another's key tells less than what comes of it, which has the same cause.
        for _, (part, trial, violation, _) in sorted(
            numbered, key=lambda one: (one[0], one[1][2].finding == OTHERS_KEY)
        ):
            candidate = self._looked_into(part, trial, violation)
            if candidate is None:
                continue
            candidates.append(candidate)
            tries[candidate.sort] += 1
            if tries[candidate.sort] <= AGAIN_MAX:
                self._try_to(self._note, candidate)
        candidates.sort(key=lambda candidate: not candidate.noted)
        for at, candidate in enumerate(candidates):
            ahead = {
                each.sort
                for each in candidates[at:]
                if each.noted or self._known(each.causes, each.violation) is None
            }
            self._shrinks_for_s = self._left_s() / max(2, len(ahead))
            self._try_to(self._settle, candidate)
        self._shrinks_for_s = math.inf

    def try_in_turn(self, parts: Sequence[tuple[Part, Iterable[Trial]]]) -> None:
        """Run these trials, one of each part after the other. Raises ``OutOfTime``."""
        self.parts += [part for part, _ in parts]
        in_turn = (
            (part, trial)
            for round_ in zip_longest(*(trials for _, trials in parts))
            for (part, _), trial in zip(parts, round_, strict=True)
            if trial is not None
        )
        for _ in self.try_each(in_turn):
            pass

    def try_each(
        self, found: Iterable[tuple[Part, Trial]], ahead: int = AHEAD
    ) -> Iterator[tuple[Part, Job[Tried]]]:
        """Run these trials, and yield each when it was looked at; they are drawn so many ``ahead``.

        Raises ``OutOfTime``.
        """
        for part, job in self._loop.in_order(found, ahead, self.check_time):
            self.progress.stage = part.name
            self._try(part, job)
            yield part, job

    def _try(self, part: Part, job: Job[Tried]) -> None:
        """See what came of a trial, or that it could not be run.

        Raises:
            OutOfTime: the budget is spent.
            NotModelled: the lock uses what the nodes do not do: trials without a verdict are no examination.
        """
        known = len(self.progress.branches)
        try:
            seen = self._loop.answer(job)
        except UnknownOutcome as error:
            part.tried += 1
            self.leave_open(ERROR, str(error).partition("\n")[0], job.argument)
            return
        except LabError as error:
            self._note_failure(f"a schedule of {part.name!r} could not be run", error)
            return
        if len(self.progress.branches) > known:
            self.kept.append(job.argument)
        self.progress.grants += seen.grants
        part.tried += 1
        # An act on another's key is looked into for itself only where nothing comes of it.
        for violation in seen.violations.values():
            if violation.finding == OTHERS_KEY and len(seen.violations) > 1:
                continue
            self._consider(part, job.argument, violation, seen.steps)

    def check_time(self) -> None:
        """Raise ``OutOfTime`` if the budget is spent, but for what confirming the last finding takes."""
        reserved_s = RESERVED * self.progress.seconds / max(1, self.progress.schedules)
        if self._left_s() <= min(reserved_s, self._budget.seconds / 4):
            raise OutOfTime

    def _left_s(self) -> float:
        """What is left of the budget for schedules."""
        self.progress.seconds = self._budget.real_s
        return self._budget.left_s - (self._after * self._budget.seconds if self.defects else 0.0)

    def _consider(self, part: Part, trial: Trial, violation: Violation, steps: int) -> None:
        """A limit of the kind, or something to look into: now, or when the directed part is through."""
        broken = labels(trial) & self.kind.limits(violation.finding)
        if broken and not broken <= CLOCKS:
            self._note_limit(violation, sorted(broken)[0], trial)
        elif self._waiting is not None:
            self._waiting.append((part, trial, violation, steps))
        else:
            self._look_into(part, trial, violation)

    def _look_into(self, part: Part, trial: Trial, violation: Violation) -> None:
        """A limit, a known defect, a new one, or undecided."""
        candidate = self._looked_into(part, trial, violation)
        if candidate is not None:
            self._try_to(self._settle, candidate)

    def _looked_into(self, part: Part, trial: Trial, violation: Violation) -> Candidate | None:
        """The violation with its causes; None if it is a limit, or seen too often, or the budget is spent."""
        key = part.name, violation.finding
        self._looked[key] += 1
        if self._looked[key] > LOOKED_MAX:
            return None
        if self._left_s() <= 0:
            self.leave_open(violation.finding, NO_TIME, trial)
            return None
        broken = labels(trial) & self.kind.limits(violation.finding)
        candidate = Candidate(part, trial, violation, frozenset(broken), [])
        return candidate if self._try_to(self._find_causes, candidate) else None

    def _try_to(self, do: Callable[[Candidate], bool], candidate: Candidate) -> bool:
        """Do this with a candidate, and say what comes of it. What fails here costs no other finding."""
        try:
            return do(candidate)
        except OutOfTime:
            raise
        except Exception as error:  # noqa: BLE001 - the other findings are reported, and this with its reason
            finding = candidate.violation.finding
            self._note_failure(f"a schedule with {finding!r} could not be looked into", error)
            why = f"it could not be looked into: {first_line(error)}"
            self.leave_open(finding, why, candidate.trial)
            return False

    def _find_causes(self, candidate: Candidate) -> bool:
        """Look for its causes, unless the reference fails as well: then it is a limit."""
        trial, violation, broken = candidate.trial, candidate.violation, candidate.broken
        if broken and not self._reference_survives(trial, violation):
            self._note_limit(violation, sorted(broken)[0], trial)
            return False
        candidate.causes, not_owed = self._causes(trial, violation)
        if not_owed:
            self.leave_open(violation.finding, not_owed, trial)
            return False
        return True

    def _note(self, candidate: Candidate) -> bool:
        """Count it as a defect if it is a new one, has a cause, and is certain as it is.

        What its smallest schedule comes to decides later whether it stays one. So no more variants are run
        than it takes to be certain: what is left is for the causes of the others.
        """
        causes, violation = candidate.causes, candidate.violation
        if causes and self._known(causes, violation) is None:
            enough = SURE if candidate.broken else OFTEN if violation.finding in RARE else STEADY
            defect, doubt = self._defect(candidate, candidate.trial, violation, causes, enough=enough)
            candidate.noted = not doubt
            if candidate.noted:
                self.defects.append(defect)
        return candidate.noted

    def _settle(self, candidate: Candidate) -> bool:
        """Decide what it is by its smallest schedule: a known defect, a new one, a limit, or undecided."""
        trial, violation, causes = candidate.trial, candidate.violation, candidate.causes
        own = self._place_of(candidate)
        known = self._known(causes, violation, own)
        no_time = self._left_s() <= 0
        if own is None and known is not None and (no_time or self._is_done(candidate.part, known)):
            return False
        if no_time:
            if own is None:
                self.leave_open(violation.finding, NO_TIME, trial)
            return False
        if known is None and not causes and candidate.broken:
            self.leave_open(violation.finding, NO_CAUSE, trial)
            return False
        if violation.finding in RARE and not causes:  # it counts only if nearly all variants show it
            why_not = self._why_not_sure(trial, violation)
            if why_not:
                self.leave_open(violation.finding, why_not, trial)
                return False
        smallest, to_the_end = self._reduced(candidate, own)
        self._add(candidate, smallest, own, to_the_end=to_the_end)
        self.progress.settled += 1
        return True

    def _place_of(self, candidate: Candidate) -> int | None:
        """The place of the defect that it was noted as; None if it was not, or that has become another."""
        kinds = [each.cause for each in self.defects]
        if not candidate.noted or candidate.causes[0].kind not in kinds:
            return None
        return kinds.index(candidate.causes[0].kind)

    def _why_not_sure(self, trial: Trial, violation: Violation) -> str:
        """Why not nearly all variants of a trial show a finding that has no cause; nothing if they do."""
        of, shown, lost = self._confirm(trial, violation.finding, SURE)
        faults = {type(fault_of(fault)) for fault in every_fault(trial)}
        return why_uncertain(
            self._reference_of(trial), violation, (), (shown, of), lost, beyond=False, faults=faults
        )

    def _reference_survives(self, trial: Trial, violation: Violation) -> bool:
        """Whether it is worth a closer look: beyond the assumptions the reference decides, a few times."""
        key = (violation.finding, "/".join(sorted(labels(trial))))
        if self._dismissed[key] >= BEYOND_MAX:
            return False
        if violation.finding == "fence-order" and not self.kind.quorum:
            return False  # the reference on one node has no fences, and would lose its counter with its data
        of_reference = tried(self._for_reference(trial)).violations
        survives = violation.finding not in of_reference
        if not survives:
            self._dismissed[key] += 1
        return survives

    def _note_limit(self, violation: Violation, assumption: str, trial: Trial) -> None:
        key = violation.finding, assumption
        before = self.limits.get(key)
        if before is None:
            self.limits[key] = Limit(violation.finding, assumption, 1, violation.headline, trial)
        else:
            self.limits[key] = replace(before, times=before.times + 1)

    def _known(self, causes: list[Cause], violation: Violation, own: int | None = None) -> int | None:
        """The place of the known defect that has one of these causes; it has this finding as well.

        One at the place ``own`` is the defect itself: none is known if that has the first of the causes.
        Of violations without a cause that is known, those with the same finding count as one defect.
        """
        if own is not None and causes and causes[0].kind == self.defects[own].cause:
            return None
        kinds = {cause.kind for cause in causes}
        for at, defect in enumerate(self.defects):
            if at == own:
                continue
            if not kinds and defect.cause == UNKNOWN and violation.finding in defect.findings:
                return at
            if defect.cause in kinds:
                if violation.finding not in defect.findings:
                    self.defects[at] = replace(defect, findings=(*defect.findings, violation.finding))
                return at
        return None

    def _is_done(self, part: Part, known: int) -> bool:
        """Whether nothing is to be learned from a known defect: it is from no lucky race, and does harm."""
        defect = self.defects[known]
        key = part.name, defect.cause
        self._again[key] += 1
        often = 0 if part.name == SITUATIONS else AGAIN_MAX
        is_shown = defect.reproduced >= SURE and defect.findings[0] != OTHERS_KEY
        return is_shown or self._again[key] > often

    def _reduced(self, candidate: Candidate, own: int | None = None) -> tuple[Trial, bool]:
        """The smallest trial that is as telling: of a new defect, not of a known one, and no lucky race.

        And whether nothing more could have been tried, had there been more time. ``own`` is the place of the
        defect that it was noted as.
        """
        trial, violation, causes = candidate.trial, candidate.violation, candidate.causes
        smallest, keeps = self._smallest(trial, violation), ""
        left = self._causes(smallest[0], violation)[0] if causes else []
        lost = causes and not left and violation.finding in RARE and not candidate.broken
        if lost or (left and self._known(left, violation, own) is not None):
            keeps = causes[0].kind
            smallest = self._smallest(trial, violation, keeps)
        if self._is_steady(smallest[0], violation) or not self._is_steady(trial, violation):
            return smallest
        return self._smallest(trial, violation, keeps, steady=True)

    def _is_steady(self, trial: Trial, violation: Violation) -> bool:
        """Whether a few variants of a trial show the finding, too."""
        return all(self._violates(each, violation.finding) for each in variants(trial, STEADY)[1:])

    def _smallest(
        self, trial: Trial, violation: Violation, keeps: str = "", *, steady: bool = False
    ) -> tuple[Trial, bool]:
        """The trial made as small as it can be, with the same finding, and no other assumption broken.

        With ``keeps`` it keeps that cause, with ``steady`` the smaller ones must be steady as well.
        """
        left, to_the_end, left_s = SHRINK_MAX, True, self._left_s()
        until_s = max(left_s / 2, left_s - self._shrinks_for_s)

        def still(changed: Trial) -> bool:
            nonlocal left, to_the_end
            if not labels(changed) <= labels(trial):
                return False
            if any(ttl_ns % self.ttl_step_ns for ttl_ns in changed.leases_ns):
                return False
            if not to_the_end or left <= 0 or self._left_s() <= until_s:
                to_the_end = False
                return False
            left -= 1
            return (
                self._violates(changed, violation.finding)
                and (not keeps or [each.kind for each in self._causes(changed, violation)[0][:1]] == [keeps])
                and (not steady or self._is_steady(changed, violation))
            )

        smallest = minimise(trial, still)
        return smallest, to_the_end

    def _causes(self, trial: Trial, violation: Violation) -> tuple[list[Cause], str]:
        """What caused a violation, as far as that is known, without what a lock of this kind need not do.

        And, where nothing else caused it, why a lock need not.
        """
        self._workers.go_on()
        found = causes_of(trial, violation.finding)
        gc.collect()  # it has run the trial again for each repair, with all that lay on the nodes each time
        excuses = [why_not_owed(self.kind, cause) for cause in found]
        owed = [cause for cause, excuse in zip(found, excuses, strict=True) if not excuse]
        return owed, excuses[0] if found and not owed else ""

    def _violates(self, trial: Trial, finding: str) -> bool:
        return self._shows(finding, lambda: self._loop.here(trial))

    def _shows(self, finding: str, look: Callable[[], Tried]) -> bool:
        try:
            seen = look()
        except (UnknownOutcome, NotModelled):
            return False
        return finding in seen.violations

    def _add(self, candidate: Candidate, trial: Trial, own: int | None, *, to_the_end: bool) -> None:
        """Report a defect, unless its smallest trial shows one of the reference as well.

        One that is known already is reported with the trial that shows it more often. It takes the place
        ``own`` of what it was noted as, which is no defect if this is none. ``to_the_end``: whether the trial
        is as small as it can be.
        """
        all_seen = tried(trial).violations
        violation = all_seen.get(candidate.violation.finding, candidate.violation)
        causes, not_owed = self._causes(trial, violation)
        known = self._known(causes, violation, own)
        defect, doubt = self._defect(candidate, trial, violation, causes)
        is_rarer = doubt and not (not_owed or defect.reference_lost)
        if is_rarer and trial != candidate.trial:  # smaller, but less certain
            self._add(candidate, candidate.trial, own, to_the_end=False)
            return
        defect = replace(defect, smallest=to_the_end)
        if doubt := not_owed or doubt:
            if defect.reference_lost and labels(trial):
                self._note_limit(violation, sorted(labels(trial))[0], trial)
            else:
                self.leave_open(violation.finding, doubt, trial)
            if own is not None:
                del self.defects[own]
            return
        if not causes:
            taken = {violation.finding}
            taken.update(name for each in self.defects if each.cause == UNKNOWN for name in each.findings)
            beside = (name for name in all_seen if name not in taken)
            evidence = (*violation.evidence, *self._keys_there(trial, violation))
            defect = replace(defect, findings=(*defect.findings, *beside), evidence=evidence)
        if known is not None:
            before = self.defects[known]
            is_worse = before.findings[0] == OTHERS_KEY != violation.finding
            if is_worse or (defect.reproduced > before.reproduced and violation.finding != OTHERS_KEY):
                self._put(defect, known)
        elif own is not None:
            noted = self.defects[own]
            defect = replace(defect, schedules=noted.schedules, seconds=noted.seconds)
            if defect.cause == noted.cause:
                self._put(defect, own)
            else:  # the other violations with the cause that it had are looked into after this one
                self.defects[own] = defect
        else:
            self.defects.append(defect)

    def _put(self, defect: Defect, at: int) -> None:
        """Report a known defect with this trial, and with what else it was seen to lead to."""
        others = (name for name in self.defects[at].findings if name not in defect.findings)
        self.defects[at] = replace(defect, findings=(*defect.findings, *others))

    def _defect(
        self,
        candidate: Candidate,
        trial: Trial,
        violation: Violation,
        causes: list[Cause],
        enough: int = VARIANTS,
    ) -> tuple[Defect, str]:
        """A defect as this trial shows it, and why it is not certain to be one; nothing if it is.

        No more variants are run when ``enough`` of them show it.
        """
        least = SURE if violation.finding in RARE and not causes else 0
        variants, reproduced, lost = self._confirm(trial, violation.finding, least, enough)
        faults = {type(fault_of(fault)) for fault in every_fault(trial)}
        beyond = bool(candidate.broken)
        shown = reproduced, variants
        reference = self._reference_of(trial)
        doubt = why_uncertain(reference, violation, causes, shown, lost, beyond=beyond, faults=faults)
        cause = causes[0] if causes else None
        defect = Defect(
            cause.kind if cause is not None else UNKNOWN,
            cause.seen if cause is not None else violation.headline,
            (violation.finding,),
            violation.headline,
            violation.evidence,
            trial,
            reproduced,
            variants,
            lost,
            candidate.part.name,
            self.progress.schedules,
            round(time.process_time() - self._cpu_s + self._workers.helpers_cpu_s, 2),
            smallest=False,
            places=cause.places if cause is not None else (),
            also_fits=tuple(each.kind for each in causes[1:]),
            rule=cause.breach.rule if cause is not None else "",
            by_intervention=cause is not None and cause.by_intervention,
        )
        return defect, doubt

    def _keys_there(self, trial: Trial, violation: Violation) -> tuple[str, ...]:
        """Which keys lie on the nodes when a finding without a cause shows."""
        outcome = run_trial(trial, watch=True)
        at = max(violation.witnesses, default=len(outcome.events) - 1)
        return Evidence(outcome).keys_there(outcome.events[at]["time_ns"])

    def _confirm(
        self, trial: Trial, finding: str, least: int = 0, enough: int = VARIANTS
    ) -> tuple[int, int, int]:
        """How many variants of a trial were run, how many show it, and how many with the reference.

        All, if the budget lasts; and one at least. With ``least``, no more of them once it is certain that
        not so many show it, or that the reference has it as well; and no more once ``enough`` show it.
        """
        run = reproduced = lost = 0
        pairs = ((one, self._for_reference(one)) for one in variants(trial, VARIANTS))
        jobs = self._workers.at_once([each for pair in pairs for each in pair])
        while run < VARIANTS and (run == 0 or self._left_s() > 0):
            own, of_reference = (partial(self._loop.answer, job) for job in jobs[2 * run : 2 * run + 2])
            run += 1
            reproduced += self._shows(finding, own)
            lost += self._shows(finding, of_reference)
            if reproduced >= enough or (least and (lost or VARIANTS - run + reproduced < least)):
                break
        self._workers.forget(jobs)
        return run, reproduced, lost

    def _note_failure(self, what: str, error: Exception) -> None:
        """Note once why something could not be examined."""
        words = f"{what}: {first_line(error)}"
        if words not in self.failed:
            self.failed.append(words)

    def leave_open(self, finding: str, why: str, trial: Trial) -> None:
        """Note what counts neither as a defect nor as a limit, with the shortest trial that shows it."""
        before = self.undecided.get((finding, why), Undecided(finding, why, 0, trial))
        shortest = min(before.trial, trial, key=lambda each: len(each.key()))
        self.undecided[finding, why] = replace(before, times=before.times + 1, trial=shortest)

    def _reference_of(self, trial: Trial) -> str:
        return reference_in(self.kind.reference, reentrant=trial.reentrant)

    def _for_reference(self, trial: Trial) -> Trial:
        permits = self.kind.capacity.permits if self.kind.capacity.permits > 1 else 0
        reference = self._reference_of(trial)
        return replace(trial, lock=reference, options=dict(self._options), permits=permits)
