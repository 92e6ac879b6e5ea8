"""Trials of locks behind drivers: the drivers are real processes in virtual time, the nodes are simulated.

A driver is asked to ``close`` at a trial's end, and used again in a later one if it soon has closed, has
answered everything else, and no more of its threads wait for a time than when it was new.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from lab.addresses import Address
from lab.durations import UNITS_NS
from lab.search.cluster import TrialClient, TrialCluster, TrialLink, TrialNode
from lab.search.one_cpu import OneCpu
from lab.search.trial import Trial
from lab.search.watch import CommandLog
from lab.search.world import TrialWorld
from lab.substrates.base import STORE
from lab.substrates.run_files import RunFile
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.host import Host
from lab.substrates.sim.network import Network
from lab.substrates.sim.node import PORT
from lab.substrates.virtual.client import WithProcesses
from lab.substrates.virtual.ends import LOOPBACK, Door, Stream
from lab.substrates.virtual.loop import VirtualLoop
from lab.substrates.virtual.machine import RealMachine, RealProcess
from lab.substrates.virtual.world import Conductor, VirtualWorld

LOGS: Final = "logs"
CLOSING_ID: Final = 2**53 - 1
"""The id of the command ``close``; others count from 1."""
CLOSE: Final = msgspec.json.encode({"id": CLOSING_ID, "op": "close"}) + b"\n"
SETTLES_WITHIN_NS: Final = 120 * UNITS_NS["s"]
"""How long timers that a driver has left behind, and tries of its library's, may take in virtual time."""


class Session:
    """What trials with drivers share: the conductor, made with the first of them."""

    def __init__(self) -> None:
        self._conductor: Conductor | None = None
        self._run_file: RunFile | None = None
        self.cpu: OneCpu | None = None
        """The CPU on which all of them run, once there is a conductor."""
        self.run_id = ""
        self.started = 0
        """How many drivers were started."""
        self.waits_when_new: dict[int, int] = {}
        """How many threads of a process waited for a time before it was asked anything."""
        self.waits_at_rest: dict[int, int] = {}
        """How many did after its first trial: a JVM has threads that always do."""
        self._idle: dict[tuple[str, tuple[str, ...]], RealProcess] = {}

    @property
    def conductor(self) -> Conductor:
        """The conductor. Raises ``LabError``: its libraries cannot be had."""
        if self._conductor is None:
            self._conductor = Conductor()
            self.run_id = f"search-{self._conductor.scratch.name}"
            self._run_file = RunFile(self.run_id, self._conductor.scratch)
            self.logs.mkdir()
            self.cpu = OneCpu()
        return self._conductor

    @property
    def logs(self) -> Path:
        """Where the drivers' logs are."""
        return self.conductor.scratch / LOGS

    def take(self, client: str, command: Sequence[str]) -> RealProcess | None:
        """A driver that this client has used before, and that has closed what it opened."""
        return self._idle.pop((client, tuple(command)), None)

    def keep(self, client: str, process: RealProcess) -> None:
        """Keep a driver for a later trial."""
        self._idle[client, process.command] = process

    def rests_already(self, number: int) -> bool:
        """Whether no thread of a process waits for a time, beside those that always do."""
        return self.conductor.time.waiting(number) <= self.waits_at_rest.get(number, 0)

    def rests(self, number: int) -> bool:
        """Whether no more threads wait than at the end of its last trial, or than when it was new.

        To be asked when timers had time to run out.
        """
        waits = self.conductor.time.waiting(number)
        if waits > self.waits_at_rest.get(number, self.waits_when_new[number]):
            return False
        self.waits_at_rest[number] = waits
        return True

    def close(self) -> None:
        """End every driver."""
        for process in self._idle.values():
            process.end()
        self._idle.clear()
        if self._conductor is not None:
            self._conductor.close()
        if self._run_file is not None:
            self._run_file.close()
        if self.cpu is not None:
            self.cpu.close()
        self._conductor = self._run_file = self.cpu = None


SESSION: Final = Session()
"""There is one: trials run one after the other in a process."""


class DrivenWorld(VirtualWorld, TrialWorld):
    """A trial's world with real processes."""

    def __init__(self, seed: int) -> None:
        time = SESSION.conductor.time
        time.advance(time.now_ns + -time.now_ns % UNITS_NS["s"])  # runtimes count in whole milliseconds
        super().__init__(seed, SESSION.conductor)

    def run_out(self, done: Callable[[], bool]) -> None:
        """Wake processes, and let nothing else happen, until ``done`` or ``SETTLES_WITHIN_NS`` later.

        Raises:
            SimulationError: one does not get quiet.
        """
        end_ns = self.now_ns + SETTLES_WITHIN_NS
        self.settle()
        while not done() and (due := self._next_due()) is not None:
            due_ns = self.due_ns(due)
            if due_ns > end_ns:
                break
            self._move_to(due_ns)
            self._wake(due)
            self.settle()


class DriverMachine(RealMachine):
    """A client's machine: its driver may have served other trials before."""

    def __init__(
        self, world: VirtualWorld, host: Host, run_id: str, log_dir: Path, failed: Callable[[str], None]
    ) -> None:
        super().__init__(world, host, run_id, log_dir, failed)
        self._closing: list[RealProcess] = []

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
        process = SESSION.take(self.host.name, command) if talks else None
        if process is None:
            with SESSION.cpu.free() if SESSION.cpu is not None else contextlib.nullcontext():
                process = super().start(label, command, preloaded=preloaded, talks=talks, directory=directory)
                self.world.settle()
            if SESSION.cpu is not None:
                SESSION.cpu.bind(process.popen.pid)
            SESSION.started += 1
            SESSION.waits_at_rest.pop(process.number, None)
            SESSION.waits_when_new[process.number] = self.world.time.waiting(process.number)
            self.world.time.reseed(process.number, self.host.random.getrandbits(63))
        else:
            process.lines_given, process.said = 0, b""
            self.adopt(process, self.host.random.getrandbits(63))
        return process

    def entropy(self) -> int:
        """Each client's own, and the same in all trials: what a program draws at its start, it keeps."""
        return crc32(self.host.name.encode())

    def ask_to_close(self) -> None:
        """Ask each driver to close what it opened."""
        if self.host.paused:
            self.host.paused = False
            self.go_on()
        for process in self.processes:
            stdin = process.popen.stdin
            if stdin is None or stdin.closed:
                continue
            process.lines_given += 1
            with contextlib.suppress(BrokenPipeError):  # it has ended
                self.give(partial(stdin.write, CLOSE))
                self._closing.append(process)

    def is_done(self) -> bool:
        """Whether no driver that may be used again still has to answer, or to let timers run out."""
        answers = [(each, self._has_closed(each)) for each in self._closing]
        return all(ok is False or (ok and SESSION.rests_already(each.number)) for each, ok in answers)

    def end(self, *, keep: bool = False) -> None:
        """End every driver, or ``keep`` those that are as good as new."""
        for process in self._closing if keep else ():
            if self._has_closed(process) and SESSION.rests(process.number):
                self.release(process)
                SESSION.keep(self.host.name, process)
        super().end()

    def cut_off(self) -> None:
        """Break the connections of drivers that have not closed: they may wait for nodes."""
        if all(self._has_closed(process) is not None for process in self._closing):
            return
        for _, end in list(self._ends.values()):
            if isinstance(end, Door):
                end.close()
            elif isinstance(end, Stream):
                end.close(reset=True)

    def _has_closed(self, process: RealProcess) -> bool | None:
        """Whether it has closed what it opened, and answered everything else; None: not yet."""
        if process not in self.processes:
            return False
        lines = process.said.splitlines()
        try:
            closed = [
                answer["ok"] for answer in map(msgspec.json.decode, lines) if answer["id"] == CLOSING_ID
            ]
        except (msgspec.DecodeError, KeyError):
            return False
        if closed == [False]:
            return False
        return True if closed and len(lines) == process.lines_given else None


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
        """Keep the drivers that are as good as new after a moment, and end the others."""
        world, machines = self._network.world, self._machines.values()
        assert isinstance(world, DrivenWorld)
        for machine in machines:
            machine.ask_to_close()
        try:
            world.run_out(lambda: all(machine.is_done() for machine in machines))
            for machine in machines:
                machine.cut_off()
            world.run_out(lambda: all(machine.is_done() for machine in machines))
            keep = True
        except SimulationError:  # one computes without end: none is known to be quiet
            keep = False
        for machine in machines:
            machine.end(keep=keep)


def _ended(sentence: str) -> None:
    """A driver that ends by itself is its client's business."""
