"""A verdict compared with what its scenario expects: what differs, what is unknown, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from checker import Outcome, Verdict
from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import F, Status
from checker.words import in_words
from lab.analysis.metrics import Measures
from lab.analysis.outcomes import unlike
from lab.errors import ExitCode
from lab.scenario.model import Expect, Scenario

TRIES_PER_GRANT: Final = 100
"""A workload with fewer grants than one in so many tries may have been starved."""
HELD_SHARE_MIN: Final = 0.1
"""If a lock was held for a larger share of the time in which clients asked for it, it was not."""
LIVENESS: Final = ("deadlock_freedom", "fault_tolerance")
"""A scenario that expects one of these violated expects refusals."""
MUST_HAPPEN: Final = ("violated", "found")
"""Expectations of an event; a busy machine can keep it from happening."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One property, finding or operation that differs from the expectation."""

    what: str
    expected: str
    seen: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs from the expectation, and why anything in it is unknown."""

    mismatches: tuple[Mismatch, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether an unexpected violation was seen: certain even if the run was aborted afterwards."""
        return any(mismatch.seen == Outcome.VIOLATED for mismatch in self.mismatches)

    @property
    def exit_code(self) -> ExitCode:
        """An unexpected violation decides: it is certain, whatever else is unknown.

        Otherwise unknown comes first, even if an expected violation was seen: whether the rest is as expected
        is not known. Then come expectations that were not met.
        """
        if self.is_certain:
            return ExitCode.UNEXPECTED
        if self.unknown:
            return ExitCode.UNKNOWN
        return ExitCode.UNEXPECTED if self.mismatches else ExitCode.EXPECTED


def compare(verdict: Verdict, history: History, scenario: Scenario) -> Comparison:
    """Compare the verdict on a history, and the outcomes of its operations, with what the scenario expects.

    An expected event that did not happen is unknown if a client was refused after a stall of its process.
    """
    mismatches, unknown = compare_properties(verdict, scenario.expect)
    operations = tuple(Mismatch(*each) for each in unlike(history, scenario))
    mismatches += operations
    not_done = any(mismatch.expected == "ok" for mismatch in operations)
    if not_done or any(mismatch.expected in MUST_HAPPEN for mismatch in mismatches):
        unknown += tuple(refusals_in_stalls(history))
    return Comparison(mismatches, unknown)


def starved(measures: Measures, verdict: Verdict, scenario: Scenario) -> Iterator[str]:
    """Why the run of a workload decides next to nothing: hardly any of its tries was granted.

    Fewer than one in ``TRIES_PER_GRANT``, and not since clients held the lock for long: it was in use for
    less than ``HELD_SHARE_MIN`` of the time. Then few critical sections met a try of another client, and that
    nothing was violated says little. A violation that was seen stays one, expected or not: such a run is not
    vacuous, nor is one that is expected to be unavailable.
    """
    held = measures.held_share
    idle = held is not None and held < HELD_SHARE_MIN
    refusing = any(
        name in LIVENESS and expected == "violated" for name, expected in scenario.expect.outcomes.items()
    )
    violated = any(seen.outcome is Outcome.VIOLATED for seen in verdict.properties.values())
    few = 0 < measures.grants * TRIES_PER_GRANT < measures.attempts
    if few and idle and not (refusing or violated):
        tries = f"{measures.grants} of {measures.attempts} tries {'was' if measures.grants == 1 else 'were'}"
        yield (
            f"the workload was starved: {tries} granted, and a lock was held for {held:.1%} of the time, "
            f"which decides next to nothing; fewer clients (there are {len(scenario.clients)}), more keys "
            "(workload.keys) or a longer workload.think_time let more be granted"
        )


def compare_properties(verdict: Verdict, expect: Expect) -> tuple[tuple[Mismatch, ...], tuple[str, ...]]:
    """Return what differs from the expectation, and why anything in it is unknown.

    A property that the scenario does not mention must at least not be violated, unless it is in `either`.
    """
    mismatches: list[Mismatch] = []
    unknown = list(verdict.unknown_reasons)
    expected = {str(name): str(outcome) for name, outcome in expect.outcomes.items()}
    for name, seen in verdict.properties.items():
        wanted = expected.get(str(name))
        if wanted is None:
            if seen.outcome is Outcome.VIOLATED and str(name) not in expect.either:
                mismatches.append(Mismatch(str(name), "not violated", "violated"))
        elif seen.outcome is Outcome.UNKNOWN and wanted != Outcome.UNKNOWN:
            unknown.append(f"{name}: {seen.why}")
        elif seen.outcome != wanted:
            mismatches.append(Mismatch(str(name), str(wanted), str(seen.outcome)))
    found = {finding.name for finding in verdict.findings}
    mismatches += [
        Mismatch(f"finding {name}", "found", "not found")
        for name in expect.findings or ()
        if name not in found
    ]
    return tuple(mismatches), tuple(dict.fromkeys(unknown))


def refusals_in_stalls(history: History) -> Iterator[str]:
    """Which clients were refused after a stall that the nemesis did not cause: their time-outs had passed.

    That an event did not happen because of such a refusal says nothing about the lock.
    """
    evidence = Evidence(history)
    ops, pauses = evidence.ops, evidence.pauses()
    for row in np.flatnonzero((ops.f == F.ACQUIRE) & (ops.status == Status.FAIL)).tolist():
        client, call_ns, return_ns = evidence.client(row), int(ops.call_ns[row]), int(ops.return_ns[row])
        for stall in history.stalls:
            asked = any(
                p.start_ns <= stall.end_ns and stall.start_ns <= p.end_ns for p in pauses.get(client, ())
            )
            if stall.client == client and stall.start_ns < return_ns and call_ns < stall.end_ns and not asked:
                stalled = in_words(stall.end_ns - stall.start_ns)
                yield (
                    f"{client} was refused at {evidence.at(return_ns)} after its process had stalled for "
                    f"{stalled} on a busy machine: that alone may have prevented the expected event"
                )
                break
