"""Real redis-servers for tests: started without a shell, ended by their own ids."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import tools
from lab.addresses import Address
from lab.channel import Channel
from lab.processes import processes_of
from lab.substrates.local.node import redis_command
from lab.substrates.local.processes import Child, Nursery
from lab.substrates.real.ports import free_ports


@dataclass
class RealNode:
    """One running redis-server and the test's own connection to it."""

    address: Address
    child: Child
    control: Channel

    async def get(self, key: str) -> str | None:
        """The key's value, seen around everything."""
        value = await self.control.call("GET", key)
        return None if value is None else value.decode()

    def stop(self) -> None:
        """Let it stand still: requests wait in its socket."""
        self.child.signal_group(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.child.signal_group(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self.child.expected_end = True
        self.child.signal_group(signal.SIGKILL)


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[RealNode]]:
    """Five redis-servers, all answering."""
    run_id = f"test-{secrets.token_hex(6)}"
    nursery = Nursery(run_id, tmp_path, asyncio.get_running_loop().create_future())
    server = tools.require("redis-server")
    started = []
    for name, port in zip("ABCDE", free_ports(5), strict=True):
        directory = tmp_path / name
        directory.mkdir()
        child = await nursery.start(name, redis_command(server, port, directory, "none"))
        address = Address(name, "127.0.0.1", port)
        control = Channel(address, connect_timeout_s=2.0, stale_after_s=60.0)
        started.append(RealNode(address, child, control))
    for node in started:
        while node.child.running:
            try:
                await node.control.connect()
                break
            except Exception:  # noqa: BLE001 - until it listens
                await asyncio.sleep(0.01)
        assert node.child.running, f"node {node.address.name} has ended: was its port taken meanwhile?"
    yield started
    for node in started:
        await node.control.close()
    await nursery.stop_all()
    assert processes_of(run_id) == []
