"""Simulated TCP: listeners, the ways to them, and connections over which bytes pass in order.

A way has two pipes, one for requests and one for replies. What happens to a pipe happens to all connections
over it, as with a proxy: it may lose what is sent, keep it, slow it down. Bytes of one connection never
overtake each other; those of different connections may.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappush
from typing import TYPE_CHECKING, Any, Final, Protocol

from lab.substrates.answering import Answering, Conversation
from lab.substrates.base import ConnectionKind, Stream
from lab.substrates.sim.clock import S_NS
from lab.substrates.sim.host import forbidden
from lab.substrates.sim.transport import SimTransport
from lab.substrates.sim.world import Draws, World

if TYPE_CHECKING:
    from lab.substrates.sim.loop import HostLoop

LATENCY_NS: Final = 150_000
SPREAD_NS: Final = 250_000
"""A packet takes ``LATENCY_NS`` and a random share of ``SPREAD_NS``: what a local network does."""
CONNECT_NS: Final = 100_000
"""How long it takes until a connection is accepted, or refused."""

STREAMS: Final[tuple[Stream, Stream]] = ("requests", "replies")
Arrival = Callable[..., object]


class Listener(Protocol):
    """Somebody who accepts connections: a node."""

    name: str

    def accept(self, connection: Connection) -> bool:
        """Take a connection in; False if nobody listens now."""
        ...

    def receive(self, connection: Connection, data: bytes) -> None:
        """Take what has arrived on a connection, or keep it while the machine stands still."""
        ...

    def hung_up(self, connection: Connection) -> None:
        """The near end closed it."""
        ...


@dataclass(slots=True)
class Trouble:
    """What is done to one direction of a way."""

    lost: bool = False
    """Whether what is sent vanishes."""
    held: bool = False
    """Whether what is sent stays in the network until ``Pipe.release``."""
    delay_ns: int = 0
    jitter_ns: int = 0
    rate_bytes_per_s: int | None = None

    def slowed_ns(self, now_ns: int, arrives_ns: int, draws: Draws, lane: Lane, size: int) -> int:
        """When that arrives which would arrive at ``arrives_ns``."""
        arrives_ns += self.delay_ns
        if self.jitter_ns:
            arrives_ns = max(now_ns, arrives_ns + draws.randint(-self.jitter_ns, self.jitter_ns))
        if self.rate_bytes_per_s is not None:
            # What is sent waits until the last byte before it is through.
            lane.busy_until_ns = max(now_ns, lane.busy_until_ns) + size * S_NS // self.rate_bytes_per_s
            arrives_ns += lane.busy_until_ns - now_ns
        return arrives_ns


class Pipe:
    """One direction of a way."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self.trouble: Trouble | None = None
        """What is done to it, if anything is."""
        self._kept: list[tuple[Lane, int, Arrival, tuple[Any, ...]]] = []
        self._draws: Draws | None = None
        """Made when it is needed: that takes as long as to send ten times."""

    def suffer(self, **what: Any) -> None:
        """Have this done to it from now on, besides what is done to it already: fields of ``Trouble``."""
        self.trouble = replace(self.trouble or Trouble(), **what)

    def send(self, lane: Lane, size: int, arrives: Arrival, *arguments: Any) -> None:
        """Let ``arrives`` be called at the other end, if and when this gets there."""
        self.carry(lane, size, arrives, arguments)

    def carry(self, lane: Lane, size: int, arrives: Arrival, arguments: tuple[Any, ...]) -> None:
        """The same, with the arguments as they are kept."""
        world, draws, trouble = self._world, self._draws, self.trouble
        if trouble is not None:
            if trouble.lost:
                return
            if trouble.held:
                self._kept.append((lane, size, arrives, arguments))
                return
        if draws is None:
            draws = self._draws = world.shares(self._name)
        arrives_ns = world.now_ns + LATENCY_NS + int(draws.random() * SPREAD_NS)
        if trouble is not None:
            arrives_ns = trouble.slowed_ns(world.now_ns, arrives_ns, draws, lane, size)
        if arrives_ns > lane.last_ns:
            lane.last_ns = arrives_ns
        else:
            arrives_ns = lane.last_ns
        world.arranged = number = world.arranged + 1  # as ``arrange`` does; nothing is done as often as this
        heappush(world.heap, (arrives_ns, number, arrives, arguments))

    def release(self) -> None:
        """Let everything pass again, what was kept first."""
        self.trouble = None
        kept, self._kept = self._kept, []
        for lane, size, arrives, arguments in kept:
            self.carry(lane, size, arrives, arguments)


@dataclass(slots=True)
class Lane:
    """One direction of one connection: it keeps the order."""

    pipe: Pipe
    last_ns: int = 0
    busy_until_ns: int = 0

    def send(self, size: int, arrives: Arrival, *arguments: Any) -> None:
        """See ``Pipe.send``."""
        self.pipe.send(self, size, arrives, *arguments)


class Way:
    """How a listener is reached: directly, or over a link, on which faults act.

    Over a link the near end is accepted by the link itself, as by a proxy beside the client: also a link that
    loses everything can be connected to.
    """

    def __init__(self, world: World, name: str, listener: Listener, *, is_link: bool) -> None:
        self.name, self.listener, self.is_link = name, listener, is_link
        self.requests, self.replies = Pipe(world, f"{name}/requests"), Pipe(world, f"{name}/replies")
        self.subscribed: dict[Stream, Pipe] = {}
        """The pipes of connections that are known to be subscriptions, where commands are read."""
        self.refused = False
        self.answering: Answering | None = None
        """What reads commands at the far end and answers some with errors, if a schedule asks for it."""
        self.connections: dict[int, Connection] = {}

    def read(self, world: World, answering: Answering) -> None:
        """Let the commands on all connections be read; there are none yet."""
        self.answering = answering
        self.subscribed = {way: Pipe(world, f"{self.name}/subscribed/{way}") for way in STREAMS}

    def pipe(self, stream: Stream, kind: ConnectionKind = "commands") -> Pipe:
        """The pipe of one direction."""
        if kind == "subscription":
            return self.subscribed[stream]
        return self.requests if stream == "requests" else self.replies

    @property
    def kinds(self) -> tuple[ConnectionKind, ...]:
        """The kinds of connections that are told apart."""
        return ("commands",) if self.answering is None else ("commands", "subscription")

    def break_connections(self, *, reset: bool, kind: ConnectionKind | None = None) -> None:
        """End every connection, or those of one kind, at both ends; what was on its way is lost."""
        for connection in list(self.connections.values()):
            if kind in (None, connection.kind):
                connection.break_off(reset=reset)


@dataclass(eq=False, slots=True)
class Connection:
    """One connection: a near end in somebody's event loop (or a replica), a far end at a listener."""

    number: int
    way: Way
    near_name: str
    near_data: Callable[[bytes], None]
    near_end: Callable[[bool], None]
    """Told once that the far end closed; True if it was a reset."""
    up: Lane = field(init=False)
    down: Lane = field(init=False)
    over: bool = False
    """Broken off: nothing arrives any more, in either direction."""
    near_closed: bool = False
    life: int = 0
    """In which life of the listener it was accepted."""

    def __post_init__(self) -> None:
        self.up, self.down = Lane(self.way.requests), Lane(self.way.replies)

    @property
    def kind(self) -> ConnectionKind:
        """Whether the client is known to have subscribed on it."""
        return "commands"

    def send_up(self, data: bytes) -> None:
        """The near end sends."""
        self.way.requests.carry(self.up, len(data), self._arrive_far, (data,))

    def send_down(self, data: bytes) -> None:
        """The far end sends."""
        self.way.replies.carry(self.down, len(data), self._arrive_near, (data,))

    def close_near(self) -> None:
        """The near end closes; the far end learns of it after what is still on its way."""
        if not self.near_closed:
            self.near_closed = True
            self._drop_near()
            self.up.send(0, self._hang_up)

    def close_far(self, *, reset: bool = False) -> None:
        """The far end closes; the near end learns of it after what is still on its way."""
        self.down.send(0, self._end_near, reset)

    def break_off(self, *, reset: bool) -> None:
        """End it at both ends, now."""
        if not self.over:
            self.over = True
            self.way.connections.pop(self.number, None)
            self.way.listener.hung_up(self)
            self._notify_near(reset)

    def forget(self) -> None:
        """Refer to nobody any more."""
        self._drop_near()

    def _drop_near(self) -> None:
        """The near end is told nothing any more."""
        self.near_data = self.near_end = _nothing

    def _arrive_far(self, data: bytes) -> None:
        if not self.over:
            self.way.listener.receive(self, data)

    def _arrive_near(self, data: bytes) -> None:
        if not (self.over or self.near_closed):
            self.near_data(data)

    def _hang_up(self) -> None:
        if not self.over:
            self.over = True
            self.way.connections.pop(self.number, None)
            self.way.listener.hung_up(self)

    def _end_near(self, reset: bool) -> None:
        if not self.over:
            self.over = True
            self.way.connections.pop(self.number, None)
            self._notify_near(reset)

    def _notify_near(self, reset: bool) -> None:
        if not self.near_closed:
            self.near_closed = True
            near_end = self.near_end
            self._drop_near()
            near_end(reset)


@dataclass(eq=False, slots=True)
class ReadConnection(Connection):
    """A connection whose commands are read: the node may answer errors, and subscriptions have own pipes."""

    conversation: Conversation = field(init=False)

    def __post_init__(self) -> None:
        Connection.__post_init__(self)
        assert self.way.answering is not None
        self.conversation = self.way.answering.conversation()

    @property
    def kind(self) -> ConnectionKind:
        """Whether the client has subscribed on it."""
        return "subscription" if self.conversation.subscribes else "commands"

    def send_up(self, data: bytes) -> None:
        """The near end sends."""
        self.up.pipe.carry(self.up, len(data), self._arrive_far, (data,))

    def send_down(self, data: bytes) -> None:
        """The far end sends: its refusals of unknown commands become errors."""
        if data := self.conversation.replies(data):
            self.down.pipe.carry(self.down, len(data), self._arrive_near, (data,))

    def _arrive_far(self, data: bytes) -> None:
        if self.over:
            return
        data = self.conversation.requests(data)
        if self.conversation.subscribes:
            self.up.pipe, self.down.pipe = (self.way.pipe(way, "subscription") for way in STREAMS)
        if data:
            self.way.listener.receive(self, data)


class Network:
    """Who listens where."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._ways: dict[tuple[str, int], Way] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._connections = 0

    def listen(
        self, host: str, port: int, listener: Listener, *, is_link: bool = False, name: str | None = None
    ) -> Way:
        """Let a listener be reached under this address; latencies are drawn by ``name``, else by it."""
        way = Way(self.world, name or f"{host}:{port}", listener, is_link=is_link)
        self._ways[host.casefold(), port] = way  # names of hosts have no case
        return way

    def resolve(self, near_name: str, name: str, host: str) -> None:
        """Let one machine find a host by another name, as a line of its own /etc/hosts would."""
        self._names[near_name, name] = host

    def way(self, host: str, port: int, near_name: str = "") -> Way | None:
        """Return the way of a machine to an address, None if nothing in the simulation has it."""
        host = self._names.get((near_name, host), host) if self._names else host
        return self._ways.get((host.casefold(), port))

    def open(
        self,
        way: Way,
        near_name: str,
        near_data: Callable[[bytes], None],
        near_end: Callable[[bool], None],
        opened: Callable[[Connection | None], None],
    ) -> None:
        """Connect; ``opened`` is called with the connection, or with None if it is refused."""
        kind = Connection if way.answering is None else ReadConnection
        connection = kind(self.next_number(), way, near_name, near_data, near_end)

        def arrive() -> None:
            if way.refused or not (self.accepted(connection) or way.is_link):
                opened(None)
                return
            opened(connection)
            if connection.number not in way.connections:
                # The link was connected to, and found nobody behind it.
                connection.over = True
                connection._notify_near(False)

        self.world.after(CONNECT_NS, arrive)

    def next_number(self) -> int:
        """Return the number of a new connection."""
        self._connections += 1
        return self._connections

    def accepted(self, connection: Connection) -> bool:
        """Whether its listener takes a connection in."""
        accepted = connection.way.listener.accept(connection)
        if accepted:
            connection.way.connections[connection.number] = connection
        return accepted

    def take_apart(self) -> None:
        """Nothing will be sent any more: let nothing refer to anything."""
        for way in self._ways.values():
            for connection in way.connections.values():
                connection.forget()
            way.connections.clear()
            for pipe in (way.requests, way.replies, *way.subscribed.values()):
                vars(pipe).clear()
        self._ways.clear()

    def close_all_of(self, near_name: str) -> None:
        """Close every connection that a machine has: its kernel does so when the process is gone."""
        for way in self._ways.values():
            for connection in list(way.connections.values()):
                if connection.near_name == near_name:
                    connection.close_near()

    async def connect(
        self, loop: HostLoop, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect from a host's event loop.

        Raises:
            ConnectionRefusedError: nobody accepts it.
            SimulationError: nothing in the simulation has this address; a real one must never be reached.
        """
        way = self.way(host, port, loop.host.name)
        if way is None:
            known = ", ".join(each.name for each in self._ways.values())
            raise forbidden(
                loop.host,
                f"connects to {host}:{port}, which is not in the simulation",
                f"one of {known}" if known else None,
            )
        done: asyncio.Future[bool] = loop.create_future()
        transport = SimTransport(loop)

        def settle(connection: Connection | None) -> None:
            if done.done():
                if connection is not None:
                    connection.close_near()
                return
            transport.connection = connection
            done.set_result(connection is not None)

        def opened(connection: Connection | None) -> None:
            if loop.is_closed():
                if connection is not None:
                    connection.close_near()
                return
            loop.on_io(settle, connection)

        self.open(way, loop.host.name, transport.arrived, transport.ended, opened)
        try:
            accepted = await done
        except asyncio.CancelledError:
            transport.close()
            raise
        if not accepted:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('{host}', {port})")
        protocol = factory()
        transport.begin(protocol)
        return transport, protocol


def _nothing(_: object) -> None:
    """Nobody is there any more."""
