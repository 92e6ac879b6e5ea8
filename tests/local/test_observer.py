"""What an observer makes of keys that are no strings, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.run.observer import Observer
from lab.run.recorder import Recorder
from tests.local.conftest import RealNode

TTL_MS = 400


@pytest.mark.parametrize(
    "command", [("HSET", "k", "owner", 1), ("ZADD", "k", 1, "owner"), ("SADD", "k", "owner")]
)
async def test_a_key_of_any_type_is_awaited_without_asking_all_the_time(
    command: tuple[str | int, ...], nodes: list[RealNode], tmp_path: Path
) -> None:
    node = nodes[0]
    observer = Observer([node.address], "k", Recorder(tmp_path, {}))
    await observer.start()
    try:
        await node.control.call(*command)
        assert not await observer.until_gone(["A"], 0.05)
        await node.control.call("PEXPIRE", "k", TTL_MS)
        assert await observer.until_gone(["A"], 20)
        assert await node.control.call("EXISTS", "k") == 0
        asked = await node.control.call("INFO", "commandstats")
    finally:
        await observer.stop()
    gets = next(line for line in asked.decode().splitlines() if line.startswith("cmdstat_get:"))
    assert int(gets.split("calls=")[1].split(",")[0]) < TTL_MS / 10
