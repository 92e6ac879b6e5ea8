"""From a history and its scenario to everything that is said of a run: checked, compared, measured."""

from __future__ import annotations

import logging
from typing import NamedTuple

from checker.check import check
from checker.history.history import History
from checker.verdict import Verdict
from lab.analysis.belief import CrossCheck, cross_check
from lab.analysis.comparison import Comparison, compare
from lab.analysis.metrics import Measures, measure
from lab.scenario.model import Scenario


class Analysis(NamedTuple):
    """The verdict on a history, the comparison with what was expected, and what decides nothing."""

    verdict: Verdict
    comparison: Comparison
    measures: Measures | None
    """How soon and how often the lock was got; of a workload only."""
    belief: CrossCheck | None
    """What the clients believed against where their tokens lay."""


def analyse(history: History, scenario: Scenario) -> Analysis:
    """Check a history and hold the verdict against what the scenario expects; nothing is written."""
    verdict = check(history)
    measures = measure(history) if scenario.workload is not None else None
    return Analysis(verdict, compare(verdict, history, scenario), measures, _cross_check(history, scenario))


def _cross_check(history: History, scenario: Scenario) -> CrossCheck | None:
    """Hold belief against truth; it decides nothing, and must not cost the verdict if it fails."""
    try:
        return cross_check(history, one_master=bool(scenario.cluster.replicas))
    except Exception:
        logging.getLogger("lab").exception("belief and truth could not be compared; the verdict stands")
        return None
