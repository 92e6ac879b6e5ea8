"""What a cluster consists of when it is made of containers: the one description, for runs and for compose.

Toxiproxy's container is on a private network of the run's own. The nodes and the store have containers of
their own, but share Toxiproxy's network namespace: a node that crashes then refuses connections at once, as a
crashed process on a living machine does, while a container that takes its address with it would let them hang
for seconds. Each client's container is on the network, and finds the links there. No port is published by a
run: only this machine reaches the network. By hand (compose) they are, on loopback.

Servers that announce names (Sentinel) tell everybody the same name and port, so each process has a Toxiproxy
of its own, in whose network namespace it is. There every name leads to 127.0.0.1, where that Toxiproxy
listens on the ports of all other servers; each link goes to the network namespace of the other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from lab.redis_model.persistence import Persistence
from lab.servers import DEFAULT_SETTINGS, ServerSettings
from lab.shims import CLOCK_VARIABLE, SYNC_VARIABLE
from lab.substrates.base import STORE
from lab.substrates.docker import images
from lab.substrates.real.node import redis_arguments

LABEL = "lock-lab.run"
"""On everything that a run makes; its value is the run's id."""
PART_LABEL = "lock-lab.part"
"""On each container: what it is in the run."""
PROXY = "toxiproxy"
API_PORT = 8474
FIRST_NODE_PORT = 6379
"""The nodes' ports, one after the other, and the store's behind them: they share one network namespace."""
FIRST_SENTINEL_PORT = 26379
"""Likewise those of the Sentinels."""
FIRST_BUS_PORT = 16379
"""Likewise those of the nodes for the bus of a Redis Cluster."""

ANYWHERE = "0.0.0.0"
LOOPBACK = "127.0.0.1"
DATA = PurePosixPath("/lock-lab/data")
CLOCKS = PurePosixPath("/lock-lab/clocks")
MORE = "more.conf"
"""In a node's directory: what is to be read at its next start."""
CODE = PurePosixPath("/lock-lab/code")
CLOCK_SHIM = "/lock-lab/clock.so"
SYNC_SHIM = "/lock-lab/sync.so"


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of this machine's that a container sees."""

    source: Path
    target: PurePosixPath | Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Spec:
    """One container: what runs in it, and what it sees. Without ``shares`` it is on the run's network.

    ``user`` is who runs it if that is not who runs the lab. ``hosts`` are names that lead to addresses, there
    and in all that share its network namespace.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    shares: str | None = None
    talks: bool = False
    directory: str | None = None
    user: str | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)


def port_of(name: str, nodes: tuple[str, ...]) -> int:
    """The port of a node, or of the store, in the shared network namespace."""
    return FIRST_NODE_PORT + (len(nodes) if name == STORE else nodes.index(name))


def proxy_spec(name: str = PROXY, local_names: Iterable[str] = ()) -> Spec:
    """A Toxiproxy, in whose network namespace others are, and find these names at its own ports."""
    command = ("toxiproxy-server", "-host", ANYWHERE, "-port", str(API_PORT))
    return Spec(name, images.TOXIPROXY.name, command, hosts=dict.fromkeys(local_names, LOOPBACK))


def proxy_of(process: str) -> str:
    """What the Toxiproxy is called that one process has of its own."""
    return f"{PROXY}-{process}"


def node_spec(
    name: str,
    nodes: tuple[str, ...],
    persistence: Persistence,
    mounts: NodeMounts | None,
    image: str = "",
    settings: ServerSettings = DEFAULT_SETTINGS,
) -> Spec:
    """A node, or the store. Without ``mounts`` (by hand) it keeps its files in the container.

    ``image`` is the one to use, in place of the default server's.
    """
    port = port_of(name, nodes)
    directory = str(DATA) if mounts is not None else "/tmp"
    kept: Persistence = "none" if name == STORE else persistence
    more_settings = DEFAULT_SETTINGS if name == STORE else settings
    arguments = [
        *redis_arguments(port, ANYWHERE, directory, kept, more_settings),
        *("--protected-mode", "no"),
    ]
    more = (f"{DATA}/{MORE}",) if mounts is not None else ()
    return Spec(
        name,
        image or images.NODE.name,
        ("redis-server", *more, *arguments),
        mounts.environment() if mounts is not None else {},
        mounts.mounts() if mounts is not None else (),
        shares=PROXY,
    )


@dataclass(frozen=True, slots=True)
class NodeMounts:
    """A node's directories on this machine: its data, and the clocks. ``clock`` is the file of its own."""

    data: Path
    clocks: Path
    clock: str | None
    records_syncs: bool

    def mounts(self) -> tuple[Mount, ...]:
        """What its container sees."""
        return Mount(self.data, DATA, writable=True), Mount(self.clocks, CLOCKS)

    def environment(self) -> dict[str, str]:
        """The shims, and where they read and write."""
        variables = clock_environment(self.clock) if self.clock is not None else {}
        if self.records_syncs:
            variables["LD_PRELOAD"] = f"{SYNC_SHIM}:{CLOCK_SHIM}"
            variables[SYNC_VARIABLE] = f"{DATA}/synced"
        return variables


def clock_environment(clock: str) -> dict[str, str]:
    """What gives a process in a container the clock of that name."""
    return {"LD_PRELOAD": CLOCK_SHIM, CLOCK_VARIABLE: f"{CLOCKS}/{clock}"}


def sentinel_spec(name: str, mounts: NodeMounts, image: str) -> Spec:
    """A Sentinel; all that it is told is in its file, which it rewrites."""
    return Spec(
        name,
        image,
        ("redis-server", f"{DATA}/{MORE}", "--sentinel"),
        mounts.environment(),
        mounts.mounts(),
        shares=proxy_of(name),
    )


def client_spec(
    name: str, clocks: Path, logs: Path, code: Path | None, image: str, *, imports_code: bool = True
) -> Spec:
    """A client. It writes its log where this machine finds it, under that path; ``code`` is the user's.

    Unless it ``imports_code``, none of the user's modules can get in the way of its own.
    """
    mounts = [Mount(clocks, CLOCKS), Mount(logs, logs, writable=True)]
    if code is not None:
        mounts.append(Mount(code, CODE))
    return Spec(
        f"client-{name}",
        image,
        ("python3", *(() if imports_code else ("-P",)), "-m", "lab.client"),
        {**clock_environment(name), "PYTHONDONTWRITEBYTECODE": "1"},
        tuple(mounts),
        talks=True,
        directory=str(CODE) if code is not None else None,
    )


HARDENED: dict[str, Any] = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "read_only": True}
"""What every container may not do. /tmp and /data are in memory: images of Redis declare /data a volume."""
IN_MEMORY = {"/tmp": "size=256m", "/data": "size=256m"}
LIMITS: dict[str, Any] = {"mem_limit": 1 << 30, "pids_limit": 1024}
"""What a container may use at most, in bytes and in threads, so that a defective process cannot exhaust the
machine. A JVM with a driver of some hundred threads needs less."""
LOGGING: dict[str, Any] = {"driver": "json-file", "options": {"max-size": "16m", "max-file": "2"}}
"""How much of a container's output the engine keeps."""
