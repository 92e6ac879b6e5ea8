"""The faults: one file for each step that injects or ends one, through the ``Cluster`` protocol only.

``lab.scenario.registry`` imports all modules of this package, and so finds their steps.
"""
