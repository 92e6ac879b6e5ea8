"""One simulated server: runs commands, keeps time, writes its file, feeds its replicas, dies and returns."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lab.errors import LabError
from lab.redis_model import commands as commands  # fills the table of commands
from lab.redis_model.aof import AppendOnlyFile, commands_in
from lab.redis_model.blocking import Blocking
from lab.redis_model.channels import Channels
from lab.redis_model.guards import refusal, rejected
from lab.redis_model.known import Missing, Use, options_used, parse_version, use_of, version_of
from lab.redis_model.limits import ONLY_LOOK, Limits, UsedKeyspace
from lab.redis_model.master_link import MasterLink
from lab.redis_model.monitor import monitor_line
from lab.redis_model.persistence import Disk, Persistence
from lab.redis_model.registry import COMMANDS, Command, NoSuchCommand, commands_of, find, is_before_7
from lab.redis_model.replication import SECOND_NS, Replication
from lab.redis_model.reply import NULL_ARRAY, ErrorReply, RedisError, Reply, pack
from lab.redis_model.session import Argument, Session, as_bytes
from lab.redis_model.snapshots import Snapshots
from lab.redis_model.timers import Timers
from lab.servers import DEFAULT, DEFAULT_SETTINGS, Server, ServerSettings

COMPARED: Final = {
    "redis": ("6.2.14", "7.0.15", "7.2.4", "7.4.1", "8.0.2", "8.2.3", "8.6.3"),
    "valkey": ("8.0.1", "8.1.1", "9.0.0", "9.1.2"),
}
"""The versions whose answers the model was compared with, oldest first."""
MODELLED: Final = {
    product: tuple(version.rpartition(".")[0] for version in (versions[0], versions[-1]))
    for product, versions in COMPARED.items()
}
"""The oldest and the newest version of each product."""
DIRECT_PEER = "127.0.0.1:0"
SCRIPT_PEER = "lua"


def modelled(text: str, where: str) -> Server:
    """Read a server that nodes can be modelled after, ``redis@8.2``; ``where`` it is written, for an error.

    Without its third number it is the one that was compared. Raises ``LabError``.
    """
    found = re.fullmatch(r"(\w+)@(\d+\.\d+(?:\.\d+)?)", text)
    if found is not None and found[1] in MODELLED:
        server = Server(found[1], found[2])
        oldest, newest = (parse_version(each) for each in MODELLED[server.product])
        if oldest <= version_of(server) and version_of(server)[:2] <= newest[:2]:
            compared = (each for each in COMPARED[server.product] if each.startswith(f"{server.version}."))
            return server._replace(version=next(compared, server.version))
    ranges = (f"{product}@{oldest} to {newest}" for product, (oldest, newest) in MODELLED.items())
    raise LabError(
        f"nodes can't be simulated as {text!r}",
        where=where,
        expected=" or ".join(ranges),
        hint="real servers of other versions: --on local or --on virtual",
    )


@dataclass(frozen=True, slots=True)
class Durable:
    """What a server leaves behind: its append-only file, and its snapshot; None where it kept none."""

    aof: bytes | None
    rdb: bytes | None = None


class RedisModel:
    """A Redis server without a process; see the package's docstring for what it keeps to.

    Args:
        name: for people.
        wall_ns: its wall clock, in nanoseconds of Unix time; keys expire by it.
        monotonic_ns: its monotonic clock, in nanoseconds; its own rounds go by it.
        persistence: what it keeps on disk.
        random: where its run id and its scripts' random numbers come from.
        process_id: what INFO tells.
        port: what INFO tells.
        run_id: what INFO tells; drawn if None.
        durable: what another one left. Keys whose time is over are loaded from an append-only file as well,
            and expire afterwards; a master drops those of a snapshot.
        replicaof: host and port of its master; call ``tick`` once ``connect_master`` is set.
        server: the product and version whose behaviour it shows, one that ``require_modelled`` lets through.
        settings: how it is set up besides; ``limits`` says which directives are simulated.
        announces: the name by which it is known to its master, and so to Sentinels (replica-announce-ip).
    """

    on_missing: Callable[[Missing], None] | None = None
    """Called with what a request used and this model does not do: the answer says nothing about a client."""

    on_error: Callable[[Sequence[bytes], str], None] | None = None
    """Called with a command that is answered with an error, and with that."""

    def __init__(
        self,
        name: str,
        *,
        wall_ns: Callable[[], int],
        monotonic_ns: Callable[[], int],
        persistence: Persistence,
        random: random.Random,
        process_id: int = 1,
        port: int = 6379,
        run_id: str | None = None,
        durable: Durable | None = None,
        replicaof: tuple[str, int] | None = None,
        server: Server = DEFAULT,
        settings: ServerSettings = DEFAULT_SETTINGS,
        announces: str = "",
    ) -> None:
        self.name, self.announces = name, announces
        self.mode = "standalone"
        self.server, self.commands = server, commands_of(server)
        self.is_before_7 = is_before_7(server)
        self.wall_ns, self.monotonic_ns = wall_ns, monotonic_ns
        self.persistence: Persistence = persistence
        self.random = random
        self.process_id, self.port = process_id, port
        self.run_id = f"{random.getrandbits(160):040x}" if run_id is None else run_id
        self.started_ns = monotonic_ns()
        self.stopped = False
        self.on_shutdown: Callable[[], None] | None = None
        """Called once after SHUTDOWN has ended all connections."""
        self.on_command: Callable[[Sequence[bytes], str], None] | None = None
        """Called with every command that MONITOR would show, and by whom it was sent."""
        self.on_rewrite: Callable[[], None] | None = None
        """Called by CONFIG REWRITE; None: there is no configuration file."""
        self.connect_master: Callable[[str, int], None] | None = None
        """Called when this server wants a connection to its master; answered with ``master_link``."""
        self.drift_ppm = 0
        """How much too fast the wall clock runs; to be set when that changes, for ``next_timer_ns``."""
        self.now_us = wall_ns() // 1000
        self.limits = Limits.of(settings.config)
        self.keys = self.limits.keyspace(self._expired, self._fields_expired)
        self.out_of_memory = False
        """Whether the running command came when the memory was full and nothing could be evicted."""
        self.evicted = 0
        self.channels = Channels()
        self.channels.want(self.limits.events)
        self.blocking = Blocking()
        self.keys.awaited, self.keys.changed = self.blocking.waiting, self.blocking.ready
        self.replication = Replication(self)
        self.scripts: dict[bytes, bytes] = {}
        """Source by digest."""
        self.calls: dict[str, int] = {}
        """How often each command was run."""
        self.aof: AppendOnlyFile | None = None
        if self._appends:
            self._open_file(b"")
        left = None if durable is None else durable.rdb
        self.snapshots = Snapshots(settings.save, self.keys, left, lambda: self.wall_ns() // SECOND_NS)
        self.sessions: dict[int, Session] = {}
        self.monitors, self.outbox = dict[Session, None](), dict[Session, None]()
        self.rewritten: list[list[bytes]] | None = None
        """What the running command is for files and replicas, if not what the client sent."""
        self.for_replicas: list[bytes] | None = None
        """What it is for replicas, where that differs: before 7.0 they get durations as durations."""
        self.guarded = self.limits.hold
        """Whether not every command may run: this is a replica, or it has limits."""
        self._connections = 0
        self._pending: list[list[bytes]] = []
        self._for_replicas: dict[int, list[bytes]] = {}
        """By place in ``_pending``: what replicas get instead."""
        self._timers = Timers(self)
        self._direct = self._new_session(DIRECT_PEER, None, None)
        self.script_session = Session(self, 0, SCRIPT_PEER, None)
        if durable is not None and durable.aof is not None and self._appends:
            self.load(commands_in(durable.aof))
            self._open_file(durable.aof)
        elif left is not None and not self._appends:
            self.load(commands_in(left))
            if replicaof is None:
                self.keys.expire_due()
            self.snapshots.loaded()
        if replicaof is not None:
            self.replication.follow(*replicaof)

    # Connections.

    def connect(
        self,
        push: Callable[[bytes], None],
        *,
        peer: str = DIRECT_PEER,
        closed: Callable[[], None] | None = None,
    ) -> Session:
        """Accept a connection; ``push`` takes what it is sent, ``closed`` tells that the server ended it."""
        return self._new_session(peer, push, closed)

    def call(self, *arguments: Argument) -> Reply:
        """Run one command without a wire. An error is returned as ``ErrorReply``; it never waits."""
        reply = self.execute(self._direct, as_bytes(arguments))
        if self.aof is not None or self.outbox or self.blocking.resumed:
            self.settle()
        return None if reply is NULL_ARRAY else reply

    def master_link(
        self, send: Callable[[bytes], None], *, closed: Callable[[], None] | None = None
    ) -> MasterLink:
        """Take the connection that ``connect_master`` asked for; ``send`` goes to the master."""
        link = MasterLink(self, send, closed)
        self.replication.linked(link)
        return link

    def disconnected(self, session: Session) -> None:
        """Forget a connection."""
        self.sessions.pop(session.number, None)
        self.blocking.remove(session)
        self.replication.feeds.pop(session, None)
        self.replication.ports.pop(session, None)
        self.replication.hosts.pop(session, None)
        self.silence(session)
        session.unwatch()

    def silence(self, session: Session) -> None:
        """Send it no more commands and messages."""
        self.monitors.pop(session, None)
        for own, table in (
            (session.channels, self.channels.listeners),
            (session.patterns, self.channels.patterns),
        ):
            for name in own:
                table[name].pop(session, None)
            own.clear()

    def _new_session(
        self, peer: str, push: Callable[[bytes], None] | None, closed: Callable[[], None] | None
    ) -> Session:
        self._connections += 1
        session = Session(self, self._connections, peer, push, closed)
        self.sessions[session.number] = session
        return session

    # Commands.

    def guard(self) -> None:
        """See whether every command may run."""
        self.guarded = self.keys.is_replica or self.limits.hold

    def make_room(self, command: Command) -> None:
        """Do what its limits ask for before a command runs: evict keys, note whether the memory is full."""
        self.read_clock()
        if isinstance(self.keys, UsedKeyspace):
            self.keys.only_looks = command.name in ONLY_LOOK
        self.out_of_memory = not self.limits.make_room(self)
        if self._pending:
            self.finish()

    def ballast(self, key: bytes, size_bytes: int, ttl_ms: int | None) -> bool:
        """Set a key of that size, as one SET would that nobody sees; False: the memory is full."""
        self.make_room(self.commands[b"set"])
        if self.out_of_memory:
            return False
        value = bytes(size_bytes)
        self.keys.put(key, value)
        self.propagate([b"SET", key, value])
        if ttl_ms is not None:
            self.keys.set_expiry(key, self.keys.now_ms + ttl_ms)
            self.propagate([b"PEXPIREAT", key, b"%d" % (self.keys.now_ms + ttl_ms)])
        self.finish()
        self.settle()
        return True

    def evict(self, key: bytes) -> None:
        """Remove a key because the memory is full."""
        self.keys.evict(key)
        self.evicted += 1
        self.propagate([b"DEL", key])
        self.channels.notify("e", b"evicted", key)

    def execute(self, session: Session, args: list[bytes]) -> Reply:
        """Run one command of a client, or queue or refuse it."""
        command = self.commands.get(args[0])
        if command is None or command.children or not command.fits(len(args)):
            try:
                command = self.find(args)
            except RedisError as error:
                return ErrorReply(rejected(session, args, str(error)))
        if (session.guarded or self.guarded) and (
            refused := refusal(self, session, command, args)
        ) is not None:
            return refused
        self.now_us = now_us = self.wall_ns() // 1000
        self.keys.now_ms = now_us // 1000
        reply = self.perform(session, command, args)
        if self._pending or self.blocking.ready:
            self.finish()
        session.written_offset = self.replication.offset
        return reply

    def perform(self, session: Session, command: Command, args: list[bytes]) -> Reply:
        """Run a command, a client's, script's or master's, at the time that was read last."""
        if (self.monitors or self.on_command is not None) and command.shown:
            self.show(session, args)
        dirty = self.keys.dirty
        self.rewritten = self.for_replicas = None
        name = command.name
        self.calls[name] = self.calls.get(name, 0) + 1
        try:
            reply = command.run(self, session, args)
        except RedisError as error:
            reply = ErrorReply(str(error))
            if self.on_missing is not None:
                self._note_options(command, args)
            if self.on_error is not None:
                self.on_error(args, str(error))
        if self.keys.dirty != dirty and command.propagates and self.propagates:
            if self.for_replicas is not None:
                self._for_replicas[len(self._pending)] = self.for_replicas
            self._pending.extend([args] if self.rewritten is None else self.rewritten)
        return reply

    def find(self, args: list[bytes]) -> Command:
        """Return the command that is meant; note one that other servers have. Raises ``RedisError``."""
        try:
            return find(self.commands, args)
        except NoSuchCommand as error:
            use = use_of(args)
            if use is None or (use.opens and not use.is_in(self.server)):
                raise
            known = COMMANDS.get(args[0].lower())
            self._miss(use, known is not None and not known.children)
            if use.since and not use.is_in(self.server):
                raise
            raise NoSuchCommand(f"ERR {use.name} is not simulated; real servers have it") from error

    def _note_options(self, command: Command, args: list[bytes]) -> None:
        """Note the options of a refused command that this version lacks, or that are not simulated."""
        for option, use in options_used(args):
            if not use.is_in(self.server) or option not in command.options:
                self._miss(use, option in command.options)

    def miss(self, what: str, *, in_real_time: bool = False) -> None:
        """Tell that a request used something that this model does not do and real servers do."""
        self._miss(Use(what, {}), newer=False, in_real_time=in_real_time)

    def _miss(self, use: Use, newer: bool, in_real_time: bool = False) -> None:
        if self.on_missing is not None:
            product, since = next(iter(sorted(use.since.items())), ("", (0, 0, 0)))
            elsewhere = f"{product}@{since[0]}.{since[1]}" if newer and not use.is_in(self.server) else ""
            self.on_missing(Missing(use, self.server, elsewhere, in_real_time))

    def named(self, command: str) -> str:
        """Name a command as this server does where it complains about a time of expiry."""
        return command if self.is_before_7 else f"'{command}' command"

    def read_clock(self) -> None:
        """Look at the wall clock; its time then stands still until the command is over."""
        self.now_us = now_us = self.wall_ns() // 1000
        self.keys.now_ms = now_us // 1000

    def finish(self) -> None:
        """End what belongs together: write it, send it to replicas, serve who waited for it."""
        if self._pending:
            self._propagate()
        if self.blocking.ready:
            self.blocking.serve()
            if self._pending:
                self._propagate()

    def show(self, session: Session, args: list[bytes]) -> None:
        """Let those who watch see a command."""
        if self.on_command is not None:
            self.on_command(args, session.peer)
        if self.monitors:
            line = monitor_line(self.now_us, session.peer, args)
            for monitor in self.monitors:
                monitor.write(line)

    @property
    def version(self) -> str:
        """Its version as it reports it: three numbers."""
        return ".".join(map(str, version_of(self.server)))

    @property
    def propagates(self) -> bool:
        """Whether changes go anywhere: to a file, or to replicas."""
        return not self.keys.obeys and (self.aof is not None or self.replication.has_stream)

    def rewrite(self, for_files: list[bytes], before_7: list[bytes]) -> None:
        """Say what the running command, which sets a time of expiry, is for files and replicas.

        Since 7.0 both get points in time; ``before_7`` is what replicas got until then.
        """
        self.rewritten = [for_files]
        if self.is_before_7:
            self.for_replicas = before_7

    def propagate(self, *commands: list[bytes]) -> None:
        """Send commands to the file and to replicas at the end of what runs now."""
        if self.propagates:
            self._pending.extend(commands)

    def propagate_alone(self, command: list[bytes]) -> None:
        """The same for all that the running command has to send, at once where it goes to the file only."""
        if self.aof is None or self._pending or self.keys.obeys or self.replication.has_stream:
            self.propagate(command)
        else:
            self.aof.append([command])

    def publish_to_replicas(self, args: list[bytes]) -> None:
        """Send a message to the replicas, and not to the file."""
        if not self.keys.obeys:
            self.replication.stream(pack(args))

    def _propagate(self) -> None:
        pending, self._pending = self._pending, []
        instead, self._for_replicas = self._for_replicas, {}
        if self.aof is not None:
            self.aof.append(_together(pending))
        if self.replication.has_stream:
            if instead:
                pending = [instead.get(at, args) for at, args in enumerate(pending)]
            self.replication.stream(b"".join([pack(args) for args in _together(pending)]))

    def _expired(self, key: bytes) -> None:
        self.propagate([b"DEL", key])
        self.channels.notify("x", b"expired", key)

    def _fields_expired(self, key: bytes, fields: list[bytes]) -> None:
        self.propagate([b"HDEL", key, *fields])
        self.channels.notify("h", b"hexpired", key)
        if key not in self.keys.data:
            self.channels.notify("g", b"del", key)

    # Time.

    def settle(self) -> None:
        """End a round of the server's loop: sync the file if it is time, send what is to be sent."""
        while True:
            while self.blocking.resumed:
                self.blocking.resumed.pop(0).go_on()
            if self.aof is not None:
                self.aof.round(self.now_us // 1_000_000)
                if self.aof.stalled and self.aof.blocks:
                    return  # nothing is sent before it is synced
            if not self.outbox:
                return
            outbox, self.outbox = self.outbox, {}
            for session in outbox:
                session.deliver()

    def next_timer_ns(self) -> int | None:
        """Return when ``tick`` has something to do, by the monotonic clock; it may be early. None: never.

        Ask again after every command and after every change of the wall clock.
        """
        return None if self.stopped else self._timers.next_ns()

    def tick(self) -> None:
        """Do what is due: expire, sync, give up waiting, speak to the master and the replicas."""
        if self.stopped:
            return
        self.read_clock()
        self._timers.tick()
        self.finish()
        self.settle()

    # Life and death.

    def stall_disk(self, stalls: bool) -> None:
        """Let the disk stall; or let it go on, with what had to wait for it."""
        if self.aof is not None:
            self.aof.stalled = stalls
            if not stalls:
                self.read_clock()
                self.aof.sync(self.now_us // 1_000_000)
                self.settle()

    @property
    def waits_for_disk(self) -> bool:
        """Whether it waits for its disk, and does nothing else."""
        return self.aof is not None and self.aof.blocks

    def disk(self) -> Disk:
        """Look at the append-only file, or at the snapshot, which is synced before it gets its name."""
        if self.aof is not None:
            return self.aof.state()
        size = len(self.snapshots.data or b"")
        return Disk(size, size, b"")

    def durable(self, power_cut: bool) -> Durable:
        """Return what is left when the server ends now: all that was written, or what was synced."""
        aof = None if self.aof is None else self.aof.kept(power_cut=power_cut)
        return Durable(aof, self.snapshots.data)

    def drop(self) -> None:
        """The server was killed: forget all connections, without a word to anybody."""
        self.stopped = True
        self.replication.drop()
        for session in self.sessions.values():
            session.forget()
        self.sessions.clear()
        self.outbox.clear()

    def shut_down(self, saves: bool | None = None) -> None:
        """End in order: sync the file, end all connections.

        ``saves``: whether a snapshot is written; None: if there are save points.
        """
        self.stopped = True
        if self.aof is not None:
            self.aof.sync(self.now_us // 1_000_000)
        if bool(self.snapshots.points) if saves is None else saves:
            self.snapshots.save()
        for session in list(self.sessions.values()):
            session.end()
        self.settle()
        self.replication.drop()
        if self.on_shutdown is not None:
            self.on_shutdown()

    def load(self, stored: list[list[bytes]]) -> None:
        """Apply commands of a file or a snapshot; keys whose time is over are kept until they expire."""
        keys = self.keys
        self.read_clock()
        keys.obeys, before = True, keys.obeys
        for args in stored:
            if args[0].upper() != b"SELECT":
                self.find(args).run(self, self._direct, args)
        keys.obeys = before

    @property
    def _appends(self) -> bool:
        return self.persistence in ("aof-everysec", "aof-always")

    def _open_file(self, data: bytes) -> None:
        always, second = self.persistence == "aof-always", self.wall_ns() // SECOND_NS
        self.aof = AppendOnlyFile(data, always=always, second=second, syncs=self.limits.syncs)


def _together(commands: list[list[bytes]]) -> list[list[bytes]]:
    """Several commands as the transaction that they are for whoever reads them."""
    return [[b"MULTI"], *commands, [b"EXEC"]] if len(commands) > 1 else commands
