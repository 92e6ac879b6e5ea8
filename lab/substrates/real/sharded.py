"""A real Redis Cluster: masters that share the slots, and a replica of each.

Each node announces a loopback address, 127.77.0.node, and a host name
(``cluster-announce-ip``, ``cluster-announce-hostname``). For the cluster bus and for replication nodes pass
that address to getaddrinfo, and clients find the host name in MOVED, ASK and CLUSTER SLOTS
(``cluster-preferred-endpoint-type hostname``).
So each process resolves both to links of its own: see ``named.py``. Between two nodes there are four ways: to
the port for clients, by which a replica replicates, and to that of the bus, in either direction.

Each node keeps its ``nodes.conf`` over restarts: a master that was killed comes back, hears of the higher
epoch of the replica that took over, and becomes its replica.

Source: Redis documentation, "Redis cluster specification".
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.substrates.base import View
from lab.substrates.probe import closes, echo
from lab.substrates.real.cluster import C, N, S
from lab.substrates.real.machine import B
from lab.substrates.real.named import NamedLinks
from lab.substrates.real.node import RedisNode
from lab.substrates.sentinels import host_name, server_name
from lab.substrates.toxiproxy import ToxiproxyServer

SLOTS: Final = 16_384
KEYS_AT_ONCE: Final = 100
MIGRATE_TIMEOUT_MS: Final = 2000
AGREED_WITHIN_S: Final = 30.0
"""How long the nodes may take to find each other; it is some 1.5 s."""
POLL_S: Final = 0.02
# On the bus a node closes what does not begin with the signature of its messages; Valkey reads 14 bytes.
on_bus: Final = closes(b"\xff" * 16)
"""How a node is asked on its port for the cluster bus."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of CLUSTER NODES: a node as another one knows it.

    ``master_id`` is empty for a master. ``slots`` are the ranges that it serves, first and last. ``moves``
    are its slots that are being moved, if it is the one that was asked: slot, "to" or "from", the other's id.
    """

    node_id: str
    name: str
    flags: frozenset[str]
    master_id: str
    epoch: int
    linked: bool
    slots: tuple[tuple[int, int], ...]
    moves: tuple[tuple[int, str, str], ...] = ()

    @classmethod
    def parse(cls, line: str) -> Row:
        """Read a line. Raises ``UnknownOutcome``: it names no node of this cluster."""
        node_id, place, flags, master_id, _, _, epoch, link, *slots = line.split()
        ranges = [each.split("-") for each in slots if not each.startswith("[")]
        moves = re.findall(r"\[(\d+)(->-|-<-)(\w+)\]", " ".join(slots))
        return cls(
            node_id,
            server_name(place.split(",")[1]),
            frozenset(flags.split(",")),
            master_id.strip("-"),
            int(epoch),
            link == "connected",
            tuple((int(ends[0]), int(ends[-1])) for ends in ranges),
            tuple((int(slot), "to" if way == "->-" else "from", other) for slot, way, other in moves),
        )

    def serves(self, slot: int) -> bool:
        """Whether this node serves a slot."""
        return any(first <= slot <= last for first, last in self.slots)

    @property
    def held_down(self) -> bool:
        """Whether it is held to be down, by whoever was asked or by a majority of the masters."""
        return bool(self.flags & {"fail?", "fail"})


class RealShard(RedisNode[B]):
    """A node of a Redis Cluster."""

    slot: int
    """The slot of the lock's key."""

    async def rows(self) -> list[Row]:
        """``CLUSTER NODES``. Raises ``UnknownOutcome``, also while a node is known without its name."""
        text = await self.ask("CLUSTER", "NODES")
        if not isinstance(text, bytes):
            raise UnknownOutcome(f"node {self.name} answered CLUSTER NODES with {text!r}")
        try:
            return [Row.parse(line) for line in text.decode().splitlines()]
        except (IndexError, ValueError) as error:
            raise UnknownOutcome(f"node {self.name} answered CLUSTER NODES with {text!r}") from error

    async def view(self) -> View:
        """What ``CLUSTER NODES`` says of the slot of the lock's key."""
        rows = await self.rows()
        down = frozenset(row.name for row in rows if row.held_down)
        for row in rows:
            if row.serves(self.slot):
                return View(row.name, row.epoch, down)
        return View("", 0, down)

    async def node_id(self) -> str:
        """``CLUSTER MYID``."""
        answer = await self.ask("CLUSTER", "MYID")
        assert isinstance(answer, bytes)
        return answer.decode()

    async def keys_of_slot(self) -> int:
        """``CLUSTER COUNTKEYSINSLOT``."""
        answer = await self.ask("CLUSTER", "COUNTKEYSINSLOT", self.slot)
        assert isinstance(answer, int)
        return answer

    async def moves_slot(self) -> str:
        """What ``CLUSTER NODES`` says of the node itself."""
        rows = await self.rows()
        names = {row.node_id: row.name for row in rows}
        (own,) = (row for row in rows if "myself" in row.flags)
        return next((f"{way} {names[other]}" for slot, way, other in own.moves if slot == self.slot), "")

    async def start_failover(self, *, force: bool) -> None:
        """``CLUSTER FAILOVER``."""
        await self.ask("CLUSTER", "FAILOVER", *(("FORCE",) if force else ()))

    async def agrees(self, masters: Mapping[str, str | None]) -> bool:
        """Whether it serves, and knows which node replicates which master (None: it is one), none amiss."""
        try:
            rows = await self.rows()
            about = await self.ask("CLUSTER", "INFO")
        except UnknownOutcome:
            return False
        ids = {row.node_id: row.name for row in rows}
        known = {row.name: ids.get(row.master_id) for row in rows}
        amiss = any(row.held_down or not row.linked for row in rows)
        return known == masters and not amiss and isinstance(about, bytes) and b"cluster_state:ok" in about


class ShardedLinks(NamedLinks[N, S, C]):
    """Nodes that are one Redis Cluster; its masters serve equal parts of the slots, in order."""

    _bus_ports: dict[str, int]

    @property
    def _shards(self) -> dict[str, RealShard]:  # type: ignore[type-arg]
        return {name: node for name, node in self.nodes.items() if isinstance(node, RealShard)}

    def _announced(self, server: str) -> str:
        return f"127.77.0.{self._servers.index(server) + 1}"

    def _cluster_arguments(self, name: str, bus_port: int) -> list[str]:
        """What a node is started with besides."""
        self._bus_ports[name] = bus_port
        return [
            *("--cluster-enabled", "yes", "--cluster-port", str(bus_port)),
            *("--cluster-node-timeout", str(self._plan.node_timeout_ms)),
            *("--cluster-announce-ip", self._announced(name)),
            *("--cluster-announce-hostname", host_name(name)),
            *("--cluster-preferred-endpoint-type", "hostname"),
        ]

    async def _connect_all(self, proxies: Sequence[ToxiproxyServer]) -> None:
        """Make a link from every process to every node, then one Cluster of the nodes."""
        processes = (*self.clients, *self._servers)
        pairs = [(near, far) for near in processes for far in self._servers if near != far]
        between = [pair for pair in pairs if pair[0] in self._servers]
        addresses = {name: node.address for name, node in self.nodes.items()}
        buses = {name: Address(name, addresses[name].host, port) for name, port in self._bus_ports.items()}
        await self._make_links(
            proxies,
            [
                *[await self._way(near, addresses[far], echo) for near, far in pairs],
                *[await self._way(near, buses[far], on_bus, second=True) for near, far in between],
            ],
        )
        await self._unite()
        await self._prove_healthy()
        await self._learn_server()

    async def _unite(self) -> None:
        """Share the slots out, let the nodes meet, and let replicas replicate their masters."""
        shards, replicas = self._shards, self._plan.replicas
        masters = [name for name in shards if name not in replicas]
        for at, name in enumerate(masters):
            first, end = (SLOTS * each // len(masters) for each in (at, at + 1))
            await shards[name].ask("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
            await shards[name].ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        introducing, *others = shards.values()
        for each in others:
            place = self._announced(each.name), each.address.port, self._bus_ports[each.name]
            await introducing.ask("CLUSTER", "MEET", *place)
        await self._until_agreed(dict.fromkeys(shards))
        for replica, master in replicas.items():
            await shards[replica].ask("CLUSTER", "REPLICATE", await shards[master].node_id())
        await asyncio.gather(*(self._until_linked(*pair) for pair in replicas.items()))
        await self._until_agreed({name: replicas.get(name) for name in shards})
        for shard in shards.values():
            slot = await shard.ask("CLUSTER", "KEYSLOT", self._plan.lock_keys[0])
            assert isinstance(slot, int)
            shard.slot = slot
        self.shards = dict(shards)

    async def open_slot(self, to: str, *, with_keys: bool) -> None:
        """``CLUSTER SETSLOT IMPORTING`` and ``MIGRATING``, then ``MIGRATE`` for the keys of the slot."""
        taking = self._shards[to]
        giving = self._shards[(await taking.view()).master]
        await taking.ask("CLUSTER", "SETSLOT", taking.slot, "IMPORTING", await giving.node_id())
        await giving.ask("CLUSTER", "SETSLOT", taking.slot, "MIGRATING", await taking.node_id())
        while with_keys and (keys := await giving.ask("CLUSTER", "GETKEYSINSLOT", taking.slot, KEYS_AT_ONCE)):
            assert isinstance(keys, list)
            place = self._announced(to), taking.address.port
            await giving.ask("MIGRATE", *place, "", 0, MIGRATE_TIMEOUT_MS, "KEYS", *keys)

    async def assign_slot(self, to: str) -> None:
        """``CLUSTER SETSLOT NODE``, first at the new master, whose epoch rises by it, then at the others.

        A node that has heard of it already, or has keys of the slot left, may refuse; it hears it from the
        new master.
        """
        taking, node_id = self._shards[to], await self._shards[to].node_id()
        await taking.ask("CLUSTER", "SETSLOT", taking.slot, "NODE", node_id)
        for shard in self._shards.values():
            if shard is not taking and shard.alive:
                with contextlib.suppress(UnknownOutcome):
                    await shard.ask("CLUSTER", "SETSLOT", taking.slot, "NODE", node_id)

    async def _until_agreed(self, masters: Mapping[str, str | None]) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + AGREED_WITHIN_S
        for shard in self._shards.values():
            while not await shard.agrees(masters):
                if loop.time() > give_up:
                    raise UnknownOutcome(
                        f"node {shard.name} did not find its Redis Cluster within {AGREED_WITHIN_S:.0f} s",
                        hint=f"its log ends:\n{shard.running().tail(8)}",
                    )
                await asyncio.sleep(POLL_S)
