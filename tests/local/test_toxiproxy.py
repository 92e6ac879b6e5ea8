"""The proxy's own failures end a run; they never hang it."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from lab import tools
from lab.errors import UnknownOutcome
from lab.substrates import toxiproxy
from lab.substrates.local.processes import Nursery
from lab.substrates.real.ports import free_ports


async def test_a_frozen_proxy_is_an_unknown_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxiproxy, "API_TIMEOUT_S", 0.5)
    nursery = Nursery("test-frozen", tmp_path, asyncio.get_running_loop().create_future())
    (port,) = free_ports(1)
    command: list[str | Path] = [tools.require("toxiproxy-server"), "-host", "127.0.0.1", "-port", str(port)]
    child = await nursery.start("toxiproxy", command)
    server = toxiproxy.ToxiproxyServer("127.0.0.1", port)
    async with asyncio.timeout(10):
        while True:
            try:
                await server.version()
                break
            except UnknownOutcome:
                await asyncio.sleep(0.01)
    child.signal_group(signal.SIGSTOP)
    with pytest.raises(UnknownOutcome, match="frozen"):
        await server.call(lambda api: api.proxies())
    await nursery.stop_all()
