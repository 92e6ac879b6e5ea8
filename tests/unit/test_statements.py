"""What a run is said to have shown: exit code, first line, belief line, and what clients record for it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from checker import Outcome, Property, PropertyVerdict, Verdict
from lab.analysis.belief import CrossCheck
from lab.analysis.comparison import Comparison, compare_properties
from lab.client.log import Recording
from lab.client.worker import Worker
from lab.client_protocol import Command
from lab.errors import ExitCode
from lab.locks.base import Lease, LeaseLost, NotAcquired
from lab.report.belief import belief_lines
from lab.report.terminal import print_result
from lab.run.result import RunResult
from lab.scenario.model import Expect
from lab.store import StoreClient
from tests.unit.checker.builder import MS, HistoryBuilder

EXCLUSION, DEADLOCK = Property.MUTUAL_EXCLUSION, Property.DEADLOCK_FREEDOM


def judged(
    seen: dict[Property, str], expected: dict[str, str], unknown: tuple[str, ...] = ()
) -> tuple[ExitCode, str]:
    """The exit code, and what is printed, of a run with these outcomes."""
    properties = {name: PropertyVerdict(name, Outcome(outcome), "why") for name, outcome in seen.items()}
    verdict = Verdict(properties, unknown)
    result = RunResult(Path(), "history", verdict, compared(verdict, expected))
    text = io.StringIO()
    print_result(Console(file=text, width=200), result)
    return result.exit_code, text.getvalue()


def compared(verdict: Verdict, expected: dict[str, str]) -> Comparison:
    return Comparison(*compare_properties(verdict, Expect.model_validate(expected)))


def test_a_violation_that_nobody_expected_decides_whatever_else_is_unknown() -> None:
    code, text = judged({EXCLUSION: "unknown", DEADLOCK: "violated"}, {"mutual_exclusion": "ok"})
    assert code == ExitCode.UNEXPECTED
    assert "NOT as expected" in text
    assert "proves nothing" not in text
    aborted = judged(
        {DEADLOCK: "violated"}, {"mutual_exclusion": "ok"}, ("the harness failed: gone (event 9)",)
    )
    assert aborted[0] == ExitCode.UNEXPECTED


def test_a_violation_that_was_expected_leaves_the_rest_to_be_decided() -> None:
    expected = {"mutual_exclusion": "ok", "deadlock_freedom": "violated"}
    code, text = judged({EXCLUSION: "unknown", DEADLOCK: "violated"}, expected)
    assert code == ExitCode.UNKNOWN
    assert "UNKNOWN: not everything that was expected could be decided" in text


def test_a_run_of_which_nothing_is_known_proves_nothing() -> None:
    code, text = judged({EXCLUSION: "unknown", DEADLOCK: "unknown"}, {"mutual_exclusion": "ok"})
    assert code == ExitCode.UNKNOWN
    assert "UNKNOWN: this run proves nothing" in text


def test_a_violation_is_a_headline_with_its_evidence_below() -> None:
    builder = (
        HistoryBuilder().acquire("alice", "a", 0, 10, ttl=10_000).acquire("bob", "b", 20, 30, ttl=10_000)
    )
    verdict = builder.verdict()
    text = io.StringIO()
    result = RunResult(Path(), "history", verdict, compared(verdict, {"fencing": "absent"}))
    print_result(Console(file=text, width=200), result)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert lines[0] == "history: NOT as expected"
    at = next(i for i, line in enumerate(lines) if line.startswith("  mutual exclusion"))
    assert lines[at] == "  mutual exclusion   VIOLATED  alice and bob both held 'k' for at least 9.9 s"
    assert lines[at + 1] == (
        "      alice: guaranteed until 9.98 s (its TTL ends then at the earliest) · bob: acquired at 30 ms"
    )


def test_grants_that_cannot_be_observed_are_listed_by_reason() -> None:
    lines = belief_lines(CrossCheck(5, 3, (), 0, 1, 2, without_token=1, shared_token=3))
    assert [text for _, text in lines] == [
        "2 grants of other keys than the observed one",
        "1 grant without a token in the history",
        "3 grants with a token that other grants have too",
    ]


class Refusing:
    """A lock that fails in one way."""

    announces_token = False

    def __init__(self, error: Exception, *, believes: bool = True) -> None:
        self._error, self._believes = error, believes

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        if isinstance(self._error, NotAcquired):
            raise self._error
        return Lease(key, "t", ttl_ns, 10**15)

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        raise self._error

    def believes(self, lease: Lease) -> bool:
        return self._believes


async def recorded(lock: Any, *verbs: Any) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    recording = Recording("alice", events.append, lambda: 0)
    store = StoreClient("127.0.0.1", 1, checks_fences=False, timeout_s=1.0)
    about: dict[str, Any] = {"key": "k", "ttl_ns": 1_000 * MS, "check_before_write": False}
    worker = Worker(recording, lock, store, clock_ns=lambda: 0, **about)
    for number, verb in enumerate(verbs):
        await worker.run(Command(number, verb))
    return events


@pytest.mark.parametrize("refused_by", [3, 0])
async def test_a_client_records_how_many_nodes_refused(refused_by: int) -> None:
    events = await recorded(Refusing(NotAcquired("2 of 5", ["t"], refused_by=refused_by)), "acquire")
    assert (events[-1]["type"], events[-1]["refused_by"], events[-1]["error"]) == (
        "fail",
        refused_by,
        "2 of 5",
    )


@pytest.mark.parametrize(("believes", "said"), [(True, "yes"), (False, "no")])
async def test_a_client_records_what_it_believes_after_a_failed_extension(believes: bool, said: str) -> None:
    events = await recorded(Refusing(LeaseLost("late"), believes=believes), "acquire", "extend")
    assert (events[-1]["f"], events[-1]["type"], events[-1]["value"]) == ("extend", "info", said)
