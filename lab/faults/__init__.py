"""The faults: one file for each kind, acting through the ``Cluster`` protocol only."""

from __future__ import annotations

from typing import Any

from lab.faults.base import Fault
from lab.faults.client_crash import ClientCrashFault
from lab.faults.clock import DriftFault, JumpFault, StrobeFault
from lab.faults.down import CrashFault, PowerCutFault, ShutdownFault
from lab.faults.links import CutFault, HoldFault
from lab.faults.pause import PauseFault
from lab.faults.promote import PromoteFault
from lab.faults.slow import BandwidthFault, DelayFault, ResetFault
from lab.scenario.step_base import StepModel
from lab.scenario.step_link import Bandwidth, Cut, Delay, Hold, Reset
from lab.scenario.step_machine import (
    ClientCrash,
    Crash,
    Drift,
    Jump,
    Pause,
    PowerCut,
    Promote,
    Shutdown,
    Strobe,
)

FAULTS: dict[type[StepModel], Fault[Any]] = {
    Cut: CutFault(),
    Hold: HoldFault(),
    Delay: DelayFault(),
    Bandwidth: BandwidthFault(),
    Reset: ResetFault(),
    Pause: PauseFault(),
    Jump: JumpFault(),
    Drift: DriftFault(),
    Strobe: StrobeFault(),
    Crash: CrashFault(),
    Shutdown: ShutdownFault(),
    PowerCut: PowerCutFault(),
    ClientCrash: ClientCrashFault(),
    Promote: PromoteFault(),
}
"""Which fault each injecting step is; ``heal``, ``resume``, ``correct`` and ``restart`` end them."""
