"""Trials of locks behind drivers: the drivers are real processes in virtual time, the nodes are simulated.

Drivers are used again in later trials: ``lab.substrates.virtual.drivers`` says when.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.addresses import Address
from lab.redis_model.known import Missing
from lab.search.cluster import TrialClient, TrialCluster, TrialLink, TrialNode
from lab.search.trial import Trial
from lab.search.watch import CommandLog
from lab.search.world import TrialWorld
from lab.substrates.base import STORE, Direction
from lab.substrates.sentinels import host_name
from lab.substrates.sim.host import Host
from lab.substrates.sim.network import Network, Way
from lab.substrates.sim.node import PORT
from lab.substrates.virtual.client import WithProcesses
from lab.substrates.virtual.drivers import DriverMachine, end_drivers
from lab.substrates.virtual.ends import LOOPBACK, Door
from lab.substrates.virtual.loop import VirtualLoop
from lab.substrates.virtual.sentinels import free_hosts
from lab.substrates.virtual.session import SESSION
from lab.substrates.virtual.world import VirtualWorld


class DrivenWorld(VirtualWorld, TrialWorld):
    """A trial's world with real processes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, SESSION.conductor)


class DrivenClient(WithProcesses, TrialClient):
    """A client's machine with its driver."""

    def __init__(self, loop: VirtualLoop, network: Network) -> None:
        super().__init__(loop, network)
        self.machine = loop.machine

    async def kill(self) -> None:
        """End it at once, and its driver."""
        self.machine.kill()
        await super().kill()


class DrivenLink(TrialLink):
    """A link to a node by a port of this machine, which is closed while connections are refused."""

    def __init__(self, door: Door, way: Way, client: str, node: TrialNode) -> None:
        super().__init__(way, client, node, Address(node.name, door.host, door.port))
        self._door = door

    async def cut(self, direction: Direction, *, refused: bool) -> None:
        """Lose what is sent, or refuse connections."""
        await super().cut(direction, refused=refused)
        if refused:
            await self._door.closed()

    async def heal(self) -> None:
        """Undo everything."""
        await super().heal()
        await self._door.opened()


class DrivenCluster(TrialCluster):
    """Simulated nodes, which real processes reach by ports of this machine."""

    def __init__(
        self,
        network: Network,
        trial: Trial,
        kind: Callable[..., TrialNode],
        log: CommandLog | None = None,
        on_missing: Callable[[Missing], None] | None = None,
    ) -> None:
        self._machines: dict[str, DriverMachine] = {}
        assert isinstance(network.world, DrivenWorld)
        self._hosts = free_hosts(network.world) if trial.sentinels else None
        super().__init__(network, trial, kind, log, on_missing)
        for client, machine in self._machines.items():
            for server in (*self.nodes, *self.sentinels) if trial.sentinels else ():
                machine.names[host_name(server)] = self.link(client, server).address.host

    def _client(self, name: str) -> TrialClient:
        world = self._network.world
        assert isinstance(world, DrivenWorld)
        machine = DriverMachine(world, Host(world, name), SESSION.run_id, None, _ended, SESSION)
        loop = VirtualLoop(machine.host, self._network, machine)  # type: ignore[abstract]  # refusals are set
        machine.host.on_resume = loop.resumed
        self._machines[name] = machine
        return DrivenClient(loop, self._network)

    def _link(self, near: str, node: TrialNode) -> TrialLink:
        if node.name == STORE or near not in self._machines:
            return super()._link(near, node)
        # Sentinels name a server by one port to everybody, so each link has an address of its own then.
        host, port = (next(self._hosts), node.address.port) if self._hosts is not None else (LOOPBACK, 0)
        door = Door(self._machines[near], self._network, host, port)
        way = self._read(node.reached_over(host, door.port, f"{near}-{node.name}:{PORT}"))
        door.leads_to(way)
        return DrivenLink(door, way, near, node)

    def end(self) -> None:
        """Keep the drivers that are as good as new after a moment, and end the others."""
        world, machines = self._network.world, self._machines.values()
        assert isinstance(world, DrivenWorld)
        end_drivers(world, machines)


def _ended(sentence: str) -> None:
    """A driver that ends by itself is its client's business."""
