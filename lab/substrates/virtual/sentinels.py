"""Real Redis Sentinels in virtual time: names, and a door per (process, server).

Servers announce names, and each process resolves them by a preload library to loopback addresses of its own,
as on the local substrate. There the conductor has a door for each link.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from lab import tools
from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.redis_model.persistence import Persistence
from lab.servers import ServerSettings
from lab.shims import NAMES_VARIABLE
from lab.substrates.base import STORE
from lab.substrates.peers import PeerWay, links_between
from lab.substrates.plan import ClusterPlan, SentinelPlan
from lab.substrates.probe import echo
from lab.substrates.sentinels import AskedSentinel, announced, directives, host_name, pairs, pong
from lab.substrates.sim.network import Network
from lab.substrates.virtual.cluster import VirtualCluster
from lab.substrates.virtual.ends import Door
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.node import VirtualNode
from lab.substrates.virtual.session import Session
from lab.substrates.virtual.template import ServerProgram
from lab.substrates.virtual.world import VirtualWorld

PORT: Final = 6379
SENTINEL_PORT: Final = 26379
"""The same in every run: Sentinels publish them, and a history has what they publish."""
NETS: Final = range(128, 251)
"""The loopback networks 127.x.0.0 of which each run uses one, so that runs side by side do not meet."""


class NamedNode(VirtualNode):
    """A node with a configuration file, which others know by a name."""

    COPIED: ClassVar[bool] = False
    port: ClassVar[int] = PORT
    """By which others know it; its doors have it."""

    def __init__(
        self,
        machine: RealMachine,
        network: Network,
        program: ServerProgram,
        process_ids: Iterator[int],
        session: Session | None,
        names_shim: Path,
    ) -> None:
        super().__init__(machine, network, program, process_ids, session)
        self._names_shim = names_shim
        self.names_file = self._disk.directory.with_suffix(".names")
        self._file = self._disk.directory.with_suffix(".conf")

    def _environment(self, preloaded: dict[str, str]) -> dict[str, str]:
        given = super()._environment(preloaded)
        return {
            **given,
            "LD_PRELOAD": f"{self._names_shim}:{given['LD_PRELOAD']}",
            NAMES_VARIABLE: str(self.names_file),
        }

    def _command(self) -> list[str]:
        program, *arguments = super()._command()
        self._file.touch()
        return [program, str(self._file), *arguments, *announced(self.name, self.port)]

    async def follow(self, master: Address, *, now: bool) -> None:
        """REPLICAOF, which is also written into its configuration file."""
        await self.ask("REPLICAOF", master.host, master.port)
        await self.ask("CONFIG", "REWRITE")


class VirtualSentinel(AskedSentinel, NamedNode):
    """One Sentinel, a redis-server in Sentinel mode."""

    port: ClassVar[int] = SENTINEL_PORT

    def configure(self, directives: Sequence[str]) -> None:
        """Write its configuration file, which it rewrites itself."""
        self._file.write_text("".join(f"{line}\n" for line in directives))

    def _command(self) -> list[str]:
        lines = [line for line in self._file.read_text().splitlines() if not line.startswith("unixsocket ")]
        self.configure([*lines, f"unixsocket {self._socket}"])
        return [str(self._program.server), str(self._file), "--sentinel"]

    async def reported_time_ns(self) -> int:
        """Its clock itself: it has no TIME."""
        await self.acting()
        return self.host.clock.wall_ns()


class VirtualSentinelCluster(VirtualCluster):
    """A master, its replicas, and the Sentinels that watch them."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        super().__init__(plan, run_id, log_dir)
        assert plan.sentinels is not None
        self._sentinel_plan: SentinelPlan = plan.sentinels
        self._named: dict[str, NamedNode] = {}
        self._watching: dict[str, VirtualSentinel] = {}
        self._names_shim = tools.require("names-shim")

    def _node(
        self, name: str, server: Path, persistence: Persistence, sync: Path | None, settings: ServerSettings
    ) -> VirtualNode:
        if name == STORE:
            return super()._node(name, server, persistence, sync, settings)
        for sentinel in () if self._watching else self._sentinel_plan.names:
            program = ServerProgram(sentinel, server, "none", None, ServerSettings())
            self._watching[sentinel] = VirtualSentinel(*self._made_of(program))
        program = ServerProgram(name, server, persistence, sync, settings)
        self._named[name] = NamedNode(*self._made_of(program))
        return self._named[name]

    def _made_of(
        self, program: ServerProgram
    ) -> tuple[RealMachine, Network, ServerProgram, Iterator[int], Session | None, Path]:
        machine = self._machine(program.name)
        return machine, self._network, program, self._process_ids, self._session, self._names_shim

    async def _start(self, targets: Sequence[VirtualNode]) -> None:
        """Make a link from every process to every server, then start the nodes, then the Sentinels."""
        await self._world.outside(self._make_links)
        await VirtualNode.start_together(targets)
        followed = self._plan.replicas.items()
        await asyncio.gather(*(self._named[one].replicate(_named(of)) for one, of in followed))
        self.sentinels = dict(self._watching)
        await asyncio.gather(*(sentinel.start() for sentinel in self._watching.values()))
        for sentinel in self._watching.values():
            await sentinel.until_agreed(len(followed), len(self._watching) - 1)

    def _make_links(self) -> None:
        servers: dict[str, NamedNode] = {**self._named, **self._watching}
        machines = {name: client.machine for name, client in self.clients.items()}
        machines |= {name: server.machine for name, server in servers.items()}
        hosts = free_hosts(self._world)
        ways: dict[tuple[str, str], PeerWay] = {}
        reached = pairs(self.clients, tuple(self._named), tuple(self._watching))
        for near, far in reached:
            server, ping = servers[far], pong if far in self._watching else echo
            host = next(hosts)
            door = Door(machines[near], self._network, host, server.port)
            link = self._made_link(machines[near], server, door, ping)
            ways[near, far] = PeerWay(near, far, link, ping, server.address)
            machines[near].names[host_name(far)] = host
            if near in self.clients:
                self._network.resolve(near, host_name(far), host)
                self._links[near, far] = link
        for server in servers.values():
            server.machine.write_names(server.names_file)
        self._links |= links_between(tuple(servers), ways)
        for client in self.clients.values():
            self._connect(client.machine, self.store_node)
        (master,) = set(self._plan.nodes) - set(self._plan.replicas)
        for name, sentinel in self._watching.items():
            lines = directives(self._sentinel_plan, name, sentinel.port, _named(master))
            sentinel.configure(["port 0", *lines])


def free_hosts(world: VirtualWorld) -> Iterator[str]:
    """Loopback addresses that no other world uses while this one lasts. Raises ``UnknownOutcome``."""
    for net in NETS:
        taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            taken.bind((f"127.{net}.0.1", PORT))
            taken.listen()
        except OSError:
            taken.close()
            continue
        world.at_end.append(taken.close)
        return (f"127.{net}.{number >> 8}.{number & 255}" for number in range(256, 1 << 16))
    raise UnknownOutcome(
        "every loopback network is in use", expected=f"one of 127.{NETS[0]} to 127.{NETS[-1]}"
    )


def _named(node: str) -> Address:
    """Where processes find a node, by its name."""
    return Address(node, host_name(node), PORT)
