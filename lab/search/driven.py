"""Trials of locks behind drivers: the drivers are real processes in virtual time, the nodes are simulated.

A driver is asked to ``close`` at a trial's end and used again in a later one, if it has answered everything
by then, closes, and none of its threads waits for a time. Any other is started anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from lab.addresses import Address
from lab.search.cluster import TrialClient, TrialCluster, TrialLink, TrialNode
from lab.search.trial import Trial
from lab.search.watch import CommandLog
from lab.search.world import TrialWorld
from lab.substrates.base import STORE
from lab.substrates.run_files import RunFile
from lab.substrates.sim.host import Host
from lab.substrates.sim.network import Network
from lab.substrates.sim.node import PORT
from lab.substrates.virtual.client import WithProcesses
from lab.substrates.virtual.ends import LOOPBACK, Door
from lab.substrates.virtual.loop import VirtualLoop
from lab.substrates.virtual.machine import RealMachine, RealProcess
from lab.substrates.virtual.world import Conductor, VirtualWorld

LOGS: Final = "logs"
CLOSING_ID: Final = 2**53 - 1
"""The id of the command ``close``; others count from 1."""


class Session:
    """What trials with drivers share: the conductor, made with the first of them."""

    def __init__(self) -> None:
        self._conductor: Conductor | None = None
        self._run_file: RunFile | None = None
        self.run_id = ""
        self.started = 0
        """How many drivers were started."""
        self._idle: dict[tuple[str, ...], list[RealProcess]] = {}

    @property
    def conductor(self) -> Conductor:
        """The conductor. Raises ``LabError``: its libraries cannot be had."""
        if self._conductor is None:
            self._conductor = Conductor()
            self.run_id = f"search-{self._conductor.scratch.name}"
            self._run_file = RunFile(self.run_id, self._conductor.scratch)
            self.logs.mkdir()
        return self._conductor

    @property
    def logs(self) -> Path:
        """Where the drivers' logs are."""
        return self.conductor.scratch / LOGS

    def take(self, command: Sequence[str]) -> RealProcess | None:
        """A driver that was used before, and has closed what it opened."""
        idle = self._idle.get(tuple(command))
        return idle.pop() if idle else None

    def keep(self, process: RealProcess) -> None:
        """Keep a driver for a later trial."""
        self._idle.setdefault(process.command, []).append(process)

    def close(self) -> None:
        """End every driver."""
        self._idle.clear()
        if self._conductor is not None:
            self._conductor.close()
        if self._run_file is not None:
            self._run_file.close()
        self._conductor = self._run_file = None


SESSION: Final = Session()
"""There is one: trials run one after the other in a process."""


class DrivenWorld(VirtualWorld, TrialWorld):
    """A trial's world with real processes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, SESSION.conductor)


class DriverMachine(RealMachine):
    """A client's machine: its driver may have served other trials before."""

    def start(
        self,
        label: str,
        command: Sequence[str],
        *,
        preloaded: Callable[[dict[str, str]], dict[str, str]] = dict,
        talks: bool = False,
        directory: Path | None = None,
    ) -> RealProcess:
        """Start the driver, or take one that is there already; its entropy is drawn anew."""
        process = SESSION.take(command) if talks else None
        if process is None:
            return super().start(label, command, preloaded=preloaded, talks=talks, directory=directory)
        self.adopt(process, self.host.random.getrandbits(63))
        return process

    def entropy(self) -> int:
        """One that no other process of the session has: what a program draws at its start, it keeps."""
        SESSION.started += 1
        return SESSION.started

    def end(self) -> None:
        """Keep a driver that is as good as new; end any other."""
        for process in list(self.processes):
            if self._closes(process):
                self.release(process)
                SESSION.keep(process)
        super().end()

    def _closes(self, process: RealProcess) -> bool:
        """Whether it closes what it opened, at once, and has nothing left to do."""
        stdin = process.popen.stdin
        busy = process.lines_given != process.lines_said
        if self.host.paused or self.host.down or busy or stdin is None or stdin.closed:
            return False
        self.give(lambda: stdin.write(msgspec.json.encode({"id": CLOSING_ID, "op": "close"}) + b"\n"))
        self.world.settle()
        process.lines_given = process.lines_said = 0
        try:
            answer = msgspec.json.decode(process.last_said)
        except msgspec.DecodeError:
            return False
        is_closed = bool(answer.get("ok")) and answer.get("id") == CLOSING_ID
        return is_closed and process in self.processes and self.world.time.waiting(process.number) == 0


class DrivenClient(WithProcesses, TrialClient):
    """A client's machine with its driver."""

    def __init__(self, loop: VirtualLoop, network: Network) -> None:
        super().__init__(loop, network)
        self.machine = loop.machine

    async def kill(self) -> None:
        """End it at once, and its driver."""
        self.machine.kill()
        await super().kill()


class DrivenCluster(TrialCluster):
    """Simulated nodes, which real processes reach by ports of this machine."""

    def __init__(
        self,
        network: Network,
        trial: Trial,
        kind: Callable[..., TrialNode],
        log: CommandLog | None = None,
    ) -> None:
        self._machines: dict[str, DriverMachine] = {}
        super().__init__(network, trial, kind, log)

    def _client(self, name: str) -> TrialClient:
        world = self._network.world
        assert isinstance(world, DrivenWorld)
        machine = DriverMachine(world, Host(world, name), SESSION.run_id, SESSION.logs, _ended)
        loop = VirtualLoop(machine.host, self._network, machine)  # type: ignore[abstract]  # refusals are set
        machine.host.on_resume = loop.wake
        self._machines[name] = machine
        return DrivenClient(loop, self._network)

    def _link(self, client: str, node: TrialNode) -> TrialLink:
        if node.name == STORE:
            return super()._link(client, node)
        door = Door(self._machines[client], self._network)
        way = node.reached_over(LOOPBACK, door.port, f"{client}-{node.name}:{PORT}")
        door.leads_to(way)
        return TrialLink(way, client, node, Address(node.name, LOOPBACK, door.port))

    def end(self) -> None:
        """End the drivers."""
        for machine in self._machines.values():
            machine.end()


def _ended(sentence: str) -> None:
    """A driver that ends by itself is its client's business."""
