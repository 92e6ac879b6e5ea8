"""One real redis-server on this machine, with a wall clock of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.address import Address
from lab.channel import Channel, NodeError
from lab.errors import UnknownOutcome
from lab.substrates.base import ClockReading, Disk, Life, Persistence, Probe, Role
from lab.substrates.local.clock import LocalClock, Stopwatch, reading
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.machine import LocalMachine
from lab.substrates.local.processes import Child, Nursery, reserved
from lab.substrates.probe import echo

ANSWER_TIMEOUT_S = 5.0
READY_TIMEOUT_S = 15.0
OWN_KEY = "lock-lab:touched"
"""What the lab itself writes on a node, to move its append-only file on."""

PERSISTENCE_ARGUMENTS: dict[Persistence, list[str]] = {
    "none": ["--appendonly", "no"],
    "aof-everysec": ["--appendonly", "yes", "--appendfsync", "everysec"],
    "aof-always": ["--appendonly", "yes", "--appendfsync", "always"],
}


def redis_command(server: Path, port: int, directory: Path, persistence: Persistence) -> list[str]:
    """Return the command line of one node: loopback only, no snapshots, nothing read from a file."""
    # Its process title would overwrite the environment by which a killed lab's leftovers are found.
    return [
        str(server),
        *("--set-proc-title", "no"),
        *("--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)),
        *("--save", "", "--daemonize", "no", "--loglevel", "notice", "--tcp-backlog", "128"),
        *("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"),
        *PERSISTENCE_ARGUMENTS[persistence],
    ]


@dataclass(frozen=True, slots=True)
class Launch:
    """How a node is started, and started again."""

    nursery: Nursery
    label: str
    command: list[str]
    environment: dict[str, str]
    directory: Path

    async def __call__(self, *more: str) -> Child:
        """Start it, with ``more`` arguments."""
        return await self.nursery.start(
            self.label, [*self.command, *more], environment=self.environment, directory=self.directory
        )


class LocalNode(LocalMachine):
    """A node; ``address`` leads to it around every link."""

    def __init__(self, address: Address, launch: Launch, clock: LocalClock | None, disk: LocalDisk) -> None:
        super().__init__(address.name, clock)
        self.address = address
        self._launch = launch
        self._disk = disk
        self._replicates: Address | None = None
        self.known_offset = 0
        self._port = contextlib.ExitStack()
        self._control = Channel(address, connect_timeout_s=2.0, stale_after_s=10.0, client_name="lab")

    async def start(self) -> None:
        """Start the process; ready when it answers with the process id that we started, and has loaded."""
        master = self._replicates
        more = ("--replicaof", master.host, str(master.port)) if master is not None else ()
        child = self.child = await self._launch(*more)
        child.expected_end = True  # until it is ready: a lost race for its port is tried again
        loop = asyncio.get_running_loop()
        give_up = loop.time() + READY_TIMEOUT_S
        while child.running and loop.time() < give_up:
            if (await self.probe(1.0)).reached:
                if (await self.info("server")).get("process_id") != str(child.pid):
                    break
                child.expected_end = False
                self._port.close()
                return
            await asyncio.sleep(0.005)
        raise UnknownOutcome(
            f"redis-server for {self.name} did not become ready", hint=f"its log ends:\n{child.tail(8)}"
        )

    async def close(self) -> None:
        """Let go of the node: the lab's own connection, its port, what steps its clock."""
        self._port.close()
        if self._clock is not None:
            self._clock.close()
        await self._control.close()

    async def kill(self) -> None:
        """SIGKILL; its port is kept for when it comes back."""
        await super().kill()
        await self._is_down()

    async def shut_down(self) -> int | None:
        """SHUTDOWN, and wait for its end."""
        child = self.running()
        child.expected_end = True
        with contextlib.suppress(UnknownOutcome):
            await self.ask("SHUTDOWN")  # its answer is that the connection ends
        if not await self._gone(child):
            return None
        await self._is_down()
        return child.process.returncode

    async def _is_down(self) -> None:
        await self._control.close()
        self._port.enter_context(reserved(self.address.port))

    async def ask(self, *arguments: str | int) -> object:
        """Send one command on the lab's own connection. Raises ``UnknownOutcome``."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self._control.call(*arguments)
        except (NodeError, TimeoutError) as error:
            raise UnknownOutcome(f"node {self.name} does not answer the lab: {error}") from error

    async def probe(self, timeout_s: float) -> Probe:
        """ECHO on a connection of its own, around all links."""
        return await echo(self.address, timeout_s)

    async def info(self, section: str) -> dict[str, str]:
        """Return one section of the node's ``INFO`` as names and values."""
        text = await self.ask("INFO", section)
        lines = text.decode().splitlines() if isinstance(text, bytes) else []
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def echoes(self) -> int:
        """Return how many probes this node has executed so far."""
        stats = (await self.info("commandstats")).get("cmdstat_echo", "calls=0")
        return int(stats.split(",")[0].removeprefix("calls="))

    async def now_ns(self) -> int:
        """TIME."""
        answer = await self.ask("TIME")
        if not isinstance(answer, list):
            raise UnknownOutcome(f"node {self.name} answered TIME with {answer!r}")
        return int(answer[0]) * 1_000_000_000 + int(answer[1]) * 1_000

    async def life(self) -> Life:
        """``INFO server`` and ``DBSIZE``."""
        server = await self.info("server")
        return Life(server["run_id"], int(server["process_id"]), _number(await self.ask("DBSIZE")))

    async def disk(self) -> Disk:
        """Its append-only file and what the sync shim has noted of it."""
        return self._disk.state()

    async def lose_unsynced(self) -> Disk:
        """Cut the file back to what was synced."""
        if self.alive:
            raise UnknownOutcome(f"node {self.name} still runs: its files can't be cut")
        return self._disk.lose_unsynced()

    async def touch(self) -> None:
        """SET a key that no lock uses."""
        await self.ask("SET", OWN_KEY, time.monotonic_ns())

    async def ripple(self) -> None:
        """PUBLISH goes to the replicas as well."""
        await self.ask("PUBLISH", OWN_KEY, "")

    async def replicate(self, master: Address) -> None:
        """Become the replica of whoever is behind ``master``, also after a restart."""
        self._replicates = master
        await self.ask("REPLICAOF", master.host, master.port)

    async def promote(self) -> None:
        """REPLICAOF NO ONE; it stays a master after a restart."""
        self._replicates = None
        await self.ask("REPLICAOF", "NO", "ONE")

    async def role(self) -> Role:
        """``INFO replication``: a replica's offset is what it has processed of its master's stream."""
        told = await self.info("replication")
        replica = told.get("role") == "slave"
        self.known_offset = int(told.get("slave_repl_offset" if replica else "master_repl_offset", "0"))
        linked = told.get("master_link_status") == "up"
        return Role("replica" if replica else "master", self.known_offset, linked)

    def stopwatch(self) -> Callable[[], int]:
        """Measure time by the wall clock that its processes see."""
        return Stopwatch(self.clock.now_ns)

    async def _told_time(self) -> ClockReading:
        """Ask for TIME; the answer was made somewhere between the question and now."""
        before_ns = time.time_ns()
        node_ns = await self.now_ns()
        return reading(node_ns, before_ns, time.time_ns())


def _number(answer: object) -> int:
    return answer if isinstance(answer, int) else -1
