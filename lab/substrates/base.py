"""What every substrate offers: nodes with clocks, links that can be cut, clients that can be paused.

Faults act through these protocols only. A substrate states its capabilities; a scenario that needs what
the substrate lacks is refused with a reason, never silently weakened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from lab.addresses import Address
from lab.client_protocol import Answer, Command, Setup
from lab.redis_model.persistence import Disk, Persistence
from lab.servers import DEFAULT_SETTINGS, Server, ServerSettings

if TYPE_CHECKING:
    from lab.substrates.answering import Answering
    from lab.substrates.plan import ClusterPlan

Direction = Literal["both", "requests", "replies"]
Stream = Literal["requests", "replies"]
ConnectionKind = Literal["commands", "subscription"]
"""A connection on which a client has subscribed to channels, or any other."""
Service = Literal["redis", "etcd", "zookeeper", "postgres"]
"""What kind of servers the nodes are. The store is a Redis, whatever they are."""

STORE = "store"
"""The name under which links to the store are known."""

MASTER = "master"
"""What a Redis is called that takes writes."""

LEADER = "leader"
"""What the server of a service is called that leads its peers."""


class Capability(StrEnum):
    """Something a substrate may be able to do to its parts."""

    CUT_LINKS = "cut links"
    HOLD_LINKS = "hold packets on links"
    SLOW_LINKS = "slow links down"
    NARROW_LINKS = "narrow links"
    RESET_LINKS = "reset connections"
    REPLICATION = "replicate from node to node"
    NODE_CLOCKS = "shift the clock of one node"
    CLIENT_CLOCKS = "shift the clock of one client"
    PAUSE_CLIENTS = "pause client processes"
    PAUSE_NODES = "pause nodes"
    KILL_CLIENTS = "kill client processes"
    STOP_NODES = "stop nodes and start them again"
    POWER_CUTS = "cut the power of nodes"
    WATCH_KEYS = "watch the lock's key on the nodes"
    SEE_COMMANDS = "see which commands nodes execute"
    OTHER_SERVICES = "run nodes that are no Redis"
    CUT_PEERS = "cut the servers of one service off from each other"
    ONE_CONNECTION = "act on the subscriptions of a link, or on its other connections"
    ANSWER_ERRORS = "let nodes answer commands with errors"
    REMOVE_KEYS = "remove keys from nodes"
    STALL_DISKS = "let the disk of a node stall"
    FILL_MEMORY = "fill the memory of nodes"
    DRIVERS = "run programs that put other libraries to the test (drivers)"
    SENTINELS = "run Redis Sentinels"
    REDIS_CLUSTER = "run a Redis Cluster"
    HEAR_SENDS = "tell that a client is about to send something to nodes"


@dataclass(frozen=True, slots=True)
class Probe:
    """One ECHO through a link, or around it: did an answer come, and after how many nanoseconds."""

    reached: bool
    round_trip_ns: int


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How far a wall clock is ahead of this machine's, and how uncertain that is, in nanoseconds."""

    offset_ns: int
    uncertainty_ns: int


@dataclass(frozen=True, slots=True)
class Stored:
    """What a node keeps under a key: its value as text, or its type, and how many milliseconds it has left.

    The time is None for a key that never expires.
    """

    value: str
    left_ms: int | None


@dataclass(frozen=True, slots=True)
class Memory:
    """How much memory a node uses, how much it may (0: any), what it does then, how many keys it evicted."""

    used_bytes: int
    limit_bytes: int
    policy: str
    evicted_keys: int

    @property
    def evicts(self) -> bool:
        """Whether it evicts keys when its memory is full."""
        return self.policy != "noeviction"


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a server process: it has another ``run_id`` after each start.

    A Redis tells it by itself, and its ``keys``; of others it is what the kernel says of the process.
    """

    run_id: str
    process_id: int
    keys: int | None


@dataclass(frozen=True, slots=True)
class Role:
    """What a node says it is, how far it has come, and whether it hears its master.

    A Redis is "master" or "replica", a Sentinel "sentinel", the server of a service "leader" or "follower",
    or "alone" if it knows no leader. ``follows`` is host and port of a replica's master.
    """

    name: str
    offset: int
    linked: bool
    follows: str = ""
    promoted_at: int | None = None
    """Of a master that was a replica: how far it had come in the stream of its master, if it tells."""


class Link(Protocol):
    """The way from one client to one node or to the store, from a replica to its master, or between servers.

    ``client`` is the near end, the name of a node for those between nodes.
    """

    client: str
    target: str
    address: Address

    @property
    def answering(self) -> Answering | None:
        """What answers commands with errors in the place of the node, if a schedule asks for it."""
        ...

    def only(self, kind: ConnectionKind) -> Link:
        """The same link, of which acts and probes concern the connections of one kind; ``heal`` all."""
        ...

    async def cut(self, direction: Direction, *, refused: bool) -> None:
        """Let nothing pass any more: a black hole, or (``refused``) connections that are refused."""
        ...

    async def hold(self, direction: Direction) -> None:
        """Keep what is sent in the network; ``heal`` delivers it."""
        ...

    async def delay(self, by_ns: int, jitter_ns: int, direction: Direction) -> None:
        """Let every packet take ``by_ns`` ± ``jitter_ns`` longer, in each direction that is named."""
        ...

    async def narrow(self, rate_kb_per_s: int, direction: Direction) -> None:
        """Let no more than that pass."""
        ...

    async def reset(self) -> None:
        """Reset the connections that are open; new ones can be made afterwards."""
        ...

    async def heal(self) -> None:
        """Undo everything that was done."""
        ...

    async def troubles(self) -> list[str]:
        """Ask whoever carries the link what is done to it now; empty when it is whole."""
        ...

    @property
    def ways(self) -> Sequence[Way]:
        """Between servers of one service: how each of them is reached by the other. Otherwise none."""

    async def probe(self, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """Send one ECHO through the link, as the client would; reached if every way is open."""
        ...

    async def witness(self) -> Witness:
        """Open a connection through the link and keep it, to see what becomes of it."""
        ...


class Way(Protocol):
    """How one server of a service is reached by another one."""

    @property
    def client(self) -> str:
        """The one who wants to reach the other."""

    @property
    def target(self) -> str:
        """The one who is reached."""

    async def probe(self, timeout_s: float) -> Probe:
        """Ask it as its peer would, on the port for peers."""

    async def around(self, timeout_s: float) -> Probe:
        """Ask it the same on the same port, but not by this way."""


class Witness(Protocol):
    """One connection through a link, open and idle."""

    async def fate(self, timeout_s: float) -> str:
        """Wait for its end; "reset", "closed", or "open" if nothing happened for so long. Closes it."""


class Machine(Protocol):
    """What nodes and clients have in common: a process group, and a wall clock of its own."""

    name: str

    @property
    def alive(self) -> bool:
        """Whether its process runs (or stands still, paused)."""
        ...

    async def pause(self) -> None:
        """Stop the whole process group, as a stop-the-world collector would."""
        ...

    async def resume(self) -> None:
        """Let it go on."""
        ...

    def states(self) -> dict[int, str]:
        """Return the state letter of each process of the group, by process id (``T`` is stopped)."""
        ...

    async def kill(self) -> None:
        """End the whole process group at once and wait until it is gone."""
        ...

    async def jump_clock(self, by_ns: int) -> None:
        """Step its wall clock."""
        ...

    async def drift_clock(self, ppm: int) -> None:
        """Let its wall clock run so much too fast from now on, without a step."""
        ...

    async def strobe_clock(self, by_ns: int, every_ns: int) -> None:
        """Step its wall clock forth and back until it is corrected."""
        ...

    async def correct_clock(self) -> None:
        """Set its wall clock right."""
        ...

    async def read_clock(self) -> ClockReading:
        """Ask the process for its wall clock and compare it with this machine's.

        When it can't answer (it is down, or stands still), another process with the same clock is asked.
        """
        ...


class Node(Machine, Protocol):
    """One server of the cluster. ``address`` leads to it directly, around every link."""

    address: Address
    known_offset: int
    """How far it had come in the replication when it was last asked."""

    async def probe(self, timeout_s: float) -> Probe:
        """Send one ECHO around all links."""
        ...

    async def echoes(self) -> int | None:
        """Return how many probes this node has executed so far: the proof that one arrived, or did not.

        None where the server does not count them.
        """
        ...

    async def now_ns(self) -> int:
        """Ask the node what its wall clock shows, in nanoseconds of Unix time."""
        ...

    async def life(self) -> Life:
        """Ask the node who it is and how many keys it has."""
        ...

    async def shut_down(self) -> int | None:
        """Ask it to end in order; return its exit code, None if it did not end."""
        ...

    async def lose_unsynced(self) -> Disk:
        """Cut the files of a node that is down back to what was synced; return what was there before."""
        ...

    async def start(self) -> None:
        """Start a node that is down, with what its files keep. Raises ``UnknownOutcome``."""
        ...

    def stopwatch(self, *, monotonic: bool = False) -> Callable[[], int]:
        """Begin to measure time (ns) by a clock of this machine; it runs while the node is down.

        That is the wall clock, or with ``monotonic`` the clock that no step can move.
        """
        ...

    async def disk(self) -> Disk:
        """Look at its append-only file, or at its snapshot."""
        ...

    async def changes(self) -> int:
        """Ask the node how many changes there were since its last snapshot."""
        ...

    async def stored(self, key: str) -> Stored | None:
        """Ask the node what it keeps under a key; None: nothing."""
        ...

    async def has(self, key: str) -> bool:
        """Ask the node whether it has a key; that does not count as a use of it."""
        ...

    async def memory(self) -> Memory:
        """Ask the node how much memory it uses."""
        ...

    async def ballast(self, number: int, size_bytes: int, ttl_ms: int | None) -> bool:
        """Write a key of the lab's own, the one of this number; False: the node refuses (OOM)."""
        ...

    async def free_ballast(self, written: int, keep: int = 0) -> int:
        """Remove the keys below this number that ``ballast`` wrote, but ``keep`` that are there.

        Returns how many there were.
        """
        ...

    async def remove(self, key: str | None) -> int:
        """Remove a key, or with None every key, past all links; return how many keys there were."""
        ...

    async def stall_disk(self, stalls: bool) -> None:
        """Let no sync to its disk end from now on, or let all of them end."""
        ...

    async def held_syncs(self) -> int:
        """Return how many syncs to disk it waits for, because its disk stalls."""
        ...

    async def ripple(self) -> None:
        """Send something to its replicas that changes no key."""
        ...

    async def touch(self) -> None:
        """Write a key of the lab's own, so that the append-only file grows."""
        ...

    async def role(self) -> Role:
        """Ask the node what it is in the replication, or among its peers."""
        ...

    async def promote(self) -> None:
        """Make it a master."""
        ...

    async def follow(self, master: Address, *, now: bool) -> None:
        """Replicate whoever is behind ``master``, from now on, or (not ``now``) from its next start."""
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What a server reports: the node that is the master, since which epoch, and which it holds to be down.

    In a Redis Cluster ``master`` is the one that serves the slot of the lock's key ("" if none does), and
    ``epoch`` its config epoch. ``down`` are the servers that the reporter holds to be down by itself
    (``s_down`` of Sentinel, ``fail?`` or ``fail`` of Redis Cluster).
    """

    master: str
    epoch: int
    down: frozenset[str]


class Reporter(Node, Protocol):
    """A server that reports which node is the master: a Sentinel, or a node of a Redis Cluster."""

    async def view(self) -> View:
        """Ask it what it holds to be so. Raises ``UnknownOutcome``."""
        ...

    async def start_failover(self, *, force: bool) -> None:
        """Let it start a failover although the master is not down. Raises ``UnknownOutcome``: it refused.

        A Sentinel promotes a replica, which may lack what the master wrote last. A replica of a Redis Cluster
        takes over from its master when it has all of that; with ``force`` without asking the master.
        """
        ...


class Sentinel(Reporter, Protocol):
    """A Redis Sentinel."""

    def heard(self) -> AsyncIterator[tuple[str, str]]:
        """The events that it publishes from now on: their names and texts. Raises ``UnknownOutcome``."""
        ...


class Shard(Reporter, Protocol):
    """A node of a Redis Cluster."""

    async def keys_of_slot(self) -> int:
        """How many keys it has in the slot of the lock's key."""
        ...

    async def moves_slot(self) -> str:
        """What it says of a move of that slot: "to B", "from A", or empty."""
        ...


class Client(Machine, Protocol):
    """One client process."""

    async def start(self, setup: Setup) -> None:
        """Start it and wait until it is ready. Raises ``UnknownOutcome`` if it does not become so."""
        ...

    async def order(self, command: Command) -> Answer:
        """Send one command and wait for its answer. Raises ``UnknownOutcome`` if the client died."""
        ...

    async def send(self, command: Command) -> None:
        """Send one command that has no answer, like ``stop``."""
        ...


class Sendings(Protocol):
    """What one client is about to send to nodes."""

    begins: list[Callable[[], None]]
    """Called before the first message that the client sends in an instant; one of them may ``hold`` it."""

    def hold(self) -> None:
        """Let nothing of what is about to be sent leave until ``go_on``."""
        ...

    def go_on(self) -> None:
        """Let it leave, as soon as the client does not stand still."""
        ...


class Cluster(Protocol):
    """Everything that runs during a run, and the only thing faults can touch."""

    not_simulated: bool
    """Whether ``failed`` says that a lock used what simulated nodes do not do."""
    forbidden: bool
    """Whether ``failed`` says that a lock used what must not be used on servers that are not the lab's."""
    failed: asyncio.Future[str]
    """Completes with a sentence when something died that no fault touched."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name, in order."""
        ...

    @property
    def clients(self) -> Mapping[str, Client]:
        """The clients by name."""
        ...

    @property
    def replicas(self) -> Mapping[str, str]:
        """Which nodes replicate which masters (replica → master), after promotions as well."""
        ...

    async def promote(self, replica: str) -> None:
        """Make a replica a master."""
        ...

    async def attach(self, replica: str, master: str, *, now: bool) -> None:
        """Let a node replicate another over their link, from now on or from its next start."""
        ...

    @property
    def sentinels(self) -> Mapping[str, Sentinel]:
        """The Redis Sentinels by name, in order; none where there are none."""
        ...

    @property
    def shards(self) -> Mapping[str, Shard]:
        """The nodes of a Redis Cluster by name, in order; none where the nodes are none."""
        ...

    @property
    def reporters(self) -> Mapping[str, Reporter]:
        """Those who report which node is the master: the Sentinels, or the nodes of a Redis Cluster."""
        ...

    async def open_slot(self, to: str, *, with_keys: bool) -> None:
        """Begin to move the slot of the lock's key to a master of a Redis Cluster, and move its keys.

        Raises ``UnknownOutcome``.
        """
        ...

    async def assign_slot(self, to: str) -> None:
        """Give the slot of the lock's key to a master. Raises ``UnknownOutcome``."""
        ...

    @property
    def persistence(self) -> Persistence:
        """What its Redis nodes keep on disk."""
        ...

    @property
    def lock_keys(self) -> Sequence[str]:
        """The keys on the nodes that the lock uses."""
        ...

    @property
    def store_node(self) -> Node:
        """The store, which no fault touches; only the way to it."""
        ...

    async def up(self) -> None:
        """Start and prove healthy. Raises ``LabError`` for bad input, ``UnknownOutcome`` otherwise."""
        ...

    async def down(self) -> None:
        """Stop everything that was started; never raises for what is gone already."""
        ...

    def link(self, client: str, target: str) -> Link:
        """Return the link from a client to a node or to ``STORE``, or between two nodes."""
        ...

    def sendings_of(self, client: str) -> Sendings:
        """Notice from now on what a client sends to nodes; with ``Capability.HEAR_SENDS`` only."""
        ...

    @property
    def server(self) -> Server | None:
        """What the nodes are, as they report themselves; None before they are up."""
        ...

    def versions(self) -> dict[str, str]:
        """Return the versions of what else runs."""
        ...


class Substrate(Protocol):
    """A way to run a scenario, known by its name before anything is started."""

    @property
    def name(self) -> str:
        """The word for `--on`."""
        ...

    @property
    def what(self) -> str:
        """What it runs, in a few words."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do to its parts."""
        ...

    def missing_reason(self) -> str | None:
        """Say why it cannot run here, or None if it can be tried; answers within a second or so."""
        ...

    def servers(self, wanted: str | None = None) -> str | None:
        """Name product and version of its Redis nodes, as far as known before they are started.

        ``wanted`` is the server that they are to be, such as ``redis@8.2``, in place of the default. Raises
        ``LabError``: they can't be that one here.
        """
        ...

    def lacks(
        self,
        service: Service,
        needed: frozenset[Capability] = frozenset(),
        wanted: str | None = None,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> str | None:
        """Say what nodes of this kind lack for that, as far as it is known before they are started.

        ``settings`` is how Redis nodes are to be set up.
        """
        ...

    def open_files(self, nodes: int, clients: int) -> int:
        """How many open files a process of such a run needs at least: the lab, a server or a proxy."""
        ...

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        """Return a cluster that is not up yet."""
        ...
