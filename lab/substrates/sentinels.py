"""Redis Sentinels, real or simulated: the names of servers, who reaches whom, and what the lab asks itself.

Sentinel tells clients and other servers where the master is, so everybody is told the same place, and a link
behind that place could not know who comes. So every server announces a name instead of an address, and each
process finds a link of its own behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, cast

import hiredis

from lab.addresses import SENTINEL_SERVICE, Address
from lab.errors import UnknownOutcome
from lab.substrates.asked import AskedNode
from lab.substrates.base import Life, Probe, Role, View
from lab.substrates.plan import SentinelPlan
from lab.substrates.probe import question

AGREED_WITHIN_S: Final = 20.0
"""How long Sentinels may take to find each other and the replicas; it is some 2 s."""
POLL_S: Final = 0.02
pong: Final = question(b"PING\r\n", lambda heard: heard.startswith(b"+PONG"))
"""How a Sentinel is asked: it has no ECHO."""


def host_name(server: str) -> str:
    """The name by which processes know a server: A is ``node-a``, S1 is ``sentinel-1``."""
    return f"sentinel-{server[1:]}" if len(server) > 1 else f"node-{server.lower()}"


def server_name(host: str) -> str:
    """The server that has this name. Raises ``UnknownOutcome``: none has."""
    kind, _, which = host.partition("-")
    if kind not in ("node", "sentinel") or not which:
        raise UnknownOutcome(f"a server names the server {host!r}, which is none of this cluster")
    return which.upper() if kind == "node" else f"S{which}"


def pairs(clients: Iterable[str], nodes: Sequence[str], sentinels: Sequence[str]) -> list[tuple[str, str]]:
    """Who reaches which server by a link: every process every server, but a node asks no Sentinel."""
    return [
        (near, far)
        for near in (*clients, *nodes, *sentinels)
        for far in (*nodes, *sentinels)
        if near != far and not (near in nodes and far in sentinels)
    ]


def announced(name: str, port: int) -> list[str]:
    """The arguments of a real node that announces its name."""
    return ["--replica-announce-ip", host_name(name), "--replica-announce-port", str(port)]


def directives(plan: SentinelPlan, name: str, port: int, master: Address) -> list[str]:
    """What the configuration file of a real Sentinel says of this: who it is, and what it watches."""
    return [
        "set-proc-title no",  # as for nodes
        "sentinel resolve-hostnames yes",
        "sentinel announce-hostnames yes",
        f"sentinel announce-ip {host_name(name)}",
        f"sentinel announce-port {port}",
        f"sentinel monitor {SENTINEL_SERVICE} {master.host} {master.port} {plan.quorum}",
        f"sentinel down-after-milliseconds {SENTINEL_SERVICE} {plan.down_after_ms}",
        f"sentinel failover-timeout {SENTINEL_SERVICE} {plan.failover_timeout_ms}",
    ]


class AskedSentinel(AskedNode):
    """A Sentinel that answers ``ask``; ``address`` leads to it around every link."""

    async def probe(self, timeout_s: float) -> Probe:
        """PING on a connection of its own, around all links."""
        return await pong(self.address, timeout_s)

    async def echoes(self) -> None:  # type: ignore[override]
        """None: it does not count probes."""

    async def life(self) -> Life:
        """``INFO server``; it keeps no keys."""
        server = await self.info("server")
        return Life(server["run_id"], int(server["process_id"]), None)

    async def role(self) -> Role:
        """It takes no part in the replication."""
        return Role("sentinel", 0, linked=True)

    async def view(self) -> View:
        """``SENTINEL MASTER``, ``REPLICAS`` and ``SENTINELS``."""
        master = await self._rows("MASTER")
        others = [*await self._rows("REPLICAS"), *await self._rows("SENTINELS")]
        down = frozenset(server_name(row["ip"]) for row in (*master, *others) if "s_down" in row["flags"])
        return View(server_name(master[0]["ip"]), int(master[0]["config-epoch"]), down)

    async def start_failover(self, *, force: bool) -> None:
        """``SENTINEL FAILOVER``."""
        await self.ask("SENTINEL", "FAILOVER", SENTINEL_SERVICE)

    async def agrees(self, replicas: int, sentinels: int) -> bool:
        """Whether it hears the master, and so many replicas and other Sentinels, and nothing is amiss."""
        (master,), copies = await self._rows("MASTER"), await self._rows("REPLICAS")
        others = await self._rows("SENTINELS")
        return (
            (len(copies), len(others)) == (replicas, sentinels)
            and master["flags"] == "master"
            and all(row["flags"] == "slave" and row["master-link-status"] == "ok" for row in copies)
            and all(row["flags"] == "sentinel" for row in others)
        )

    async def heard(self) -> AsyncIterator[tuple[str, str]]:
        """``PSUBSCRIBE *``, until the connection ends: when the Sentinel does."""
        reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        try:
            writer.write(b"PSUBSCRIBE *\r\n")
            replies = hiredis.Reader(encoding="utf-8", errors="replace")
            while data := await reader.read(65_536):
                replies.feed(data)
                while isinstance(reply := replies.gets(), list):
                    if reply[0] == "pmessage":
                        yield reply[2], reply[3]
        finally:
            writer.close()

    async def _rows(self, what: str) -> list[dict[str, str]]:
        """What it answers to a SENTINEL command on the master: one row of names and values, or several."""
        answer = await self.ask("SENTINEL", what, SENTINEL_SERVICE)
        if not isinstance(answer, list):
            raise UnknownOutcome(f"{self.name} answered SENTINEL {what} with {answer!r}")
        rows = cast(list[list[bytes]], [answer] if what == "MASTER" else answer)
        return [_pairs(row) for row in rows]

    async def until_agreed(self, replicas: int, sentinels: int) -> None:
        """Wait until it ``agrees``. Raises ``UnknownOutcome``."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + AGREED_WITHIN_S
        while not await self.agrees(replicas, sentinels):
            if loop.time() > give_up:
                raise UnknownOutcome(
                    f"{self.name} did not find the replicas and the other Sentinels "
                    f"within {AGREED_WITHIN_S:.0f} s"
                )
            await asyncio.sleep(POLL_S)


def _pairs(row: list[bytes]) -> dict[str, str]:
    words = [word.decode(errors="replace") for word in row]
    return dict(zip(words[::2], words[1::2], strict=True))
