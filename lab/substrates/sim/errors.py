"""What goes wrong in a simulation that is not a fault of the scenario."""

from __future__ import annotations

from lab.errors import ExitCode, LabError, UnknownOutcome


class SimulationError(UnknownOutcome):
    """Simulated code reached out of the simulation, or the simulation cannot go on; the run is unknown."""


class NotModelled(LabError):
    """A lock needs what simulated nodes do not have: what comes of it there says nothing about it."""

    exit_code: int = ExitCode.UNKNOWN
