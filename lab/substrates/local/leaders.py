"""Who leads the servers of a service: asked around all links, and settled before the first step."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from lab.addresses import Address
from lab.substrates.base import LEADER, Service

ASKED_WITHIN_S: Final = 2.0
FOLLOWER: Final = "follower"
ALONE: Final = "alone"
"""It knows no leader, or does not answer."""

NO_ANSWER: Final = (OSError, TimeoutError, ValueError, KeyError)
"""What comes of asking one that is down, or has no answer yet."""

Asked = Callable[[Address], Awaitable[str]]


async def _etcd(address: Address) -> str:
    with contextlib.suppress(*NO_ANSWER):
        status = await _ask_etcd(address, "status")
        leader = status.get("leader", "0")
        if leader != "0":
            return LEADER if leader == status["header"]["member_id"] else FOLLOWER
    return ALONE


async def _zookeeper(address: Address) -> str:
    with contextlib.suppress(*NO_ANSWER):
        answer = await _ask(address, b"srvr")
        for word in (LEADER, FOLLOWER):
            if f"Mode: {word}".encode() in answer:
                return word
    return ALONE


async def _postgres(_: Address) -> str:
    return LEADER  # there is only one


ROLES: Final[dict[Service, Asked]] = {"etcd": _etcd, "zookeeper": _zookeeper, "postgres": _postgres}
"""How a server of each kind is asked for its role: leader, follower or alone."""


def deciders(service: Service, size: int) -> int:
    """How many of the servers choose the first leader.

    ZooKeeper's choose the one with the largest number among those who are there, so a majority chooses alone.
    Those of etcd stand for election at any time, and who is not let in disturbs the others when he comes.
    """
    return size // 2 + 1 if service == "zookeeper" else size


async def let_lead(service: Service, first: Address, others: Sequence[Address]) -> None:
    """Ask for the leadership to be handed to ``first``, where that can be asked; it need not come of it."""
    if service != "etcd":
        return
    with contextlib.suppress(*NO_ANSWER):
        wanted = (await _ask_etcd(first, "status"))["header"]["member_id"]
        for address in others:
            if await _etcd(address) == LEADER:
                await _ask_etcd(address, "transfer-leadership", targetID=wanted)


async def _ask_etcd(address: Address, call: str, **fields: str) -> dict[str, Any]:
    body = json.dumps(fields)
    head = f"POST /v3/maintenance/{call} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    answer: dict[str, Any] = json.loads(
        (await _ask(address, (head + body).encode())).partition(b"\r\n\r\n")[2]
    )
    return answer


async def _ask(address: Address, words: bytes) -> bytes:
    """Send ``words`` and read until the end."""
    async with asyncio.timeout(ASKED_WITHIN_S):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        try:
            writer.write(words)
            return await reader.read()
        finally:
            writer.close()
