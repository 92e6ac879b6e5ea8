"""One real redis-server on this machine, with a wall clock of its own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from lab.addresses import Address
from lab.redis_model.persistence import Persistence
from lab.servers import DEFAULT_SETTINGS, ServerSettings
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.processes import Child, Nursery
from lab.substrates.real.node import RedisNode, redis_arguments
from lab.substrates.real.ports import reserved


def redis_command(
    server: Path,
    port: int,
    directory: Path,
    persistence: Persistence,
    settings: ServerSettings = DEFAULT_SETTINGS,
) -> list[str]:
    """Return the command line of one node: loopback only."""
    return [str(server), *redis_arguments(port, "127.0.0.1", str(directory), persistence, settings)]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a node is started, and started again."""

    nursery: Nursery
    label: str
    command: list[str]
    environment: dict[str, str]
    directory: Path

    async def __call__(self, *more: str) -> Child:
        """Start it, with ``more`` arguments."""
        return await self.nursery.start(
            self.label, [*self.command, *more], environment=self.environment, directory=self.directory
        )


class LocalNode(RedisNode[Child]):
    """A node; ``address`` leads to it around every link."""

    def __init__(
        self,
        address: Address,
        launch: Launch,
        clock: LocalClock | None,
        disk: LocalDisk,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> None:
        super().__init__(address, clock, disk, settings)
        self._launch = launch
        self._port = contextlib.ExitStack()

    async def start(self) -> None:
        """Start the process; ready when it answers with the process id that we started, and has loaded."""
        self._disk.begin_life()
        master = self._replicates
        more = ("--replicaof", master.host, str(master.port)) if master is not None else ()
        child = self.child = await self._launch(*more)
        child.expected_end = True  # until it is ready: a lost race for its port is tried again
        await self._until_ready(child)
        if (await self.info("server")).get("process_id") != str(child.pid):
            await child.kill()  # a node that lives is not tried on another port
            await child.ended()
            raise self._not_ready(child, f"another process answers on port {self.address.port}")
        child.expected_end = False
        self._port.close()

    async def close(self) -> None:
        """Let go of the node and of its port."""
        self._port.close()
        await super().close()

    async def _is_down(self) -> None:
        """Its port is kept for when it comes back."""
        await super()._is_down()
        self._port.enter_context(reserved(self.address.port))
