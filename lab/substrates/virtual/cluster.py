"""The ``virtual`` substrate's cluster: real servers and drivers, simulated links, one virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path

from lab import tools
from lab.addresses import Address
from lab.redis_model.persistence import Persistence
from lab.servers import ServerSettings, replication_links
from lab.substrates.base import STORE
from lab.substrates.parts import Parts
from lab.substrates.peers import PeerLink
from lab.substrates.plan import ClusterPlan
from lab.substrates.probe import Ping, echo
from lab.substrates.real.disk import SYNCS
from lab.substrates.run_files import RunFile
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.host import Host
from lab.substrates.sim.loop import HostLoop
from lab.substrates.virtual.client import VirtualClient
from lab.substrates.virtual.drivers import DriverMachine, end_drivers
from lab.substrates.virtual.ends import Door
from lab.substrates.virtual.link import VirtualLink
from lab.substrates.virtual.loop import VirtualLoop
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.node import VirtualNode
from lab.substrates.virtual.process import CopiedProcess, await_ends
from lab.substrates.virtual.session import SESSION
from lab.substrates.virtual.template import ServerProgram
from lab.substrates.virtual.world import VirtualWorld

FIRST_PROCESS_ID = 100


class VirtualCluster(Parts[VirtualNode, VirtualNode, VirtualClient, VirtualLink | PeerLink]):
    """Must be made on a host of a ``VirtualWorld``: its parts live in that world."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, HostLoop) or not isinstance(loop.network.world, VirtualWorld):
            raise SimulationError("a cluster in virtual time outside its world")
        super().__init__(plan)
        self._run_id, self._log_dir = run_id, log_dir
        self._world, self._network = loop.network.world, loop.network
        self._session = SESSION if SESSION.serves(self._world.conductor) else None
        self._servers: list[RealMachine] = []
        self._drivers: list[DriverMachine] = []
        self._process_ids = count(FIRST_PROCESS_ID)
        self._run_file: RunFile | None = None
        self._world.on_violation = self._violated

    async def up(self) -> None:
        """Start everything and prove every link healthy."""
        self._world.at_end.append(self._end_processes)
        if self._session is None:
            self._run_file = RunFile(self._run_id, self._world.conductor.scratch)
        require = tools.require if self._session is None else self._session.tool
        found: list[Path] = []
        conductor, wanted = self._world.conductor, self._plan.server
        # Outside, because in a world no code of a host may start a process, to ask for its version.
        await self._world.outside(lambda: found.append(conductor.redis_server(wanted)))
        (server,) = found
        sync = require("sync-shim") if SYNCS & self._plan.needs else None
        for name in self._plan.clients:
            self.clients[name] = self._client(name)
        kept, settings = self._plan.persistence, self._plan.settings
        self.nodes = {name: self._node(name, server, kept, sync, settings) for name in self._plan.nodes}
        self.store_node = self._node(STORE, server, "none", None, ServerSettings())
        targets = [*self.nodes.values(), self.store_node]
        await self._start(targets)
        await self._prove_healthy()
        await self._learn_server()

    async def _start(self, targets: Sequence[VirtualNode]) -> None:
        """Start the servers, make the links, and let replicas follow their masters."""
        await VirtualNode.start_together(targets)
        await self._world.outside(partial(self._connect_all, targets))
        await self._replicate_by_links(self.nodes)

    async def down(self) -> None:
        """End every process, also if the world never comes to its end, unless others may use it again."""
        self._world.on_violation = None
        for client in self.clients.values():
            client.close()
        if self._session is None:
            self._end_processes()

    def _end_processes(self) -> None:
        """End every process; a driver that is as good as new is kept, if the run has not failed."""
        servers, self._servers = self._servers, []
        drivers, self._drivers = self._drivers, []
        running = [process for machine in servers for process in machine.processes]
        for process in running:
            process.kill_group()  # all of them, before one is waited for
        await_ends([each.popen for each in running if isinstance(each.popen, CopiedProcess)])
        for machine in servers:
            machine.end()
        if self._session is None or self.failed.done() or self._world.violations:
            for machine in drivers:
                machine.end()
        else:
            end_drivers(self._world, drivers)
        if self._run_file is not None:
            self._run_file.close()

    def _client(self, name: str) -> VirtualClient:
        machine = DriverMachine(
            self._world,
            Host(self._world, name),
            self._run_id,
            self._log_dir,
            self._process_ended,
            self._session,
            to_the_byte=True,
        )
        self._drivers.append(machine)
        loop = VirtualLoop(machine.host, self._network, machine)  # type: ignore[abstract]  # refusals are set
        machine.host.on_resume = loop.resumed
        log = self._log_dir / f"client-{name}.log"
        return VirtualClient(loop, machine, self._network, next(self._process_ids), log, self.failed)

    def _node(
        self, name: str, server: Path, persistence: Persistence, sync: Path | None, settings: ServerSettings
    ) -> VirtualNode:
        program = ServerProgram(name, server, persistence, sync, settings)
        machine = self._machine(name)
        return VirtualNode(machine, self._network, program, self._process_ids, self._session)

    def _machine(self, name: str) -> RealMachine:
        """A machine for a server."""
        session = self._session
        machine = RealMachine(
            self._world,
            Host(self._world, name),
            session.run_id if session is not None else self._run_id,
            self._log_dir,
            self._process_ended,
        )
        self._servers.append(machine)
        return machine

    def _connect_all(self, targets: Sequence[VirtualNode]) -> None:
        for client in self.clients.values():
            for target in targets:
                self._connect(client.machine, target)
        for replica, master in replication_links(self._plan.replicas):
            self._connect(self.nodes[replica].machine, self.nodes[master])

    def _connect(self, near: RealMachine, target: VirtualNode) -> None:
        self._links[near.host.name, target.name] = self._made_link(near, target, Door(near, self._network))

    def _made_link(
        self, near: RealMachine, target: VirtualNode, door: Door, ping: Ping = echo
    ) -> VirtualLink:
        """The link from one machine to a node, which begins at this door."""
        name = near.host.name
        way = target.reached_over(door, f"{name}-{target.name}")
        door.leads_to(way)
        if (answering := self._answering(name, target.name)) is not None:
            way.read(self._world, answering)
        address = Address(target.name, door.host, door.port)
        return VirtualLink(way, name, target.name, address, door, ping)

    def _process_ended(self, sentence: str) -> None:
        if not self.failed.done():
            self._world.at(self._world.now_ns, partial(self._fail, sentence))

    def _fail(self, sentence: str) -> None:
        if not self.failed.done():
            self.failed.set_result(sentence)

    def _violated(self, error: SimulationError) -> None:
        self._fail(error.render())
