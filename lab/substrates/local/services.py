"""Servers other than Redis as processes of this machine: how each kind is laid out, started and asked.

All nodes of one kind make one service, so they are told of each other before any of them starts. They listen
on loopback. Nothing of them is kept after the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lab.addresses import Address
from lab.errors import LabError, UnknownOutcome
from lab.processes import started_at
from lab.redis_model.persistence import Disk
from lab.substrates.base import ClockReading, Life, Memory, Probe, Role, Service, Stored
from lab.substrates.local.leaders import ALONE, ROLES
from lab.substrates.local.processes import Child, Nursery
from lab.substrates.probe import PINGS
from lab.substrates.real.machine import RealMachine
from lab.substrates.real.ports import reserved

HOST: Final = "127.0.0.1"
POSTGRES_USER: Final = "lab"
READY_TIMEOUT_S: Final = 90.0
"""How long a service may take to find itself together, on a machine that is busy."""
IN_ORDER: Final = (0, 130, -2)
"""How they end when SIGINT asks them to: some by the signal itself, once all is put away."""
PREPARED_S: Final = 120.0
"""How long it may take to make the files of a database, on a machine that is busy."""
JAVA: Final = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
TICK_MS: Final = 200
"""ZooKeeper's unit of time: sessions end at most one late."""
INIT_TICKS: Final = 50
"""How many of them a new leader waits for a majority, before there is another election."""
SYNC_TICKS: Final = 25
"""After how many of them a leader and a follower that hear nothing of each other part."""
FAR: Final = "192.0.2.{number}"
"""Where etcd's servers are for each other (RFC 5737). Nobody is there, and no packet goes there: they connect
through a proxy, which Go does for any address but those of loopback."""


@dataclass(frozen=True, slots=True)
class Member:
    """One server of a service: its port for clients, two for its peers, and where its files are.

    ``way_out`` is the port of the SOCKS proxy through which it reaches its peers.
    """

    name: str
    port: int
    peer_ports: tuple[int, int]
    way_out: int
    directory: Path

    @property
    def address(self) -> Address:
        """Where clients reach it, around every link."""
        return Address(self.name, HOST, self.port)


@dataclass(frozen=True, slots=True)
class Launchable:
    """A command, the user under whom it must run if that is another one, and what its environment says."""

    command: tuple[str, ...]
    user: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


Layout = Callable[[Path, Sequence[Member]], Mapping[str, Launchable]]
"""Write what the members need, and return how each is started; the path is that of the installed program."""


def _etcd(program: Path, members: Sequence[Member]) -> dict[str, Launchable]:
    peers = {
        member.name: f"http://{FAR.format(number=number)}:{member.peer_ports[0]}"
        for number, member in enumerate(members, 1)
    }
    everybody = ",".join(f"{name}={url}" for name, url in peers.items())
    started = {}
    for member in members:
        clients, own = f"http://{HOST}:{member.port}", f"http://{HOST}:{member.peer_ports[0]}"
        started[member.name] = Launchable(
            (
                str(program),
                *("--name", member.name, "--data-dir", str(member.directory)),
                *("--listen-client-urls", clients, "--advertise-client-urls", clients),
                *("--listen-peer-urls", own, "--initial-advertise-peer-urls", peers[member.name]),
                *("--initial-cluster", everybody, "--initial-cluster-state", "new"),
                # Both twice the default: on a busy machine a leader is late, and no worse for it.
                *("--heartbeat-interval", "200", "--election-timeout", "2000", "--pre-vote=true"),
                *("--log-level", "warn"),
            ),
            # What the lab itself was told of proxies must not count.
            environment={"HTTP_PROXY": f"socks5://{HOST}:{member.way_out}", "NO_PROXY": HOST},
        )
    return started


def _zookeeper(program: Path, members: Sequence[Member]) -> dict[str, Launchable]:
    # Among equals the largest number leads, so the first server has it.
    numbers = {member.name: len(members) - at for at, member in enumerate(members)}
    everybody = "".join(
        f"server.{numbers[member.name]}={HOST}:{member.peer_ports[0]}:{member.peer_ports[1]}\n"
        for member in members
    )
    started = {}
    for member in members:
        member.directory.mkdir()
        (member.directory / "myid").write_text(f"{numbers[member.name]}\n")
        settings = member.directory / "zoo.cfg"
        settings.write_text(
            f"tickTime={TICK_MS}\ninitLimit={INIT_TICKS}\nsyncLimit={SYNC_TICKS}\n"
            f"minSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout=600000\n"
            f"dataDir={member.directory}\nclientPort={member.port}\nclientPortAddress={HOST}\n"
            "4lw.commands.whitelist=srvr\nadmin.enableServer=false\n" + everybody
        )
        jars = f"{member.directory}:{program}:{program.parent}/*" if _is_upstream(program) else str(program)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        # An empty list of exceptions: by default Java connects to loopback directly.
        way_out = (f"-DsocksProxyHost={HOST}", f"-DsocksProxyPort={member.way_out}", "-DsocksNonProxyHosts=")
        started[member.name] = Launchable((*JAVA, *way_out, "-cp", jars, main, str(settings)))
    return started


def _is_upstream(jar: Path) -> bool:
    """Whether its libraries lie beside it; the jar of the system's package names its own."""
    return jar.parent.name == "lib"


def _postgres(program: Path, members: Sequence[Member]) -> dict[str, Launchable]:
    user = _who_may_run_postgres()
    (member,) = members
    if user is not None:
        member.directory.mkdir()
        shutil.chown(member.directory, user)
        member.directory.parent.chmod(0o711)  # so that this user finds the way
    settings = {
        "listen_addresses": HOST,
        "port": str(member.port),
        "unix_socket_directories": "",
        "max_connections": "50",
        "update_process_title": "off",  # so that nothing is written over the mark of the run
    }
    arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return {member.name: Launchable((str(program), "-D", str(member.directory), *arguments), user)}


def _who_may_run_postgres() -> str | None:
    """Who, if not ourselves: it refuses to run as root. Raises ``LabError``."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise LabError(
        "Postgres does not run as root, and there is neither a user postgres nor nobody",
        expected="an account for it",
        hint="run the lab as an ordinary user",
    )


LAYOUTS: Final[dict[Service, Layout]] = {"etcd": _etcd, "zookeeper": _zookeeper, "postgres": _postgres}


async def prepare(service: Service, launch: Launchable, member: Member, nursery: Nursery) -> None:
    """Make the files that a server needs before its first start. Raises ``UnknownOutcome``."""
    if service != "postgres":
        return
    # Nobody is asked for a password: it listens on loopback only, for as long as the run lasts.
    initdb = Path(launch.command[0]).parent / "initdb"
    options = ("-U", POSTGRES_USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
    child = await nursery.start(
        f"initdb-{member.name}",
        [initdb, "-D", member.directory, *options],
        directory=Path("/"),
        user=launch.user,
    )
    child.expected_end = True
    try:
        async with asyncio.timeout(PREPARED_S):
            code = await child.ended()
    except TimeoutError as error:
        raise UnknownOutcome(f"initdb did not finish within {PREPARED_S:.0f} s") from error
    if code:
        raise UnknownOutcome(f"initdb failed with exit code {code}", hint=f"its log ends:\n{child.tail(8)}")


class ServiceNode(RealMachine[Child]):
    """A server of one service; ``address`` leads to it around every link.

    What only a Redis can be asked is never asked of it: `lab.substrates.refusals` says which faults that
    rules out, before anything is started.
    """

    known_offset = 0

    def __init__(self, service: Service, member: Member, launch: Launchable, nursery: Nursery) -> None:
        super().__init__(member.name, None)
        self.address = member.address
        self._service = service
        self._launch = launch
        self._nursery = nursery
        self._port = contextlib.ExitStack()

    async def launch(self) -> None:
        """Start the process; ``until_ready`` waits until it serves, which it may not do alone."""
        self.child = await self._nursery.start(
            f"node-{self.name}",
            self._launch.command,
            environment=self._launch.environment,
            directory=Path("/"),
            user=self._launch.user,
        )

    async def until_ready(self) -> None:
        """Wait until it answers, and has found its peers. Raises ``UnknownOutcome``."""
        child = self.running()
        loop = asyncio.get_running_loop()
        give_up = loop.time() + READY_TIMEOUT_S
        while child.running and loop.time() < give_up:
            if (await self.probe(1.0)).reached and (await self.role()).linked:
                return
            await asyncio.sleep(0.02)
        raise UnknownOutcome(
            f"{self._service} on {self.name} did not become ready", hint=f"its log ends:\n{child.tail(8)}"
        )

    async def start(self) -> None:
        """Start it again, with what its files keep."""
        await self.launch()
        await self.until_ready()
        self._port.close()

    async def close(self) -> None:
        """Let go of its port."""
        self._port.close()

    async def kill(self) -> None:
        """SIGKILL; its port is kept for when it comes back."""
        await super().kill()
        self._port.enter_context(reserved(self.address.port))

    async def shut_down(self) -> int | None:
        """SIGINT, which each of them takes for an order to end; return 0 if it did so."""
        child = self.running()
        child.expected_end = True
        await child.interrupt()
        code = await self._exit_code(child)
        self._port.enter_context(reserved(self.address.port))
        return 0 if code in IN_ORDER else code

    async def probe(self, timeout_s: float) -> Probe:
        """Ask it around all links, on a connection of its own."""
        return await PINGS[self._service](self.address, timeout_s)

    async def echoes(self) -> int | None:
        """None: nothing counts the questions that it was asked."""
        return None

    async def life(self) -> Life:
        """Its process id and when the kernel started it."""
        pid = self.running().pid
        return Life(f"{pid} since {started_at(pid)}", pid, None)

    async def role(self) -> Role:
        """Ask it whether it leads its peers, or follows one of them."""
        name = await ROLES[self._service](self.address)
        return Role(name, 0, linked=name != ALONE)

    async def read_clock(self) -> ClockReading:
        """It has this machine's clock."""
        return ClockReading(0, 0)

    def stopwatch(self, *, monotonic: bool = False) -> Callable[[], int]:
        """Measure time by the machine's clocks, which are its own."""
        now_ns = time.monotonic_ns if monotonic else time.time_ns
        since_ns = now_ns()
        return lambda: now_ns() - since_ns

    async def now_ns(self) -> int:
        """The machine's time."""
        return time.time_ns()

    async def lose_unsynced(self) -> Disk:
        """Never asked."""
        raise self._only_redis()

    async def disk(self) -> Disk:
        """Never asked."""
        raise self._only_redis()

    async def stored(self, key: str) -> Stored | None:
        """Never asked."""
        raise self._only_redis()

    async def has(self, key: str) -> bool:
        """Never asked."""
        raise self._only_redis()

    async def memory(self) -> Memory:
        """Never asked."""
        raise self._only_redis()

    async def ballast(self, number: int, size_bytes: int, ttl_ms: int | None) -> bool:
        """Never asked."""
        raise self._only_redis()

    async def free_ballast(self, written: int, keep: int = 0) -> int:
        """Never asked."""
        raise self._only_redis()

    async def remove(self, key: str | None) -> int:
        """Never asked."""
        raise self._only_redis()

    async def stall_disk(self, stalls: bool) -> None:
        """Never asked."""
        raise self._only_redis()

    async def held_syncs(self) -> int:
        """Never asked."""
        raise self._only_redis()

    async def ripple(self) -> None:
        """Never asked."""
        raise self._only_redis()

    async def changes(self) -> int:
        """Never asked."""
        raise self._only_redis()

    async def touch(self) -> None:
        """Never asked."""
        raise self._only_redis()

    async def promote(self) -> None:
        """Never asked."""
        raise self._only_redis()

    async def follow(self, master: Address, *, now: bool) -> None:
        """Never asked."""
        raise self._only_redis()

    def _only_redis(self) -> UnknownOutcome:
        return UnknownOutcome(f"{self.name} is a server of {self._service}: that is for Redis nodes only")
