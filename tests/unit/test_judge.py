"""What a busy machine kept from happening is unknown, and never a lock's merit or fault."""

from __future__ import annotations

import pytest

from checker import check
from lab.analysis.analyse import analyse
from lab.analysis.comparison import refusals_in_stalls, starved
from lab.analysis.metrics import measure
from lab.errors import ExitCode
from lab.scenario.files import shipped
from lab.scenario.load import load_scenario
from lab.scenario.model import Scenario
from lab.servers import Server
from tests.unit.checker.builder import HistoryBuilder


def refused(how: str = "fail") -> HistoryBuilder:
    """Alice holds the lock; Bob is refused between 100 and 900 ms."""
    return HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 100, 900, how)


def test_a_refusal_in_a_stall_is_reported() -> None:
    (why,) = refusals_in_stalls(refused().stall("bob", 200, 600).stall("bob", 820, 60).history())
    assert all(fact in why for fact in ("bob was refused", "0.90 s", "600 ms"))


@pytest.mark.parametrize(
    "builder",
    [
        refused(),
        refused().stall("alice", 200, 600),
        refused().stall("bob", 20, 60),
        refused().stall("bob", 950, 60),
        refused("ok").stall("bob", 200, 600),
        refused().stall("bob", 200, 600).fault("pause", 190, ["bob"], until=810),
    ],
    ids=["no stall", "another's", "before", "after", "granted", "paused"],
)
def test_nothing_else_is(builder: HistoryBuilder) -> None:
    assert list(refusals_in_stalls(builder.history())) == []


MS_NS = 1_000_000
END_MS = 10_000


def contended(refusals: int, *, holds_ms: int = 50, grants: int = 1) -> HistoryBuilder:
    """Alice is granted the lock now and then, for a while; Bob and Carol always ask at once, in vain."""
    builder = HistoryBuilder()
    for grant in range(grants):
        granted = grant * (END_MS // grants)
        builder.acquire("alice", f"g{grant}", granted, granted + 5)
        builder.release("alice", f"g{grant}", granted + 5 + holds_ms, granted + 6 + holds_ms)
    for at in range(refusals):
        since, tries_ms = at * END_MS / refusals, 2 * END_MS / refusals - 1
        who = "bob" if at % 2 else "carol"
        builder.acquire(who, f"r{at}", since, since + tries_ms, "fail", refused_by=0)
    return builder


def workload(**expected: str) -> Scenario:
    """Of a scenario that expects no violation, but for ``expected``."""
    scenario = load_scenario(shipped("chaos-control")).scenario
    expect = scenario.expect.model_copy(update=expected)
    return scenario.model_copy(update={"expect": expect})


def why_starved(builder: HistoryBuilder, scenario: Scenario | None = None) -> list[str]:
    history = builder.history()
    return list(starved(measure(history), check(history), scenario or workload()))


def test_a_workload_of_which_hardly_any_try_was_granted_was_starved() -> None:
    (why,) = why_starved(contended(478))
    assert "1 of 479 tries was granted" in why
    assert "a lock was held for 0.5% of the time" in why
    assert "clients" in why
    history = contended(478).history()
    comparison = analyse(history, workload(), Server("redis", "7.0.15")).comparison
    assert comparison.exit_code == ExitCode.UNKNOWN
    assert why in comparison.unknown


@pytest.mark.parametrize(
    "builder",
    [contended(98), contended(478, grants=5), contended(478, holds_ms=1500), contended(0)],
    ids=["one in 99", "five in 483", "held for long", "nobody else tried"],
)
def test_other_workloads_were_not(builder: HistoryBuilder) -> None:
    assert why_starved(builder) == []


def test_a_violation_is_never_taken_back() -> None:
    """Nor is a scenario vacuous that expects refusals."""
    violated = contended(478).acquire("dave", "other", 8, 9).release("dave", "other", 50, 51)
    assert check(violated.history())["mutual_exclusion"].violations
    assert why_starved(violated) == []
    assert why_starved(contended(478), workload(fault_tolerance="violated")) == []
