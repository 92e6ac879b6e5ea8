"""The lab tests itself: it must catch every broken lock (``lab.locks.broken``), and accuse no real one.

A mutant is caught only by the finding that it must give, in a story in which the real lock is clean. That the
real lock is not accused within its assumptions is a matter of numbers: simulated schedules that are drawn
from a seed, and runs of the lab's own stories on real servers. The scenarios are tested in the same way: what
can be left out of one without any difference to what it expects?
"""
