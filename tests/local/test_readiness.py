"""When a node counts as ready: a server that loads its data, and one that is too old to start."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lab import tools
from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.errors import UnknownOutcome
from lab.processes import processes_of
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.node import Launch, LocalNode, redis_command
from lab.substrates.local.processes import Nursery
from lab.substrates.probe import echo
from lab.substrates.real.ports import free_ports

KEYS = 5000
FILL = "for number = 1, ARGV[1] do redis.call('SET', 'key-' .. number, 'x') end"
"""One command, so that the file is synced once: 5,000 commands take a busy disk more than the lab waits."""
SLOWLY = ("--key-load-delay", "500")
"""A setting for Redis' own tests: so many microseconds for each key. It listens after every 1024th."""

TOO_OLD = """#!/bin/sh
cat <<'END'

*** FATAL CONFIG FILE ERROR (Redis 6.0.16) ***
Reading the configuration file, at line 2
>>> 'set-proc-title "no"'
Bad directive or wrong number of arguments
END
exit 1
"""
"""What a Redis 6.0.16 says to the lab's settings."""


@pytest.fixture
async def nursery(tmp_path: Path) -> AsyncIterator[Nursery]:
    """Starts processes, and ends them after the test."""
    run_id = f"test-{secrets.token_hex(6)}"
    made = Nursery(run_id, tmp_path, asyncio.get_running_loop().create_future())
    yield made
    await made.stop_all()
    assert processes_of(run_id) == []


def node(nursery: Nursery, server: Path, disk: LocalDisk, *more: str) -> LocalNode:
    """A node with an append-only file on that disk."""
    directory = disk.directory
    (port,) = free_ports(1)
    command = [*redis_command(server, port, directory, "aof-always"), *more]
    launch = Launch(nursery, "node-A", command, {}, directory)
    return LocalNode(Address("A", "127.0.0.1", port), launch, None, disk)


@pytest.mark.full
async def test_a_node_is_ready_when_it_has_loaded_its_data(nursery: Nursery, tmp_path: Path) -> None:
    server, disk = tools.require("redis-server"), LocalDisk(tmp_path / "data", None)
    first = node(nursery, server, disk)
    await first.start()
    await first.ask("EVAL", FILL, 0, KEYS)
    await first.kill()
    await first.close()
    again = node(nursery, server, disk, *SLOWLY)
    starting = asyncio.create_task(again.start())
    refused = await _refused_while_loading(again.address, starting)
    await starting
    assert (await again.life()).keys == KEYS
    assert refused, "it was asked while it loaded"
    await again.close()


async def _refused_while_loading(address: Address, starting: asyncio.Task[None]) -> bool:
    """Whether the server said that it loads, before the lab took it for ready."""
    refused = False
    channel = Channel(address, connect_timeout_s=2.0, stale_after_s=10.0)
    while not starting.done():
        try:
            await channel.call("DBSIZE")
        except NodeError as error:
            refused = refused or "LOADING" in str(error)
        await asyncio.sleep(0.005)
    await channel.close()
    return refused


async def test_a_server_that_is_too_old_is_named(nursery: Nursery, tmp_path: Path) -> None:
    server = tmp_path / "redis-server"
    server.write_text(TOO_OLD)
    server.chmod(0o755)
    old = node(nursery, server, LocalDisk(tmp_path / "data", None))
    with pytest.raises(UnknownOutcome) as caught:
        await old.start()
    assert "Redis 6.0.16 does not know the setting" in caught.value.seen
    assert "Redis 6.2 or later, or Valkey" in caught.value.seen
    assert not (await echo(old.address, 0.5)).reached
    await old.close()


async def test_a_server_that_ends_shows_the_end_of_its_log(nursery: Nursery, tmp_path: Path) -> None:
    server = tmp_path / "redis-server"
    server.write_text("#!/bin/sh\necho 'Out of memory'\nexit 1\n")
    server.chmod(0o755)
    broken = node(nursery, server, LocalDisk(tmp_path / "data", None))
    with pytest.raises(UnknownOutcome, match="it ended; its log ends: Out of memory"):
        await broken.start()
    await broken.close()


async def test_what_is_still_being_started_at_the_end_is_ended_too(tmp_path: Path) -> None:
    run_id = f"test-{secrets.token_hex(6)}"
    nursery = Nursery(run_id, tmp_path, asyncio.get_running_loop().create_future())
    first = await nursery.start("first", ["sleep", "600"])
    others = [asyncio.create_task(nursery.start(f"other-{n}", ["sleep", "600"])) for n in range(12)]
    await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)  # most of them still wait for their turn
    await nursery.stop_all()
    ends = await asyncio.gather(*others, return_exceptions=True)
    assert not first.running
    assert processes_of(run_id) == []
    assert any(isinstance(end, UnknownOutcome) for end in ends), "some came too late"
    with pytest.raises(UnknownOutcome, match="are being ended"):
        await nursery.start("later", ["sleep", "600"])


async def test_a_port_that_another_server_answers_on_is_given_up(nursery: Nursery, tmp_path: Path) -> None:
    server = tools.require("redis-server")
    first = node(nursery, server, LocalDisk(tmp_path / "first", None))
    await first.start()
    taken, disk = Address("B", "127.0.0.1", first.address.port), LocalDisk(tmp_path / "second", None)
    command = redis_command(server, taken.port, disk.directory, "none")
    second = LocalNode(taken, Launch(nursery, "node-B", command, {}, disk.directory), None, disk)
    with pytest.raises(UnknownOutcome, match="did not become ready"):
        await second.start()
    assert not second.alive
    await second.close()
    await first.close()
