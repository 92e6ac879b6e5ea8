"""From a history and its scenario to the analysis of a run: checked, compared, measured."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, NamedTuple

from checker import check
from checker.history.history import History
from checker.verdict import Verdict
from lab.analysis.belief import CrossCheck, cross_check
from lab.analysis.comparison import Comparison, compare, starved
from lab.analysis.lacking import lacking
from lab.analysis.metrics import Measures, measure
from lab.scenario.model import Scenario
from lab.servers import Server

NO_SERVER: Final = "the expectation depends on the server, and the record does not say which one it was"


class Analysis(NamedTuple):
    """The verdict on a history, its comparison with the expectation, and figures that decide nothing."""

    verdict: Verdict
    comparison: Comparison
    measures: Measures | None
    """How soon and how often the lock was acquired; of a workload only."""
    belief: CrossCheck | None
    """The clients' belief windows compared with the presence of their tokens on the nodes."""


def analyse(history: History, scenario: Scenario, server: Server | None) -> Analysis:
    """Check a history and compare the verdict with what the scenario expects; nothing is written.

    ``server`` is what the nodes were. If that is not known and the expectation depends on it, the comparison
    is unknown. If they lack something that the lock used, nothing differs from the expectation and all is
    unknown: what else was seen may have come of that. So is a workload that was starved.
    """
    verdict = check(history)
    measures = measure(history) if scenario.workload is not None else None
    comparison = compare(verdict, history, scenario.on(server))
    if measures is not None:
        reasons = tuple(starved(measures, verdict, scenario))
        comparison = replace(comparison, unknown=(*comparison.unknown, *reasons))
    if server is None and scenario.expect.server is not None:
        comparison = replace(comparison, unknown=(*comparison.unknown, NO_SERVER))
    if lacks := tuple(lacking(history, server)):
        comparison = Comparison(unknown=lacks)
    return Analysis(verdict, comparison, measures, _cross_check(history, scenario))


def _cross_check(history: History, scenario: Scenario) -> CrossCheck | None:
    """Compare belief with key presence; it decides nothing, so an error in it must not cost the verdict."""
    try:
        return cross_check(history, one_master=bool(scenario.cluster.replicas) or scenario.cluster.sharded)
    except Exception:
        logging.getLogger("lab").exception("belief and key presence were not compared; the verdict stands")
        return None
