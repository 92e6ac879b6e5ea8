"""One simulated Redis node: a model of the server, the machine it runs on, and the ways to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.redis_model import Durable, ErrorReply, RedisModel, Session
from lab.redis_model.known import Missing
from lab.redis_model.persistence import Disk, Persistence
from lab.servers import DEFAULT, DEFAULT_SETTINGS, Server, ServerSettings
from lab.substrates.asked import BALLAST, AskedNode
from lab.substrates.real.clock import Stopwatch
from lab.substrates.sim.host import Host
from lab.substrates.sim.machine import ACT_S, SimMachine
from lab.substrates.sim.network import CONNECT_NS, Connection, Network, Way

PORT: Final = 6379
START_S: Final = 0.01
"""How long a server takes to start."""
ANSWER_TIMEOUT_S: Final = 5.0
READY_TIMEOUT_S: Final = 15.0


class NearEnd(Protocol):
    """A connection of a server to another one, as the server that made it sees it."""

    def feed(self, data: bytes) -> None:
        """Take what has come."""
        ...

    def close(self) -> None:
        """It is lost, or could not be made."""
        ...


Made = Callable[[Callable[[bytes], None], Callable[[], None] | None], NearEnd]
"""Takes how to send over a connection that was made, and how to end it."""


class SimNode(AskedNode, SimMachine):
    """A node; ``address`` leads to it around every link.

    ``on_missing`` is called with what a request used and the model does not do. ``announces`` is the name by
    which others know it, where it has one and a configuration file that Sentinel rewrites.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        process_ids: Callable[[], int],
        persistence: Persistence,
        server: Server = DEFAULT,
        on_missing: Callable[[Missing], None] | None = None,
        settings: ServerSettings = DEFAULT_SETTINGS,
        announces: str = "",
        port: int = PORT,
    ) -> None:
        host = Host(network.world, name)
        host.down = True
        host.on_resume = self._catch_up
        super().__init__(host, 0)
        self.address = Address(name, name, port)
        self.known_offset = 0
        self._network = network
        self._process_ids = process_ids
        self._persistence, self._settings = persistence, settings
        self._server, self._on_missing, self._announces = server, on_missing, announces
        self._ways: list[Way] = [network.listen(name, port, self)]
        self._model: RedisModel | None = None
        self._durable: Durable | None = None
        self._synced: Durable | None = None
        self._disk = Disk(0, 0, b"")
        self._replicates: Address | None = None
        self._life = 0
        self._sessions: dict[int, Session] = {}
        self._outgoing: list[Connection] = []
        self._backlog: list[Callable[[], None]] = []
        """What waits in the kernel while the server stands still."""
        self._disk_stalls = False
        self._stuck = False
        """Whether the server waits for its disk: what comes meanwhile waits in the kernel."""
        self._armed_ns: int | None = None

    def reached_over(self, host: str, port: int = PORT, name: str | None = None) -> Way:
        """Let the node be reached over a link under this address, and return the way."""
        way = self._network.listen(host, port, self, is_link=True, name=name)
        self._ways.append(way)
        return way

    @property
    def model(self) -> RedisModel:
        """The server that runs. Raises ``UnknownOutcome`` if none does."""
        if self._model is None or self.host.down:
            raise UnknownOutcome(f"node {self.name} does not answer the lab: it is down")
        return self._model

    # Life and death

    async def start(self) -> None:
        """Start it with what its files keep."""
        if self.alive:
            raise UnknownOutcome(f"node {self.name} is already up")
        await asyncio.sleep(START_S)
        self.boot()

    def boot(self) -> None:
        """Let the server be there, with what its files keep."""
        self._life += 1
        self._disk_stalls = self._stuck = False
        self.process_id = self._process_ids()
        self._model = self.host.run(self._new_model)
        self._model.connect_master = self._connect_master
        self._model.on_missing = self._on_missing
        if self._announces:
            self._model.on_rewrite = self._rewrite
        self._model.drift_ppm = self.host.clock.ppm
        self.host.down = False
        if self._replicates is not None:
            self.host.run(self._model.tick)  # it looks for its master
        self._arm()

    def _new_model(self) -> RedisModel:
        master = None if self._durable is None else self._replicates
        return RedisModel(
            self.name,
            wall_ns=self.host.clock.wall_ns,
            monotonic_ns=self.host.clock.monotonic_ns,
            persistence=self._persistence,
            random=self.host.random,
            process_id=self.process_id,
            port=PORT,
            run_id=self._run_id(),
            durable=self._durable,
            replicaof=(master.host, master.port) if master is not None else None,
            server=self._server,
            settings=self._settings,
            announces=self._announces,
        )

    def _rewrite(self) -> None:
        """Write whom the server follows into its configuration file."""
        master = self.model.replication.master
        self._replicates = None if master is None else Address(master[0], *master)

    def _run_id(self) -> str | None:
        """The run id of the server that starts now; None lets it draw one."""
        return None

    async def kill(self) -> None:
        """SIGKILL: what was written to files stays, what was in memory is gone."""
        await self.acting()
        if self._model is not None and self.alive:
            self._keep_files(self._model)
            self._drop_model(self._model)
        self._go_down()

    def _drop_model(self, model: RedisModel) -> None:
        model.drop()

    async def shut_down(self) -> int | None:
        """SHUTDOWN; a server that stands still does not hear it."""
        if self.host.paused or self._stuck:
            return None
        model = self.model
        self.host.run(model.call, "SHUTDOWN")
        if not model.stopped:
            return None
        self._keep_files(model)
        self._go_down()
        return 0

    def _go_down(self) -> None:
        self.host.down = True
        self.host.paused = False
        self._stuck = False
        self._backlog.clear()
        self._sessions.clear()
        self._armed_ns = None
        for way in self._ways:
            for connection in list(way.connections.values()):
                connection.close_far(reset=True)
        outgoing, self._outgoing = self._outgoing, []
        for connection in outgoing:
            connection.close_near()

    async def disk(self) -> Disk:
        """What its append-only file holds, and how much of it is synced."""
        if self.alive:
            return self.model.disk()
        return self._disk

    async def lose_unsynced(self) -> Disk:
        """Cut the file back to what was synced."""
        if self.alive:
            raise UnknownOutcome(f"node {self.name} still runs: its files can't be cut")
        before, self._durable = self._disk, self._synced
        self._disk = Disk(before.synced, before.synced, b"")
        return before

    def _keep_files(self, model: RedisModel) -> None:
        """Note what the files of a server hold that is about to be gone."""
        self._durable, self._synced = model.durable(power_cut=False), model.durable(power_cut=True)
        self._disk = model.disk()

    # What the network brings

    def accept(self, connection: Connection) -> bool:
        """Take a connection in; the kernel does so for a server that stands still, too."""
        if self.host.down:
            return False
        connection.life = self._life
        self._sessions[connection.number] = self.model.connect(
            connection.send_down,
            peer=f"{connection.near_name}:{40_000 + connection.number % 20_000}",
            closed=connection.close_far,
        )
        return True

    def receive(self, connection: Connection, data: bytes) -> None:
        """Execute what has come, now or when the machine goes on."""
        if connection.life != self._life or self.host.down:
            return
        if self.host.paused or self._stuck:
            self._backlog.append(partial(self.receive, connection, data))
            return
        session = self._sessions.get(connection.number)
        if session is not None:
            self.host.run(session.feed, data)
            if self._disk_stalls:
                self._look_at_disk()
            self._arm()

    def hung_up(self, connection: Connection) -> None:
        """Close the session, now or when the machine goes on."""
        if connection.life != self._life or self.host.down:
            return
        if self.host.paused or self._stuck:
            self._backlog.append(partial(self.hung_up, connection))
            return
        session = self._sessions.pop(connection.number, None)
        if session is not None:
            self.host.run(session.close)

    def _look_at_disk(self) -> None:
        """See whether the server has to wait for its disk."""
        self._stuck = self._model is not None and self._model.waits_for_disk

    async def stall_disk(self, stalls: bool) -> None:
        """Let no sync of the server end, or all of them."""
        await self.acting()
        self._disk_stalls = stalls
        if not (self.host.down or (self.host.paused and self._stuck)):  # else when it goes on
            self._tell_disk()

    def _tell_disk(self) -> None:
        self.host.run(self.model.stall_disk, self._disk_stalls)
        if not self._disk_stalls:
            self._stuck = False
            self._catch_up()

    async def held_syncs(self) -> int:
        """Whether a sync was begun that does not end."""
        await self.acting()
        aof = None if self.host.down else self.model.aof
        return int(aof is not None and aof.holds(self.host.clock.wall_ns() // 1_000_000_000))

    async def _until_disk(self) -> None:
        """Wait for the answer of a server that waits for its disk. Raises ``UnknownOutcome``."""
        give_up = asyncio.get_running_loop().time() + ANSWER_TIMEOUT_S
        while self._stuck:
            if asyncio.get_running_loop().time() > give_up:
                raise UnknownOutcome(f"node {self.name} does not answer the lab: its disk stalls")
            await asyncio.sleep(ACT_S)
        if self.host.down:
            raise UnknownOutcome(f"node {self.name} does not answer the lab: it is down")

    def _catch_up(self) -> None:
        if self._stuck:  # it was paused meanwhile, and its disk may have been freed
            if not self._disk_stalls:
                self._tell_disk()
            return
        backlog, self._backlog = self._backlog, []
        for happens in backlog:
            happens()
        self._arm()

    # What time brings

    def clock_changed(self) -> None:
        """Expiry follows the wall clock."""
        if self._model is not None:
            self._model.drift_ppm = self.host.clock.ppm
        self._arm()

    def _arm(self) -> None:
        """See to it that the server is woken when it next wants to be."""
        if self._model is None or self.host.down or self.host.paused or self._stuck:
            return
        due_ns = self._model.next_timer_ns()
        if due_ns is None:
            self._armed_ns = None
            return
        at_ns = self.host.clock.world_ns(due_ns)
        if self._armed_ns is None or at_ns < self._armed_ns or self._armed_ns < self.host.world.now_ns:
            self._armed_ns = max(at_ns, self.host.world.now_ns)
            self.host.world.at(self._armed_ns, self._tick, self._armed_ns, self._life)

    def _tick(self, armed_ns: int, life: int) -> None:
        if armed_ns != self._armed_ns or life != self._life:
            return
        self._armed_ns = None
        if self._model is not None and not (self.host.down or self.host.paused or self._stuck):
            self.host.run(self._model.tick)
            if self._disk_stalls:
                self._look_at_disk()
            self._arm()

    # Replication

    def _connect_master(self, host: str, port: int) -> None:
        """The server wants to hear its master."""
        self.connect(host, port, lambda send, closed: self.model.master_link(send, closed=closed))

    def connect(self, host: str, port: int, made: Made) -> None:
        """The server connects to another one: carry the bytes between them, while it does not stand still."""
        life = self._life
        ends: list[NearEnd] = []

        def when_it_runs(happens: Callable[[], None]) -> None:
            if self._life != life or self.host.down:
                return
            if self.host.paused or self._stuck:
                self._backlog.append(partial(when_it_runs, happens))
                return
            self.host.run(happens)
            if self._disk_stalls:
                self._look_at_disk()
            self._arm()

        def opened(connection: Connection | None) -> None:
            if connection is None:
                ends.append(made(_drop, None))
                ends[0].close()
            else:
                ends.append(made(connection.send_up, connection.close_near))

        def connected(connection: Connection | None) -> None:
            if connection is not None:
                if self._life != life or self.host.down:
                    connection.close_near()
                    return
                self._outgoing.append(connection)
            when_it_runs(partial(opened, connection))

        way = self._network.way(host, port, self.name)
        if way is None:
            self.host.world.after(CONNECT_NS, connected, None)
        else:
            self._network.open(
                way,
                self.name,
                lambda data: when_it_runs(lambda: ends[0].feed(data)),
                lambda _: when_it_runs(lambda: ends[0].close()),
                connected,
            )

    async def replicate(self, master: Address) -> None:
        """Become the replica of whoever is behind ``master``, and wait until it is."""
        await super().replicate(master)
        give_up = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while not (await self.role()).linked:
            if asyncio.get_running_loop().time() > give_up:
                raise UnknownOutcome(f"{self.name} did not become a replica of {master.name}")
            await asyncio.sleep(0.005)

    # What the lab asks, around all links

    async def ask(self, *arguments: str | int) -> object:
        """Let the server execute one command. Raises ``UnknownOutcome``."""
        await asyncio.sleep(ACT_S)
        if self.host.paused:
            await asyncio.sleep(ANSWER_TIMEOUT_S)
            raise UnknownOutcome(f"node {self.name} does not answer the lab: it stands still")
        if self._stuck:
            await self._until_disk()
        model = self.model
        answer: object = self.host.run(model.call, *arguments)
        if self._disk_stalls:
            self._look_at_disk()
        self._arm()
        if self._stuck:
            await self._until_disk()
        if isinstance(answer, ErrorReply):
            raise UnknownOutcome(f"node {self.name} does not answer the lab: {answer}")
        return answer

    async def ballast(self, number: int, size_bytes: int, ttl_ms: int | None) -> bool:
        """Write it at once: no command of the model makes long values by a short request."""
        await self.acting()
        return self.host.run(self.model.ballast, f"{BALLAST}:{number}".encode(), size_bytes, ttl_ms)

    async def reported_time_ns(self) -> int:
        """What TIME says."""
        return await self.now_ns()

    def stopwatch(self, *, monotonic: bool = False) -> Callable[[], int]:
        """Measure time by its wall clock, or by its monotonic clock."""
        clock = self.host.clock
        return Stopwatch(clock.monotonic_ns if monotonic else clock.wall_ns)


def _drop(_: bytes) -> None:
    """There is nobody to send to."""
