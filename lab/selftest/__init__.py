"""The self-tests: the lab must catch every broken lock (``lab.locks.broken``), and accuse no correct one.

A mutant counts as caught only by the finding that is declared for it, in a scenario in which the real lock is
clean. That the real lock is not accused within its assumptions is tested with many simulated schedules that
are drawn from a seed, and with runs of the lab's own scenarios on real servers. The scenarios are tested too:
which of their steps can be left out without a difference that they expect?
"""
