"""Servers other than Redis in containers: how each kind is started, and what it finds there.

As nodes of Redis do they share Toxiproxy's network namespace, where each has ports of its own, and keep their
files in a directory of this machine's, which goes with the run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from lab.addresses import Address
from lab.substrates.base import Service
from lab.substrates.docker import images
from lab.substrates.docker.container import Container
from lab.substrates.docker.engine import Engine
from lab.substrates.docker.topology import ANYWHERE, DATA, LOOPBACK, PROXY, Mount, Spec, port_of
from lab.substrates.local.services import IN_ORDER, JAVA, POSTGRES_USER, TICK_MS, ServiceNode
from lab.substrates.real.machine import RealMachine

if TYPE_CHECKING:
    from docker import APIClient

    from lab.substrates.local.processes import Child

FIRST_PEER_PORT: Final = 7379
"""Two for each server, where it is reached by the others."""
NOBODY: Final = 65534
"""Who runs a Postgres if the lab is run by root, as whom it refuses to run."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One server among its equals; ``directory`` is where this machine sees what lies at ``DATA``."""

    name: str
    nodes: tuple[str, ...]
    directory: Path

    @property
    def port(self) -> int:
        """Where its clients reach it."""
        return port_of(self.name, self.nodes)

    def peers(self) -> dict[str, tuple[int, int]]:
        """The ports at which the servers reach each other, by name."""
        first = FIRST_PEER_PORT
        return {name: (first + 2 * at, first + 2 * at + 1) for at, name in enumerate(self.nodes)}


def _etcd(seat: Seat) -> Sequence[str]:
    urls = {name: f"http://{LOOPBACK}:{port}" for name, (port, _) in seat.peers().items()}
    everybody = ",".join(f"{name}={url}" for name, url in urls.items())
    return (
        "etcd",
        *("--name", seat.name, "--data-dir", str(DATA), "--log-level", "warn"),
        *("--listen-client-urls", f"http://{ANYWHERE}:{seat.port}"),
        *("--advertise-client-urls", f"http://{LOOPBACK}:{seat.port}"),
        *("--listen-peer-urls", urls[seat.name], "--initial-advertise-peer-urls", urls[seat.name]),
        *("--initial-cluster", everybody, "--initial-cluster-state", "new"),
    )


def _zookeeper(seat: Seat) -> Sequence[str]:
    everybody = "".join(
        f"server.{number}={LOOPBACK}:{first}:{second}\n"
        for number, (first, second) in enumerate(seat.peers().values(), 1)
    )
    (seat.directory / "myid").write_text(f"{seat.nodes.index(seat.name) + 1}\n")
    (seat.directory / "zoo.cfg").write_text(
        f"tickTime={TICK_MS}\ninitLimit=100\nsyncLimit=50\n"
        f"minSessionTimeout={2 * TICK_MS}\nmaxSessionTimeout=600000\n"
        f"dataDir={DATA}\nclientPort={seat.port}\nclientPortAddress={ANYWHERE}\n"
        "4lw.commands.whitelist=srvr\nadmin.enableServer=false\n" + everybody
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return (*JAVA, "-cp", "/usr/share/java/zookeeper.jar", main, f"{DATA}/zoo.cfg")


def _postgres(seat: Seat) -> Sequence[str]:
    """Nobody is asked for a password: only the run's own network reaches it, for as long as the run lasts."""
    uid = NOBODY if os.geteuid() == 0 else os.getuid()
    (seat.directory / "passwd").write_text(f"{POSTGRES_USER}:x:{uid}:{uid}::/tmp:/bin/sh\n")
    files = f"{DATA}/files"
    made = (
        f"initdb -D {files} -U {POSTGRES_USER} -A trust -E UTF8 --no-locale --no-sync"
        f" && echo 'host all all all trust' >>{files}/pg_hba.conf"
    )
    settings = f"-c listen_addresses={ANYWHERE} -c port={seat.port} -c unix_socket_directories="
    start = f"PATH=$(echo /usr/lib/postgresql/*/bin):$PATH; test -s {files}/PG_VERSION || {{ {made}; }}"
    return ("sh", "-ec", f"{start}; exec postgres -D {files} {settings} -c max_connections=50")


COMMANDS: Final[dict[Service, Callable[[Seat], Sequence[str]]]] = {
    "etcd": _etcd,
    "zookeeper": _zookeeper,
    "postgres": _postgres,
}
"""How each kind is started; what it reads is written before."""


def spec_of(service: Service, seat: Seat) -> Spec:
    """The container of one server."""
    seat.directory.mkdir()
    command = tuple(COMMANDS[service](seat))
    mounts = [Mount(seat.directory, DATA, writable=True)]
    user = None
    if service == "postgres":
        mounts.append(Mount(seat.directory / "passwd", Path("/etc/passwd")))
        if os.geteuid() == 0:
            user = f"{NOBODY}:{NOBODY}"
            shutil.chown(seat.directory, NOBODY, NOBODY)
    image = images.SERVICES[service].name
    return Spec(seat.name, image, command, mounts=tuple(mounts), shares=PROXY, user=user)


class ContainedServer(ServiceNode):
    """A server of one service in a container. It can be asked what any server of its kind can."""

    def __init__(self, service: Service, seat: Seat, container: Container) -> None:
        RealMachine.__init__(self, seat.name, None)
        self.address = Address(seat.name, "", seat.port)
        self._service = service
        self.container = container
        self._port = contextlib.ExitStack()

    def locate(self, host: str) -> None:
        """Learn the address, which the engine chooses when Toxiproxy's container starts."""
        self.address = Address(self.name, host, self.address.port)

    async def launch(self) -> None:
        """Start the container, or start it again, with what its files keep."""
        self.child = cast("Child", self.container)  # a body as any other
        await self.container.start()

    async def kill(self) -> None:
        """SIGKILL. Nobody else can take its port meanwhile."""
        await RealMachine.kill(self)

    async def shut_down(self) -> int | None:
        """SIGINT, which each of them takes for an order to end; return 0 if it did so."""
        self.container.expected_end = True
        await self.container.interrupt()
        code = await self._exit_code(self.running())
        return 0 if code in IN_ORDER else code


async def version_of(service: Service, container: Container, engine: Engine) -> str:
    """What Debian calls the version that runs. Raises ``UnknownOutcome``."""
    package = images.SERVICE_PACKAGES[service]

    def ask(api: APIClient) -> bytes:
        words = ["dpkg-query", "--showformat=${Version}", "--show", package]
        made: dict[str, Any] = api.exec_create(container.id, words)
        output: bytes = api.exec_start(made["Id"])
        return output

    return (await engine.call(ask)).decode(errors="replace").strip()
