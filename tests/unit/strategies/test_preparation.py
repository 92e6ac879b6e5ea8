"""This process while schedules run: clocks, chance and the collector are as before for everybody else."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import time

import pytest
from hypothesis import Phase, given, settings

from lab import strategies
from lab.api import prepared
from lab.api.strategies import Round, Trial, running
from tests.unit.strategies.locks import Mine

SCHEDULE = Trial("tests.unit.strategies.locks:Mine", {"alice": (Round(0, 10**9),), "bob": (Round(0, 10**9),)})


def test_a_test_that_uses_strategies_is_prepared_before_it_begins() -> None:
    assert prepared.is_prepared()


def test_an_example_is_prepared_while_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What draws does not count against the deadline of the example."""
    called: list[str] = []
    monkeypatch.setattr(prepared, "prepare", lambda: called.append("prepare"))

    @settings(max_examples=3, phases=[Phase.generate])
    @given(strategies.schedules())
    def example(schedule: Trial) -> None:
        called.append("body")

    example()
    assert called[:2] == ["prepare", "body"]


def test_chance_and_time_are_those_of_the_simulation_for_the_lock_alone() -> None:
    Mine.drawn.clear()
    random.seed(5)
    state, before = random.getstate(), time.monotonic()
    strategies.run(SCHEDULE)
    assert random.getstate() == state
    assert time.monotonic() - before < 500  # the simulated clock shows a thousand seconds and more
    first = list(Mine.drawn)
    Mine.drawn.clear()
    random.seed(6)
    strategies.run(SCHEDULE)
    assert Mine.drawn == first
    assert len(set(first)) == len(first) > 1


OUTSIDE = """
import gc, time, types
from lab import strategies
from lab.api import prepared
from lab.api.strategies import Round, Trial, running
schedule = Trial("redlock", {"alice": (Round(0, 10**9),)})
def shown():
    return prepared.is_prepared(), isinstance(time.monotonic, types.BuiltinFunctionType), gc.isenabled()
found = [shown()]
strategies.run(schedule)
found.append(shown())
with strategies.simulated():
    with strategies.simulated():
        found.append(shown())
    strategies.run(schedule)
    found.append(shown())
found.append(shown())
print(found == [(False, True, True)] * 2 + [(True, False, True)] * 2 + [(False, True, True)], found)
"""


def reported(program: str) -> str:
    """What a program prints in a process of its own."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.full
def test_outside_of_a_test_everything_is_as_it_was_after_each_run() -> None:
    assert reported(OUTSIDE).startswith("True"), reported(OUTSIDE)
    assert gc.isenabled()


def test_lab_alone_imports_no_hypothesis() -> None:
    shown = 'print("hypothesis" in sys.modules, "lab.search" in sys.modules)'
    assert reported(f"import sys, lab; import lab.api.pytest_plugin; {shown}") == "False False"
    assert reported(f"import sys, lab; lab.strategies.schedules; {shown}") == "True True"


def test_hypothesis_tracer_is_off_while_a_schedule_runs_and_any_other_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before Python 3.12 it slows a run down five times, and examples miss their deadline."""
    during: list[object] = []

    def nothing_found(_: object) -> dict[str, object]:
        during.append(sys.gettrace())
        return {}

    monkeypatch.setattr(running, "violations", nothing_found)

    def trace(*_: object) -> None:
        """See nothing."""

    for module, expected in (("hypothesis.internal.scrutineer", None), ("coverage.pytracer", trace)):
        trace.__module__ = module
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            strategies.run(SCHEDULE)
            assert sys.gettrace() is trace
        finally:
            sys.settrace(before)
        assert during.pop() is expected
