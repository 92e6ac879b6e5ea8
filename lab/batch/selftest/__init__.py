"""The lab tests itself: it must catch every broken lock (``lab.locks.broken``), and accuse no real one.

A mutant is caught only by the finding that it must give, in a story in which the real lock is clean. That the
real lock is not accused within its assumptions is a matter of numbers: simulated schedules that are drawn
from a seed, and runs of the lab's own stories on real servers.
"""

from __future__ import annotations

from lab.batch.selftest.model import Innocence, Row, Selftest

__all__ = ["Innocence", "Row", "Selftest"]
