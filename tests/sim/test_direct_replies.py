"""Replies on the direct wire: told at once, and what that sets off happens as in any event loop."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Any

import pytest

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.search.direct import DIRECT
from lab.substrates.sim.simulate import simulate
from tests.sim.hosts import another

pytestmark = pytest.mark.usefixtures("_patched")


def test_a_timer_that_a_reply_sets_goes_off() -> None:
    async def work() -> list[Any]:
        loop, seen = another("bob"), list[Any]()

        def heard(reply: Any) -> None:
            seen.append(reply)
            loop.call_later(0.5, seen.append, "timer")

        loop.host.world.after(1, loop.on_reply, deque([(heard, 0.0)]), "reply")
        await asyncio.sleep(1)
        return seen

    assert simulate(work, 1) == ["reply", "timer"]


def test_a_reply_comes_before_timers_of_its_instant_and_they_before_what_it_sets_off() -> None:
    async def work() -> list[Any]:
        loop, seen = another("bob"), list[Any]()

        def heard(reply: Any) -> None:
            seen.append(reply)
            loop.call_soon(seen.append, "soon")

        when_s = float(math.ceil(loop.time()) + 1)
        due_ns = loop.host.clock.world_ns(int(when_s) * 1_000_000_000)
        loop.host.world.at(due_ns, loop.on_reply, deque([(heard, 0.0)]), "reply")
        loop.call_at(when_s, seen.append, "timer")
        await asyncio.sleep(3)
        return seen

    assert simulate(work, 1) == ["reply", "timer", "soon"]


def test_who_connects_to_nobody_is_told() -> None:
    async def work() -> None:
        channel = Channel(
            Address("A", "nowhere", 1), connect_timeout_s=None, stale_after_s=1.0, transport=DIRECT
        )
        with pytest.raises(NodeError, match="cannot connect to A: no such address"):
            await channel.connect()

    simulate(work, 1)


def test_a_reply_over_a_connection_that_was_closed_meanwhile_is_told_to_nobody() -> None:
    async def work() -> list[Any]:
        loop, seen = another("bob"), list[Any]()
        waiting = deque([(seen.append, 0.0)])
        loop.host.pause()
        loop.on_reply(waiting, "reply")
        waiting.clear()
        loop.host.resume()
        await asyncio.sleep(1)
        return [*seen, *loop.troubles]

    assert simulate(work, 1) == []
