"""Hosts and nodes beside the one whose code runs in the simulation."""

from __future__ import annotations

import asyncio
from itertools import count

from lab.redis_model.persistence import Persistence
from lab.substrates.answering import Answering
from lab.substrates.sim.link import SimLink
from lab.substrates.sim.loop import HostLoop, host_with_loop
from lab.substrates.sim.node import PORT, SimNode


def here() -> HostLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HostLoop)
    return loop


def another(name: str) -> HostLoop:
    return host_with_loop(here().host.world, name, here().network)


async def linked_node(persistence: Persistence = "none", *, reads: bool = False) -> tuple[SimNode, SimLink]:
    """A node that runs, and a link to it, on which commands may be read."""
    numbers = count(1)
    node = SimNode("A", here().network, lambda: next(numbers), persistence)
    await node.start()
    way = node.reached_over("alice-A")
    if reads:
        way.read(here().host.world, Answering())
    return node, SimLink(way, "alice", "A", node.address.__class__("A", "alice-A", PORT))
