"""Which of the causes that are seen in a trial can have led to its violation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.examine import naming
from lab.examine.detector import Cause
from lab.examine.evidence import Evidence, Operation
from lab.examine.judge import Violation
from lab.examine.naming import causes_of
from lab.examine.programs import ALICE, BOB, PROGRAMS, Setting
from lab.search.command import OPTIONS
from lab.search.runner import run_trial
from lab.search.trial import Fault, When

pytestmark = pytest.mark.usefixtures("_patched")

WAITS, NOT_SERVED = "waits-too-long", "unavailable"
CONTEND = next(each for each in PROGRAMS if each.name == "contend")


def cut(client: str, nodes: str) -> tuple[Fault, ...]:
    return (Fault("cut", When("asks", BOB), client, tuple(nodes)),)


def crash(nodes: str) -> tuple[Fault, ...]:
    return tuple(Fault("crash", When("asks", BOB), nodes=(node,)) for node in nodes)


def drift(nodes: str) -> tuple[Fault, ...]:
    return tuple(Fault("drift", When(), nodes=(node,), ppm=8000) for node in nodes)


@pytest.mark.parametrize(
    ("faults", "kind", "finding", "clients", "by_operation", "named"),
    [
        pytest.param(cut(BOB, "ABC"), WAITS, NOT_SERVED, (ALICE,), True, False, id="in vain, cut off"),
        pytest.param(crash("ABC"), WAITS, NOT_SERVED, (ALICE,), True, False, id="in vain, all down"),
        pytest.param(cut(ALICE, "ABC"), WAITS, NOT_SERVED, (ALICE,), True, True, id="another is cut off"),
        pytest.param(drift("ABC"), WAITS, NOT_SERVED, (ALICE,), True, True, id="their clocks drift"),
        pytest.param(cut(BOB, "AB"), WAITS, NOT_SERVED, (ALICE,), True, True, id="a majority is there"),
        pytest.param((), WAITS, NOT_SERVED, (ALICE,), True, True, id="all are there"),
        pytest.param(cut(BOB, "ABC"), WAITS, NOT_SERVED, (ALICE, BOB), True, True, id="it is its own"),
        pytest.param(cut(BOB, "ABC"), WAITS, "leak", (ALICE,), True, True, id="another finding"),
        pytest.param(cut(BOB, "ABC"), "leaves-keys", NOT_SERVED, (ALICE,), True, True, id="another cause"),
        pytest.param(cut(BOB, "ABC"), WAITS, NOT_SERVED, (ALICE,), False, True, id="nobody knows who"),
    ],
)
def test_who_waits_in_vain_for_a_majority_keeps_nobody_else_waiting(
    faults: tuple[Fault, ...],
    kind: str,
    finding: str,
    clients: tuple[str, ...],
    by_operation: bool,
    named: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another cause of the same detector is named then."""

    def detector(evidence: Evidence) -> Iterator[Cause]:
        waiting = next(each for each in evidence.operations if (each.client, each.f) == (BOB, "acquire"))
        assert isinstance(waiting, Operation)
        yield Cause(kind, "Bob waits", by=waiting if by_operation else None)
        yield Cause("no-expiry", "a key stays")

    monkeypatch.setitem(naming.ORDER, finding, (detector,))
    outcome = run_trial(Setting("redlock", OPTIONS).trial(CONTEND, faults, demand=False), watch=True)
    found = causes_of(outcome, Violation(finding, "of a test", clients=clients))
    assert [each.kind for each in found] == [kind if named else "no-expiry"]
