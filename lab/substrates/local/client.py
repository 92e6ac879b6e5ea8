"""One client as a real process on this machine."""

from __future__ import annotations

import asyncio
import sys

from lab.substrates.local.clock import LocalClock
from lab.substrates.local.processes import Child, Nursery
from lab.substrates.real.client import ProcessClient


class LocalClient(ProcessClient[Child]):
    """A child process of ours, whose stdin and stdout are pipes; ``loading`` limits how many load at once."""

    def __init__(
        self,
        name: str,
        nursery: Nursery,
        clock: LocalClock,
        loading: asyncio.Semaphore,
        environment: dict[str, str],
    ) -> None:
        super().__init__(name, clock)
        self._loading = loading
        self._nursery = nursery
        self.environment = environment

    async def launch(self) -> None:
        """Start the process, so that it imports what it needs while the rest of the cluster comes up."""
        async with self._loading:
            self.child = await self._nursery.start(
                f"client-{self.name}",
                [sys.executable, "-m", "lab.client"],
                environment=self.environment,
                talks=True,
            )
            await self.loaded()

    async def _say(self, line: bytes) -> None:
        stdin = self.running().process.stdin
        assert stdin is not None
        stdin.write(line)
        await stdin.drain()

    async def _hear(self) -> bytes:
        stdout = self.running().process.stdout
        assert stdout is not None
        return await stdout.readline()
