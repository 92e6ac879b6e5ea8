"""The lab's own servers: what fails there ends a run and never hangs it, and their number is no failure."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab import tools
from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.run import run
from lab.run.request import RunRequest
from lab.substrates import toxiproxy
from lab.substrates.local import cluster as clusters
from lab.substrates.local.processes import STARTS_AT_ONCE, Child, Nursery
from lab.substrates.real.ports import free_ports


@asynccontextmanager
async def proxy(directory: Path) -> AsyncIterator[tuple[toxiproxy.ToxiproxyServer, Child]]:
    """A server of our own, ready."""
    nursery = Nursery("test-toxiproxy", directory, asyncio.get_running_loop().create_future())
    (port,) = free_ports(1)
    command: list[str | Path] = [tools.require("toxiproxy-server"), "-host", "127.0.0.1", "-port", str(port)]
    child = await nursery.start("toxiproxy", command)
    server = toxiproxy.ToxiproxyServer("127.0.0.1", port)
    try:
        while True:
            try:
                await server.version()
                break
            except UnknownOutcome:
                await asyncio.sleep(0.01)
        yield server, child
    finally:
        await nursery.stop_all()


def stopped(pid: int) -> bool:
    """Whether the signal has stopped it: that may take a moment."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T"


async def test_a_frozen_proxy_is_an_unknown_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy(tmp_path) as (server, child):
        monkeypatch.setattr(toxiproxy, "API_TIMEOUT_S", 0.5)
        child.signal_group(signal.SIGSTOP)
        while not stopped(child.pid):
            await asyncio.sleep(0.01)
        with pytest.raises(UnknownOutcome, match="frozen"):
            await server.call(lambda api: api.proxies())


async def test_many_links_are_asked_for_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each portion has the whole time-out, so their number makes nobody look frozen."""
    asked: list[object] = []
    async with proxy(tmp_path) as (server, _):
        call = server.call

        async def counted(action: Any, *, alone: bool = True) -> Any:
            asked.append(action)
            return await call(action, alone=alone)

        monkeypatch.setattr(server, "call", counted)
        monkeypatch.setattr(toxiproxy, "LINKS_PER_SERVER", 3)
        plans = [toxiproxy.LinkPlan(f"client-{n}", "A", Address("A", "127.0.0.1", 1)) for n in range(7)]
        links = await server.create_links(plans)
        assert len(asked) == 3
        assert [link.client for link in links] == [plan.client for plan in plans]
        assert {link.name for link in links} == set(await call(lambda api: api.proxies()))


@pytest.mark.full
def test_many_links_have_several_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its part of the links, and faults reach all of them."""
    monkeypatch.setattr(clusters, "LINKS_PER_SERVER", 5)
    result = run(RunRequest("partition-clockjump", seed=1, substrate="local", out=tmp_path))
    assert result.as_expected, result.explain()
    logs = sorted(path.name for path in (result.directory / "logs").glob("toxiproxy*"))
    assert logs == ["toxiproxy-2.log", "toxiproxy-3.log", "toxiproxy.log"], "twelve links, of which five fit"


async def test_the_lab_listens_while_many_processes_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = 0
    spawn = asyncio.create_subprocess_exec

    async def counted(*words: Any, **more: Any) -> Any:
        nonlocal started
        started += 1
        return await spawn(*words, **more)

    async def listen() -> None:
        while True:
            heard.append(started)
            await asyncio.sleep(0)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", counted)
    heard: list[int] = []
    nursery = Nursery("test-many", tmp_path, asyncio.get_running_loop().create_future())
    listening = asyncio.create_task(listen())
    try:
        await asyncio.gather(*(nursery.start(f"sleep-{n}", ["sleep", "60"]) for n in range(30)))
    finally:
        listening.cancel()
        await nursery.stop_all()
    between = [after - before for before, after in pairwise([0, *heard, started])]
    assert sum(between) == 30
    assert max(between) <= STARTS_AT_ONCE
