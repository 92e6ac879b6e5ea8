"""Running a schedule in the simulation, and judging what came of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from lab.api import prepared
from lab.api.strategies.words import describe
from lab.errors import LabError, did_you_mean
from lab.examine.violations.judge import ERROR, HANG, Violation, violations
from lab.report.meanings import FINDINGS
from lab.search.replay import must_be_possible
from lab.search.runner import Outcome, run_trial
from lab.search.trial import Trial

SHOWN_MAX: Final = 3
"""How many violations the message of a failure shows with their evidence."""


class Violated(AssertionError):
    """A schedule violates a property; ``violations`` are those that count, by the finding's name."""

    def __init__(self, message: str, violations: dict[str, Violation]) -> None:
        super().__init__(message)
        self.violations = violations


@dataclass(frozen=True)
class Ran:
    """What came of a schedule.

    Args:
        outcome: the run itself.
        violations: all that is wrong in its history, by the finding's name; see ``docs/findings.md``.
            Besides the checker's there are ``error`` (the lock raised what is no ``LockError``) and ``hang``
            (an operation never came to an end).
    """

    outcome: Outcome
    violations: dict[str, Violation]

    @property
    def schedule(self) -> Trial:
        """What was run."""
        return self.outcome.trial

    @property
    def events(self) -> list[dict[str, Any]]:
        """The history: invocations and completions of clients and of the nemesis, in order."""
        return self.outcome.events

    @property
    def ok(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations

    def digest(self) -> str:
        """A hash of the whole history: the same schedule always has the same."""
        return self.outcome.digest()

    def assert_holds(self, *findings: str, allow: Collection[str] = ()) -> None:
        """Fail if something is violated.

        Args:
            findings: the findings that count; all of them if none is named.
            allow: findings that do not count, such as what a lock of this kind cannot prevent.

        Raises:
            Violated: an ``AssertionError`` that names finding, evidence, and how to replay the schedule.
            LabError: there is no such finding.
        """
        __tracebackhide__ = True  # pytest shows the test, which is what its reader wrote
        for name in (*findings, *allow):
            _must_exist(name)
        count = {
            name: one
            for name, one in self.violations.items()
            if name not in allow and (not findings or name in findings)
        }
        if count:
            raise Violated(_message(self.schedule, count), count)


def run(schedule: Trial) -> Ran:
    """Run a schedule in virtual time, and judge its history: the same schedule gives the same history.

    Call it from one thread at a time. Inside a test that pytest runs, or ``simulated``, many runs share the
    preparation of the process.

    Raises:
        LabError: no such lock, options that it does not have, or a schedule that cannot be: a fault of a
            node that there is not, a cut without a client, a negative duration.
        SimulationError: the lock reached out of the simulation: threads, processes, real sockets.
        UnknownOutcome: the lock could not be made, or failed outside of its operations.
    """
    must_be_possible(schedule, "the schedule")
    with simulated(), undisturbed():
        outcome = run_trial(schedule)
        return Ran(outcome, violations(outcome))


@contextmanager
def simulated() -> Iterator[None]:
    """Prepare this process for runs, once for all inside; afterwards all is as it was. May be nested."""
    with prepared.scope():
        prepared.prepare()
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let no finaliser run at a moment that chance chooses, nor Hypothesis' tracer take an example's time.

    Before Python 3.12 that tracer sees each line while failing examples are explained, and a run would take
    five times as long. A debugger or a measurement of coverage goes on.
    """
    collects, tracer = gc.isenabled(), sys.gettrace()
    is_hypothesis = str(getattr(tracer, "__module__", "")).startswith("hypothesis.")
    gc.disable()
    if is_hypothesis:
        sys.settrace(None)
    try:
        yield
    finally:
        if is_hypothesis:
            sys.settrace(tracer)
        if collects:
            gc.enable()


def message_of(found: dict[str, Violation]) -> str:
    """What was found, with its evidence, a few of them."""
    lines = []
    for violation in list(found.values())[:SHOWN_MAX]:
        lines.append(f"{violation.finding}: {violation.headline}")
        lines += [f"    {each}" for each in violation.evidence]
    rest = list(found)[SHOWN_MAX:]
    return "\n".join([*lines, *([f"also: {', '.join(rest)}"] if rest else [])])


def _message(schedule: Trial, found: dict[str, Violation]) -> str:
    return (
        f"{schedule.lock} violates {', '.join(found)}\n{message_of(found)}\nin this schedule: "
        f"{describe(schedule)}\nreplay it with strategies.run(schedule), or keep it by @example(schedule):\n"
        f"from lab.api.strategies import Fault, Round, Trial, When\nschedule = {schedule!r}"
    )


def _must_exist(finding: str) -> None:
    known = (*FINDINGS, ERROR, HANG)
    if finding not in known:
        near = did_you_mean(finding, known)
        raise LabError(
            seen=f"the finding {finding!r}",
            where="assert_holds",
            expected="one of " + ", ".join(known),
            hint=f"did you mean {near!r}?" if near else "docs/findings.md lists them",
        )
