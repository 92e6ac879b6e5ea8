"""Real redis-servers for benchmarks: loopback, no proxy, no shim; ended when the block is left."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from lab import tools
from lab.addresses import Address
from lab.redis_model.persistence import Persistence
from lab.substrates.local.node import redis_command
from lab.substrates.local.processes import Nursery
from lab.substrates.probe import echo
from lab.substrates.real.ports import free_ports

READY_TIMEOUT_S = 30.0


@contextlib.asynccontextmanager
async def redis_nodes(
    count: int, persistence: Persistence = "none", parent: Path | None = None
) -> AsyncIterator[list[str]]:
    """Start `count` nodes that keep their files below `parent`; yield their addresses as "host:port".

    Raises:
        LabError: there is no redis-server.
        TimeoutError: a node did not answer in time.
    """
    server = tools.require("redis-server")
    with tempfile.TemporaryDirectory(prefix="lock-lab-bench-", dir=parent) as scratch:
        failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        nursery = Nursery(f"bench-{secrets.token_hex(6)}", Path(scratch), failed)
        try:
            ports = free_ports(count)
            for port in ports:
                directory = Path(scratch) / str(port)
                directory.mkdir()
                await nursery.start(f"node-{port}", redis_command(server, port, directory, persistence))
            async with asyncio.timeout(READY_TIMEOUT_S):
                for port in ports:
                    while not (await echo(Address("node", "127.0.0.1", port), 1.0)).reached:
                        await asyncio.sleep(0.01)
            yield [f"127.0.0.1:{port}" for port in ports]
        finally:
            await nursery.stop_all()


def machine_line() -> str:
    """The load of the machine, for the head of a table."""
    import os

    one, five, _ = os.getloadavg()
    return f"{os.cpu_count()} cores, load {one:.1f} (1 min), {five:.1f} (5 min)"
