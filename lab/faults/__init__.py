"""The faults: one file for each step that breaks or mends something, through the ``Cluster`` protocol only.

``lab.scenario.registry`` finds the steps here by looking: a file that is here is there.
"""
