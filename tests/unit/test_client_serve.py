"""What a client records of its lock's stalls, and what it does when it cannot write down what it saw."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any

import pytest

from lab.addresses import Address
from lab.client.serve import _beat, serve
from lab.client_protocol import Answer, Command, Setup
from lab.locks.base import Surroundings


class Deaf:
    """A line on which nothing is told; what broke is kept."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def command(self) -> Command | None:
        return None

    def answer(self, answer: Answer) -> None:
        raise AssertionError(answer)

    def note(self, error: Exception) -> None:
        raise AssertionError(error)

    def broke(self, error: Exception) -> None:
        self.errors.append(error)


async def test_a_stall_that_cannot_be_recorded_ends_the_client() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    async def stalled() -> None:
        raise full

    line = Deaf()
    await _beat(line, stalled())
    assert line.errors == [full]


async def test_to_be_told_to_stop_is_no_failure() -> None:
    line = Deaf()
    beating = asyncio.create_task(_beat(line, asyncio.sleep(60)))
    await asyncio.sleep(0)
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    assert beating.cancelled()
    assert line.errors == []


async def test_stalls_of_a_lock_with_a_process_of_its_own_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Made(BaseException):
        """Enough is known."""

    def build(nodes: object, options: object, around: Surroundings, owner: str) -> None:
        assert around.stalled is not None
        around.stalled(5, 7)
        raise Made

    monkeypatch.setattr("lab.client.serve.lock_class", lambda _: SimpleNamespace(build=build))
    recorded: list[dict[str, Any]] = []
    setup = Setup("alice", "k", "mine", 10**9, {}, [], Address("store", "127.0.0.1", 1), False, True, "", 0)
    with pytest.raises(Made):
        await serve(setup, Deaf(), recorded.append, record_clock_ns=lambda: 12)
    assert [(each["f"], each["start_ns"], each["duration_ns"]) for each in recorded] == [("stall", 5, 7)]
