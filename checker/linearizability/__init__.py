"""Whether the answers of a lock can be put in one order that a mutex allows: without search where
possible.
"""

from __future__ import annotations

from checker.linearizability.check import MODELS, Assumptions, check_linearizability
from checker.linearizability.result import Result

__all__ = ["MODELS", "Assumptions", "Result", "check_linearizability"]
