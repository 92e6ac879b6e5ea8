"""What a client does when it cannot write down what it saw."""

from __future__ import annotations

import asyncio
import errno

from lab.client.serve import _beat
from lab.client_protocol import Answer, Command


class Deaf:
    """A line on which nothing is told; what broke is kept."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    async def command(self) -> Command | None:
        return None

    def answer(self, answer: Answer) -> None:
        raise AssertionError(answer)

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
