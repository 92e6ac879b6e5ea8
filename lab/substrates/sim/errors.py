"""What goes wrong in a simulation that is not a fault of the scenario."""

from __future__ import annotations

from lab.errors import UnknownOutcome


class SimulationError(UnknownOutcome):
    """Simulated code reached out of the simulation, or the simulation cannot go on; the run is unknown."""
