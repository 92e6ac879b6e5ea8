"""Why a finding holds: the shortest part of the history that shows it, and the argument step by step.

The form is that of Elle (K. Kingsbury, P. Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
Observations", VLDB 2020): because …, however …, a contradiction.
"""

from __future__ import annotations

from checker.explanations.argument import Explanation, explain, explanations

__all__ = ["Explanation", "explain", "explanations"]
