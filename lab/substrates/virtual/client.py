"""One client: its work loop on a simulated host, its driver a real process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lab.substrates.sim.client import SimClient
from lab.substrates.sim.machine import SimMachine
from lab.substrates.sim.network import Network
from lab.substrates.virtual.loop import VirtualLoop
from lab.substrates.virtual.machine import RealMachine


class WithProcesses(SimMachine):
    """A simulated machine on which real processes run: they share its pauses and its clock."""

    machine: RealMachine

    async def pause(self) -> None:
        """Stop stepping it, and wake and feed none of its processes."""
        await super().pause()
        self.machine.hold()

    async def resume(self) -> None:
        """Go on."""
        await super().resume()
        self.machine.go_on()

    def clock_changed(self) -> None:
        """Its processes have the host's wall clock."""
        self.machine.set_clock()


class VirtualClient(WithProcesses, SimClient):
    """A client of a run."""

    def __init__(
        self,
        loop: VirtualLoop,
        machine: RealMachine,
        network: Network,
        process_id: int,
        log: Path,
        failed: asyncio.Future[str],
    ) -> None:
        super().__init__(loop, network, process_id, log, failed)
        self.machine = machine
        self._is_over = False

    def close(self) -> None:
        """Let go of it when the run is over; its machine's processes are left to the cluster."""
        self._is_over = True
        super().close()

    def _end(self) -> None:
        if not self._is_over:
            self.machine.kill()
        super()._end()
