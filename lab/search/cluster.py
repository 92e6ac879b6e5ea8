"""The cluster of a trial, as faults see it: nothing that is done to it, or asked of it, takes any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, cast

from lab.addresses import Address
from lab.client_protocol import Answer, Command
from lab.errors import UnknownOutcome
from lab.faults.answers import Answers
from lab.redis_model import ErrorReply, RedisModel
from lab.redis_model.keyspace import Hash, Stream
from lab.redis_model.known import Missing
from lab.redis_model.model import modelled
from lab.redis_model.sentinel import Remembered
from lab.search.faults import every_fault, is_a
from lab.search.trial import Trial
from lab.search.watch import CommandLog, parts_of_stream
from lab.servers import DEFAULT, ServerSettings, replication_links
from lab.substrates.answering import Answering
from lab.substrates.base import STORE, ClockReading, Life, Probe
from lab.substrates.peers import PeerLink, PeerWay, links_between
from lab.substrates.plan import SentinelPlan
from lab.substrates.probe import OpenConnection, Ping
from lab.substrates.sentinels import host_name, pairs
from lab.substrates.sim.link import SimLink
from lab.substrates.sim.loop import HostLoop, host_with_loop
from lab.substrates.sim.machine import SimMachine
from lab.substrates.sim.network import Connection, Network, Way
from lab.substrates.sim.node import PORT, SimNode
from lab.substrates.sim.sending import Sendings
from lab.substrates.sim.sentinels import SENTINEL_PORT, SimSentinel, settings_of

if TYPE_CHECKING:
    from lab.search.actor import Actor

ANSWERED: Final = Probe(reached=True, round_trip_ns=0)
SILENT: Final = Probe(reached=False, round_trip_ns=0)
NEVER: Final = 1 << 62
"""The end of a key that has none."""


def is_of(token: str, value: object) -> bool:
    """Whether a key's value is a token, or a hash that has it as a field or as what stands there.

    A token is text: of bytes that are no UTF-8, each bad sequence is U+FFFD there.
    """
    if isinstance(value, Stream):
        return any(part.text == token for part in parts_of_stream(value))
    if isinstance(value, dict):
        return any(is_of(token, each) for pair in value.items() for each in pair)
    return isinstance(value, bytes) and (value == token.encode() or value.decode(errors="replace") == token)


class TrialMachine(SimMachine):
    """A machine whose clock is looked at."""

    async def acting(self) -> None:
        """Take no time."""

    async def read_clock(self) -> ClockReading:
        """Exactly what it shows."""
        return ClockReading(self.host.clock.shift_ns(), 0)


class TrialNode(TrialMachine, SimNode):
    """A node that starts at once, and is looked at instead of asked."""

    log: CommandLog | None = None
    """Where the commands that it executes are noted, if that is wanted."""

    hears: Callable[[Sequence[bytes]], None] | None = None
    """Told of every command that it executes, if that is wanted."""

    def boot(self) -> None:
        """Start it, and note what it executes."""
        super().boot()
        if self.log is not None:
            self.log.begin(self.name, self.model)
        if self.hears is not None:
            self.hear(self.hears)

    def hear(self, heard: Callable[[Sequence[bytes]], None]) -> None:
        """Tell ``heard`` of every command that it executes from now on, also after a restart."""
        self.hears, noted = heard, self.model.on_command

        def note(words: Sequence[bytes], peer: str) -> None:
            if noted is not None:
                noted(words, peer)
            heard(words)

        self.model.on_command = note

    def receive(self, connection: Connection, data: bytes) -> None:
        """Execute what has come over a connection that speaks the protocol."""
        if self.log is not None:
            self.log.asker, self.log.message = connection.near_name, data
        super().receive(connection, data)
        if self.log is not None and self._model is not None:
            self.log.end(self.name, self._model)

    async def start(self) -> None:
        """Start it with what its files keep."""
        self.boot()

    async def probe(self, timeout_s: float) -> Probe:
        """Whether it would answer around all links."""
        return SILENT if self.host.down or self.host.paused else ANSWERED

    async def echoes(self) -> None:  # type: ignore[override]
        """It counts no probes: none is sent."""

    async def life(self) -> Life:
        """Which life this is."""
        return Life(self._run_id(), self.process_id, None)

    async def ask(self, *arguments: str | int) -> object:
        """Let the server execute one command at once. Raises ``UnknownOutcome``."""
        return self._asked(*arguments)

    def become_replica(self, master: Address) -> None:
        """Follow a master from now on, also after a restart."""
        self._replicates = master
        self._asked("REPLICAOF", master.host, master.port)

    def _asked(self, *arguments: str | int) -> object:
        if self.host.paused:
            raise UnknownOutcome(f"node {self.name} does not answer the lab: it stands still")
        answer: object = self.host.run(self.model.call, *arguments)
        self._arm()
        if isinstance(answer, ErrorReply):
            raise UnknownOutcome(f"node {self.name} does not answer the lab: {answer}")
        return answer

    def _run_id(self) -> str:
        """Not drawn: nobody asks for it."""
        return f"{self._life:040x}"

    def keeps(self, key: bytes) -> object:
        """What it holds under a key now, without its noticing that somebody looked; None: nothing."""
        if self._model is None or self.host.down:
            return None
        keys, now_ms = self._model.keys, self.host.clock.wall_ns() // 1_000_000
        until_ms = keys.until_ms(key)
        if until_ms is not None and now_ms > until_ms:
            return None
        value = keys.data.get(key)
        return value.without_expired(now_ms) if isinstance(value, Hash) else value

    def keeps_for_ns(self, token: str) -> int:
        """For how long it keeps a token yet, under whatever key: 0 if it does not, ``NEVER`` if nobody knows.

        That is so while it is down, and of a key without an end.
        """
        if self._model is None or self.host.down:
            return NEVER
        keys, longest_ns = self._model.keys, 0
        for key, value in keys.data.items():
            if is_of(token, value):
                until_ms = keys.until_ms(key)
                left_ns = NEVER if until_ms is None else until_ms * 1_000_000 - self.host.clock.wall_ns()
                longest_ns = max(longest_ns, left_ns)
        return longest_ns

    def take_apart(self) -> None:
        """The trial is over: refer to nothing any more."""
        if self._model is not None:
            self._drop_model(self._model)
        self.host.on_resume = self._on_missing = None
        self._ways.clear()

    def _drop_model(self, model: RedisModel) -> None:
        model.drop()
        vars(model).clear()  # its parts refer to it
        self._model = None


class TrialSentinel(SimSentinel, TrialNode):
    """A Sentinel that knows the replicas and the other Sentinels from the beginning."""

    probe = TrialNode.probe


def what_sentinels_know(plan: SentinelPlan, master: str, replicas: Iterable[str]) -> dict[str, Remembered]:
    """What each Sentinel has in its file when all have found each other, and nothing has happened yet."""
    others = tuple((host_name(name), SENTINEL_PORT, f"{name:0>40}") for name in plan.names)
    copies = tuple((host_name(name), PORT) for name in replicas)
    return {
        name: Remembered(
            own[2], 0, (host_name(master), PORT), 0, 0, copies, tuple(each for each in others if each != own)
        )
        for name, own in zip(plan.names, others, strict=True)
    }


class TrialLink(SimLink):
    """A link that is looked at instead of probed."""

    def __init__(self, way: Way, client: str, node: SimNode, address: Address) -> None:
        super().__init__(way, client, node.name, address)
        self._node = node

    async def acting(self) -> None:
        """Take no time."""

    async def witness(self) -> OpenConnection:
        """What is connected over it now."""
        return cast(OpenConnection, _Connected(self._way))

    async def probe(self, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """Whether an ECHO would be answered, and how long its two ways are delayed."""
        delay_ns, host = 0, self._node.host
        if self._way.refused:
            return SILENT
        for pipe in (self._way.requests, self._way.replies):
            trouble = pipe.trouble
            if trouble is not None:
                if trouble.lost or trouble.held:
                    return SILENT
                delay_ns += trouble.delay_ns
        if host.down or host.paused:
            return SILENT
        return Probe(reached=True, round_trip_ns=delay_ns) if delay_ns else ANSWERED


class _Connected:
    """The connections that are open over a way when it is made."""

    def __init__(self, way: Way) -> None:
        self._way, self._numbers = way, set(way.connections)

    async def fate(self, timeout_s: float) -> str:
        """What became of them; ``absent``: there were none."""
        if not self._numbers:
            return "absent"
        return "reset" if self._numbers.isdisjoint(self._way.connections) else "open"


class TrialClient(TrialMachine):
    """A client's machine; its loop runs the client's rounds."""

    def __init__(self, loop: HostLoop, network: Network) -> None:
        self.loop = loop
        self._network = network
        self.actor: Actor | None = None
        self.order: Callable[[Command], Awaitable[Answer]]
        """Carries out a command, in its own loop; of one that is killed there is no answer."""
        super().__init__(self.loop.host, 0)

    async def send(self, command: Command) -> None:
        """Let it cancel a command, after all else that happens at this instant; a dead one hears nothing."""
        self.host.world.after(0, self._cancel, command.id)

    def _cancel(self, command_id: int) -> None:
        if self.actor is not None and not self.host.down:
            self.loop.call_soon(self.actor.cancel, command_id)

    async def kill(self) -> None:
        """End it at once: its code runs no more, its machine closes its connections."""
        if not self.host.down:
            self.host.down, self.host.paused = True, False
            self.loop.stop_for_ever()
            self._network.close_all_of(self.name)


class TrialCluster:
    """What ``lab.substrates.base.Cluster`` says, as far as the faults of a trial need it.

    Args:
        network: where it is made.
        trial: which nodes and clients there are.
        kind: the class of its nodes.
        log: where the commands that nodes execute are noted, if that is wanted.
        on_missing: called with what a request used and simulated nodes do not do.
    """

    def __init__(
        self,
        network: Network,
        trial: Trial,
        kind: Callable[..., TrialNode],
        log: CommandLog | None = None,
        on_missing: Callable[[Missing], None] | None = None,
    ) -> None:
        ids: Callable[[], int] = partial(next, count(100))
        server = modelled(trial.server, "the trial's `server`") if trial.server else DEFAULT
        settings = ServerSettings(config=tuple(trial.config.items()))
        plan = trial.watched_by
        self.nodes = {
            name: kind(
                name,
                network,
                ids,
                trial.persistence,
                server,
                on_missing,
                settings,
                host_name(name) if plan is not None else "",
            )
            for name in trial.node_names
        }
        self.store_node = kind(STORE, network, ids, "none")
        self.clients: dict[str, TrialClient] = {}
        self.replicas = trial.replicas
        self.lock_keys: tuple[str, ...] = ()
        """Asked for by faults that take one of them away, of which no trial has any."""
        self._links: dict[tuple[str, str], TrialLink | PeerLink] = {}
        for node in self.nodes.values():
            node.log = log
        for node in self.servers():
            node.boot()
        self._network = network
        self._answers = any(is_a(fault, Answers) for fault in every_fault(trial))
        for client in trial.clients:
            self.clients[client] = self._client(client)
            for node in self.servers():
                self._links[client, node.name] = self._link(client, node)
        self.sentinels: dict[str, TrialSentinel] = {}
        if plan is None:
            for replica, other in replication_links(self.replicas):
                self._links[replica, other] = self._link(replica, self.nodes[other])
            return
        (master,) = set(self.nodes) - set(self.replicas)
        known = what_sentinels_know(plan, master, self.replicas)
        for name in plan.names:
            about = settings_of(plan, name, master)
            self.sentinels[name] = TrialSentinel(name, network, ids, about, server, on_missing, known[name])
        self._link_by_names()

    @property
    def reporters(self) -> Mapping[str, TrialSentinel]:
        """Who says which node is the master."""
        return self.sentinels

    def _link_by_names(self) -> None:
        """Let every process reach every server by its name, over a link of its own."""
        servers: dict[str, TrialNode] = {**self.nodes, **self.sentinels}
        ways: dict[tuple[str, str], PeerWay] = {}
        for near, far in pairs(self.clients, tuple(self.nodes), tuple(self.sentinels)):
            server = servers[far]
            link = self._links.get((near, far)) or self._link(near, server)
            assert isinstance(link, TrialLink)
            self._network.resolve(near, host_name(far), link.address.host)
            if near in self.clients:
                self._links[near, far] = link
            ways[near, far] = PeerWay(near, far, link, _looked_at(server), server.address)
        self._links |= links_between(tuple(servers), ways)

    def begin_replication(self) -> None:
        """Let replicas follow their masters from now on, and Sentinels watch them."""
        for replica, master in self.replicas.items():
            named = Address(master, host_name(master), PORT) if self.sentinels else None
            self.nodes[replica].become_replica(named or self.link(replica, master).address)
        for sentinel in self.sentinels.values():
            sentinel.boot()

    async def promote(self, replica: str) -> None:
        """Make a replica a master."""
        await self.nodes[replica].promote()
        del self.replicas[replica]

    async def attach(self, replica: str, master: str, *, now: bool) -> None:
        """Let a node replicate another one."""
        self.replicas[replica] = master
        await self.nodes[replica].follow(self.link(replica, master).address, now=now)

    def _client(self, name: str) -> TrialClient:
        return TrialClient(host_with_loop(self._network.world, name, self._network), self._network)

    def _link(self, near: str, node: TrialNode) -> TrialLink:
        """A new link to a node, from a client or a replica."""
        host = f"{near}-{node.name}"
        port = node.address.port
        way = node.reached_over(host, port)
        return TrialLink(
            self._read(way) if near in self.clients else way, near, node, Address(node.name, host, port)
        )

    def _read(self, way: Way) -> Way:
        """Where a fault of the trial is to answer commands with errors, they are read."""
        if self._answers:
            way.read(self._network.world, Answering())
        return way

    def servers(self) -> Iterator[TrialNode]:
        """The nodes, and the store."""
        yield from self.nodes.values()
        yield self.store_node

    def link(self, client: str, target: str) -> TrialLink | PeerLink:
        """Return the link from a client to a server or to the store, or between two servers."""
        return self._links[client, target]

    def sendings_of(self, client: str) -> Sendings:
        """Notice from now on what a client sends to nodes."""
        machine = self.clients[client]
        if machine.sendings is None:
            machine.sendings = Sendings(machine.host)
            for name in self.nodes:
                link = self._links[client, name]
                assert isinstance(link, TrialLink)
                machine.sendings.watch(link.requests, name)
        return machine.sendings

    def end(self) -> None:
        """End what runs outside of the trial's world: nothing does."""

    def take_apart(self) -> None:
        """Cut what refers to each other: then it is gone at once, and no collector has to look for it."""
        for client in self.clients.values():
            client.host.on_resume = None
            if client.sendings is not None:
                client.sendings.begins.clear()
            if client.actor is not None:
                vars(client.actor).clear()
                client.actor = None
                del client.order
        for node in (*self.servers(), *self.sentinels.values()):
            node.take_apart()
        self._links.clear()


def _looked_at(server: TrialNode) -> Ping:
    """How a server is asked around all links: it is looked at."""

    async def answers(address: Address, timeout_s: float, payload_bytes: int = 0) -> Probe:
        return await server.probe(timeout_s)

    return answers
