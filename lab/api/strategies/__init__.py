"""Hypothesis strategies for schedules of faults, and a state machine: properties of a lock of one's own.

::

    from hypothesis import given
    from lab import strategies

    @given(strategies.schedules("my_module:MyLock", clients=3, faults="safe"))
    def test_it_is_safe(schedule):
        strategies.run(schedule).assert_holds()

See ``docs/hypothesis.md``. The module imports Hypothesis, so nothing else of the lab imports it.
"""

from __future__ import annotations

from lab.api.strategies.drawing import SAFE_KINDS, faults, schedules
from lab.api.strategies.machine import LockMachine
from lab.api.strategies.options import lock_options
from lab.api.strategies.running import Ran, Violated, run, simulated
from lab.api.strategies.words import describe
from lab.examine.violations.judge import Violation
from lab.scenario.tracks import Timed
from lab.search.trial import Round, Trial

__all__ = [
    "SAFE_KINDS",
    "LockMachine",
    "Ran",
    "Round",
    "Timed",
    "Trial",
    "Violated",
    "Violation",
    "describe",
    "faults",
    "lock_options",
    "run",
    "schedules",
    "simulated",
]
