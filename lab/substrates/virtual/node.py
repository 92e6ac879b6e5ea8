"""One real redis-server in virtual time, its clock and its files, and the ways to it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.errors import LabError, UnknownOutcome
from lab.substrates.asked import AskedNode
from lab.substrates.base import STORE, Life
from lab.substrates.local.disk import LocalDisk
from lab.substrates.real.clock import Stopwatch
from lab.substrates.real.disk import OnDisk
from lab.substrates.real.node import bad_directive, redis_arguments
from lab.substrates.sim.machine import ACT_S, SimMachine
from lab.substrates.sim.network import Connection, Network, Way
from lab.substrates.virtual.ends import LOOPBACK, Door, Stream
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.process import RealProcess
from lab.substrates.virtual.session import Session
from lab.substrates.virtual.template import ServerProgram, Template
from lab.substrates.virtual.world import VirtualWorld

PORT: Final = 6379
START_S: Final = 0.01
"""How long a server takes to start, in virtual time."""
ANSWER_TIMEOUT_S: Final = 5.0
READY_TIMEOUT_S: Final = 15.0
END_TIMEOUT_S: Final = 10.0
CRON_HZ: Final = "1"
"""How often a server does its chores: its lazy expiry keeps keys right, and each wake-up costs real time."""


class VirtualNode(AskedNode, SimMachine, OnDisk):
    """A node; ``address`` leads to it around every link. The conductor reaches it by a Unix socket."""

    COPIED: ClassVar[bool] = True
    """Whether it may be a copy of one that stands still, and others of it."""
    _disk: LocalDisk

    def __init__(
        self,
        machine: RealMachine,
        network: Network,
        program: ServerProgram,
        process_ids: Iterator[int],
        session: Session | None,
    ) -> None:
        host = machine.host
        host.down = True
        super().__init__(host, 0)
        host.on_resume = machine.go_on
        self.machine = machine
        self.address = Address(self.name, self.name, PORT)
        self.known_offset = 0
        self._network, self._program, self._session = network, program, session
        self._template = session.template(program) if session is not None and self.COPIED else None
        if self._template is not None:
            self._disk, self._socket = self._template.disk, self._template.socket
        else:
            name = self.name if session is None else session.new_name(self.name)
            self._disk = LocalDisk(self._world.conductor.scratch / name, program.sync)
            self._socket = self._disk.directory.with_suffix(".sock")
        self._ways: list[Way] = [network.listen(self.name, PORT, self)]
        self._replicates: Address | None = None
        self._process_ids = process_ids
        self._process: RealProcess | None = None
        self._lives = 1
        self._stands = False
        self._streams: dict[int, Stream] = {}
        self._control = Channel(self.address, connect_timeout_s=2.0, stale_after_s=10.0, client_name="lab")

    def reached_over(self, door: Door, name: str) -> Way:
        """Let the node be reached over a link of this name, whose near end is this door."""
        way = self._network.listen(door.host, door.port, self, is_link=True, name=name)
        self._ways.append(way)
        return way

    @property
    def _world(self) -> VirtualWorld:
        return self.machine.world

    # Life and death

    async def start(self) -> None:
        """Start it with what its files keep. Raises ``UnknownOutcome``."""
        if self.alive:
            raise UnknownOutcome(f"node {self.name} is already up")
        await asyncio.sleep(START_S)
        await self._world.outside(self._boot)
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + READY_TIMEOUT_S
        while not self._socket.exists() and self.alive and loop.time() < give_up_s:
            await asyncio.sleep(ACT_S)  # some wait before they serve
        await self.ask("PING")

    @staticmethod
    async def start_together(nodes: Sequence[VirtualNode]) -> None:
        """Start them for the first time, side by side. Raises ``LabError``.

        Each stands still before it serves, and then goes on, or its copy does: which makes no difference.
        """
        world = nodes[0]._world

        def stand() -> None:
            new = [node for node in nodes if node._template is None]
            for node in new:
                node._launch(stands_still=True)
            for node in new:
                node.machine.receive(node._running)
            # Valkey 9.1 waits 30 ms while it measures the processor's counter.
            world.run_out(lambda: all(node._has_begun for node in new))
            for node in new:
                node._keep_as_template()

        def go() -> None:
            for node in nodes:
                node._go()
            world.settle()
            for node in nodes:
                node._is_up()

        await world.outside(stand)
        await asyncio.sleep(START_S)
        await world.outside(go)
        try:
            await asyncio.gather(*(node.ask("PING") for node in nodes))
        except UnknownOutcome:
            for node in nodes:
                if (bad := node._bad_directive()) is not None:
                    raise bad from None
            raise

    def _bad_directive(self) -> LabError | None:
        process = self._process
        return None if process is None else bad_directive(process.tail(), self._program.settings)

    def _boot(self) -> None:
        self._lives += 1
        self._socket = self._disk.directory.with_suffix(f".{self._lives}.sock")
        self._socket.unlink(missing_ok=True)
        self._launch()
        self.machine.receive(self._running)
        self._is_up()

    @property
    def _has_begun(self) -> bool:
        """Whether it stands still, serves, or never will."""
        process = self._running
        ended = process.popen.poll() is not None
        return ended or self._world.time.stands(process.number) or self._socket.exists()

    @property
    def _running(self) -> RealProcess:
        assert self._process is not None
        return self._process

    @property
    def _label(self) -> str:
        return self.name if self.name == STORE else f"node-{self.name}"

    def _launch(self, *, stands_still: bool = False) -> None:
        self._disk.begin_life()
        self._process = self.machine.launch(
            self._label,
            self._command(),
            preloaded=self._environment,
            directory=self._disk.directory,
            log=self._session.new_log(self._label) if stands_still and self._session is not None else None,
            stands_still=stands_still,
        )

    def _environment(self, preloaded: dict[str, str]) -> dict[str, str]:
        """What its process gets, added to an environment that preloads something."""
        return self._disk.environment(preloaded)

    def _keep_as_template(self) -> None:
        """Let others have copies of what stands still, if anybody shares it; else it goes on itself."""
        process = self._running
        self._stands = self._world.time.stands(process.number)
        # Redis 8 and Valkey make a thread before they open their sockets: copies could not share one.
        if self._session is not None and self.COPIED and self._stands and self._socket.exists():
            self.machine.release(process)
            self._template = Template(process, self._disk, self._socket)
            self._session.add_template(self._program, self._template)

    def _go(self) -> None:
        if self._template is not None:
            self._disk.begin_life()
            self._process = self.machine.copy(self._template.process, self._label)
        elif self._stands:
            self.machine.go_from_there(self._running)

    def _is_up(self) -> None:
        process = self._running
        self.machine.copied(process)
        self.process_id = next(self._process_ids)
        process.on_exit = self._gone
        self.host.down = False

    def _command(self) -> list[str]:
        master, program, directory = self._replicates, self._program, str(self._disk.directory)
        return [
            str(program.server),
            *redis_arguments(0, LOOPBACK, directory, program.persistence, program.settings),
            *("--unixsocket", str(self._socket), "--hz", CRON_HZ, "--jemalloc-bg-thread", "no"),
            *(("--replicaof", master.host, str(master.port)) if master is not None else ()),
        ]

    async def kill(self) -> None:
        """SIGKILL: what was written to files stays, what was in memory is gone."""
        await self.acting()
        await self._world.outside(self.machine.kill)
        await self._control.close()

    async def shut_down(self) -> int | None:
        """SHUTDOWN; a server that is paused does not receive it."""
        process = self._process
        if self.host.paused or process is None:
            return None
        process.expected_end = True
        with contextlib.suppress(UnknownOutcome):
            await self.ask("SHUTDOWN")  # its answer is that the connection ends
        give_up_s = asyncio.get_running_loop().time() + END_TIMEOUT_S
        while self.alive and asyncio.get_running_loop().time() < give_up_s:
            self._world.at(self._world.now_ns, self.machine.give, _nothing)
            await asyncio.sleep(ACT_S)
        await self._control.close()
        return process.popen.returncode

    def _gone(self) -> None:
        """Its process has ended: the kernel closes what it had open."""
        self.host.down = True
        self.host.paused = False
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.drop()
        for way in self._ways:
            for connection in list(way.connections.values()):
                connection.close_far(reset=True)
        self.machine.hang_up()

    def close(self) -> None:
        """End its process."""
        self.machine.kill()

    # Pauses and clocks

    async def pause(self) -> None:
        """Neither wake it nor deliver anything to it."""
        await super().pause()
        self.machine.hold()

    def clock_changed(self) -> None:
        """Its process has the host's wall clock."""
        self.machine.set_clock()

    # What the network brings

    def accept(self, connection: Connection) -> bool:
        """Connect to the server; the kernel takes connections in for one that is paused, too."""
        if self.host.down:
            return False
        near = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            near.connect(str(self._socket))
        except OSError:
            near.close()
            return False
        self._streams[connection.number] = Stream(
            self.machine, near, connection.send_down, partial(self._server_closed, connection)
        )
        self.machine.give(_nothing)
        return True

    def receive(self, connection: Connection, data: bytes) -> None:
        """Deliver what has come."""
        stream = self._streams.get(connection.number)
        if stream is not None:
            stream.send(data)

    def hung_up(self, connection: Connection) -> None:
        """The near end closed it."""
        stream = self._streams.pop(connection.number, None)
        if stream is not None:
            stream.close()

    def _server_closed(self, connection: Connection) -> None:
        if self._streams.pop(connection.number, None) is not None:
            connection.close_far()

    # What the lab asks, around all links

    async def replicate(self, master: Address) -> None:
        """Become the replica of the node behind ``master``, and wait until it is."""
        await super().replicate(master)
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + READY_TIMEOUT_S
        while not (await self.role()).linked:
            if loop.time() > give_up_s:
                raise UnknownOutcome(f"{self.name} did not become a replica of {master.name}")
            await asyncio.sleep(0.005)

    async def ask(self, *arguments: str | int) -> object:
        """Send one command on the lab's own connection. Raises ``UnknownOutcome``."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self._control.call(*arguments)
        except (NodeError, TimeoutError) as error:
            raise UnknownOutcome(f"node {self.name} does not answer the lab: {error}") from error

    async def life(self) -> Life:
        """Ask the node who it is; its process id is a number of the world's own, the same in each run."""
        return dataclasses.replace(await super().life(), process_id=self.process_id)

    async def reported_time_ns(self) -> int:
        """What TIME says."""
        return await self.now_ns()

    def stopwatch(self, *, monotonic: bool = False) -> Callable[[], int]:
        """Measure time by its wall clock, or by its monotonic clock."""
        clock = self.host.clock
        return Stopwatch(clock.monotonic_ns if monotonic else clock.wall_ns)


def _nothing() -> None:
    """Only let the process look around."""
