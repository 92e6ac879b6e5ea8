"""How an observer comes back to a node that was away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lab.addresses import Address
from lab.channel import NodeError, Reply
from lab.run.monitor import Monitor
from lab.run.observer import RETRY_MAX_S, Observer
from lab.run.recorder import Recorder
from lab.substrates.sim.simulate import simulate
from tests.sim.hosts import here, linked_node

AWAY_S = 60.0
SOON_NS = 15_000_000


def test_a_node_that_is_away_is_tried_now_and_then_and_at_once_when_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0
    enter = Monitor.__aenter__

    async def counted(self: Monitor) -> Monitor:
        nonlocal tries
        tries += 1
        return await enter(self)

    monkeypatch.setattr(Monitor, "__aenter__", counted)

    async def work() -> None:
        node, _ = await linked_node()
        observer = Observer([node.address], "k", Recorder(tmp_path, {}))
        await observer.start()
        for away_s in (AWAY_S, AWAY_S + RETRY_MAX_S / 3, AWAY_S + RETRY_MAX_S / 1.5):
            before = tries
            await node.kill()
            await asyncio.sleep(away_s)
            assert away_s / RETRY_MAX_S / 2 < tries - before < away_s / RETRY_MAX_S + 10
            await node.start()
            back_ns = here().host.clock.monotonic_ns()
            assert await observer.until_watching(["A"], 1)
            assert here().host.clock.monotonic_ns() - back_ns < SOON_NS
        await observer.stop()

    simulate(work, 1)


async def test_who_is_cancelled_while_a_node_answers_with_an_error_is_cancelled(tmp_path: Path) -> None:
    """Else `until_gone` asked for ever for a key of another type, whose time was over meanwhile."""
    watch = Observer([Address("A", "127.0.0.1", 1)], "k", Recorder(tmp_path, {})).watches["A"]
    replies: list[asyncio.Future[Reply]] = []

    def post(*_: object) -> asyncio.Future[Reply]:
        replies.append(asyncio.get_running_loop().create_future())
        return replies[-1]

    watch._channel.post = post  # type: ignore[method-assign]
    looking = asyncio.create_task(watch.observe())
    await asyncio.sleep(0)
    replies[0].set_exception(NodeError("WRONGTYPE Operation against a key holding the wrong kind of value"))
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert len(replies) == 3, "nothing more is asked"
    assert all(reply.done() for reply in replies)
