"""History in, verdict out: a sound checker for distributed locks.

    from checker import check, load

    verdict = check(load("history.jsonl"))
    verdict["mutual_exclusion"].outcome      # ok | violated | unknown

Names are imported on first use, so that reading one name costs no more than it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checker.decide import check
    from checker.errors import HistoryError
    from checker.formats import load, save
    from checker.history.events import Event, Params
    from checker.history.history import History
    from checker.linearizability.custom import IMPOSSIBLE, CustomModel, Operation, check_model
    from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, Verdict

__all__ = [
    "IMPOSSIBLE",
    "CustomModel",
    "Event",
    "Finding",
    "History",
    "HistoryError",
    "Operation",
    "Outcome",
    "Params",
    "Property",
    "PropertyVerdict",
    "Severity",
    "Verdict",
    "check",
    "check_model",
    "load",
    "save",
]

_HOME = {
    "check": "checker.decide",
    "HistoryError": "checker.errors",
    **dict.fromkeys(
        ("IMPOSSIBLE", "CustomModel", "Operation", "check_model"), "checker.linearizability.custom"
    ),
    "Event": "checker.history.events",
    "Params": "checker.history.events",
    "load": "checker.formats",
    "save": "checker.formats",
    "History": "checker.history.history",
    **dict.fromkeys(
        ("Finding", "Outcome", "Property", "PropertyVerdict", "Severity", "Verdict"), "checker.verdict"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'checker' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
