"""Replication: what a master sends to its replicas, and whom a replica follows.

A replica connects, asks with PSYNC, gets a snapshot and then every command that changes something, in order,
without anybody waiting for it: that is asynchronous replication, and what a failover loses. ``offset`` counts
the bytes of that stream, on the master what was sent, on a replica what was processed. A connection that
broke is made again and begins with a snapshot; there is no partial synchronisation, since its outcome would
be the same.

Source: Redis 7.0, the documentation of replication, and ``replication.c``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.redis_model.keyspace import snapshot
from lab.redis_model.reply import RedisError, Reply, pack

if TYPE_CHECKING:
    from lab.redis_model.master_link import MasterLink
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

SECOND_NS: Final = 1_000_000_000
PING_EVERY_NS: Final = 10 * SECOND_NS
SILENCE_NS: Final = 60 * SECOND_NS
"""How long either side bears that nothing comes from the other (repl-timeout)."""
NO_REPLICATION_ID: Final = "0" * 40


@dataclass(slots=True)
class Feed:
    """What a master knows of one replica."""

    host: str
    port: int
    heard_ns: int
    heard_s: int = 0
    """When it last told how far it has come, in Unix time by the master's clock."""
    acknowledged: int = -1
    """How far it has come, by its own account; -1 before the first, while it still loads the snapshot."""


class Replication:
    """Both sides of replication, of one server."""

    def __init__(self, model: RedisModel) -> None:
        self._model = model
        self._id = ""
        self.earlier_id = NO_REPLICATION_ID
        self.offset = 0
        self.feeds: dict[Session, Feed] = {}
        self.has_stream = False
        """Whether there is or was a replica: only then are bytes counted."""
        self.ports: dict[Session, int] = {}
        self.hosts: dict[Session, str] = {}
        """By which name a replica wants to be known."""
        self.master: tuple[str, int] | None = None
        self.state = "none"
        """Of a replica: "connect", "connecting", "sync" or "connected"."""
        self._selected = False
        self._link: MasterLink | None = None
        self._next_ping_ns = self._next_second_ns = self._heard_ns = 0
        self._down_s = 0
        """Since when a replica has not heard its master, in Unix time; 0: it never has."""
        self.promoted_at = -1
        """How far it had come when it became a master; -1: it was no replica."""

    @property
    def replication_id(self) -> str:
        """Which history of writes this server's is; drawn when somebody first asks."""
        if not self._id:
            self._id = f"{self._model.random.getrandbits(160):040x}"
        return self._id

    # A master's side.

    def stream(self, packed: bytes) -> None:
        """Send commands to all replicas."""
        if self.has_stream and self.master is None:
            if not self._selected:
                self._selected = True
                packed = pack([b"SELECT", b"0"]) + packed
            self.forward(packed)

    def forward(self, data: bytes) -> None:
        """Send bytes of the stream as they are, and count them."""
        self.offset += len(data)
        for session in self.feeds:
            session.write(data)

    def synchronise(self, session: Session) -> None:
        """Send a new replica everything, and from now on what changes. Raises ``RedisError``."""
        if self.master is not None and self.state != "connected":
            raise RedisError("NOMASTERLINK Can't SYNC while not connected with my master")
        model = self._model
        if not self.feeds:
            self._next_ping_ns = model.monotonic_ns() + PING_EVERY_NS
        self.has_stream, self._selected = True, False
        host = self.hosts.get(session) or session.peer.rpartition(":")[0]
        self.feeds[session] = Feed(host, self.ports.get(session, 0), model.monotonic_ns())
        data = b"".join(pack(args) for args in snapshot(model.keys))
        head = f"+FULLRESYNC {self.replication_id} {self.offset}\r\n${len(data)}\r\n"
        session.write(head.encode() + data)

    def acknowledged(self, session: Session, offset: int) -> None:
        """Note how far a replica has come."""
        feed = self.feeds.get(session)
        if feed is not None:
            feed.acknowledged = max(feed.acknowledged, offset)
            feed.heard_ns = self._model.monotonic_ns()
            feed.heard_s = self._model.wall_ns() // SECOND_NS
            self._model.blocking.poll()

    def count_acknowledged(self, offset: int) -> int:
        """Return how many replicas have come that far."""
        return sum(1 for feed in self.feeds.values() if feed.acknowledged >= offset)

    def count_good(self, max_lag_s: int) -> int:
        """Return how many replicas have told within that time how far they have come."""
        now_s = self._model.wall_ns() // SECOND_NS
        feeds = self.feeds.values()
        return sum(1 for feed in feeds if feed.acknowledged >= 0 and now_s - feed.heard_s <= max_lag_s)

    def ask_acknowledgements(self) -> None:
        """Ask all replicas how far they have come."""
        self.stream(pack([b"REPLCONF", b"GETACK", b"*"]))

    # A replica's side.

    def follow(self, host: str, port: int) -> None:
        """Become the replica of that server; what is here is kept until it sends its own."""
        model = self._model
        self._unlink()
        self._note_silence()
        self.master, self.state = (host, port), "connect"
        model.keys.is_replica = True
        model.guard()
        for session in list(self.feeds):
            session.end()
        self._next_second_ns = model.monotonic_ns()
        self._connect()

    def lead(self) -> None:
        """Become a master, with what is here."""
        if self.master is None:
            return
        model = self._model
        self._unlink()
        self.master, self.state = None, "none"
        model.keys.is_replica = False
        model.guard()
        self.earlier_id, self._id = self.replication_id, ""
        self.promoted_at, self._down_s = self.offset, 0
        self._selected = False
        self._next_ping_ns = model.monotonic_ns() + PING_EVERY_NS

    def linked(self, link: MasterLink) -> None:
        """Take a connection to the master."""
        if self.master is None or self._link is not None:
            link.end()
            return
        self._link, self.state = link, "sync"
        self.heard()
        link.ask(self._model.port, self._model.announces)

    def heard(self) -> None:
        """Note that the master is there."""
        self._heard_ns = self._model.monotonic_ns()

    def unlinked(self, link: MasterLink) -> None:
        """Note that the connection is lost; it is tried again a second later."""
        if self._link is link:
            self._link = None
            self._note_silence()
            self.state = "connect"
            self._next_second_ns = self._model.monotonic_ns() + SECOND_NS

    def synchronised(self, replication_id: str, offset: int) -> None:
        """Note that the snapshot is there."""
        self._id, self.offset, self.state = replication_id, offset, "connected"
        self.promoted_at, self._down_s = -1, 0
        self.has_stream = True
        self._next_second_ns = self._model.monotonic_ns() + SECOND_NS

    def drop(self) -> None:
        """Forget the connection to the master: this server is dead."""
        self._link = None

    @property
    def is_linked(self) -> bool:
        """Whether it hears its master."""
        return self.state == "connected"

    @property
    def down_for_s(self) -> int | None:
        """For how long a replica has not heard its master, which it heard before; None: it hears it."""
        if self.is_linked:
            return None
        return self._model.wall_ns() // SECOND_NS - self._down_s if self._down_s else -1

    def _note_silence(self) -> None:
        if self.is_linked:
            self._down_s = self._model.wall_ns() // SECOND_NS

    # Both.

    def next_ns(self) -> int | None:
        """Return when there is something to do, in ns of the monotonic clock."""
        if self.master is None:
            return self._next_ping_ns if self.feeds else None
        if self.state == "connect" and self._model.connect_master is None:
            return None
        waits = self.state in ("connecting", "sync")
        return self._heard_ns + SILENCE_NS if waits else self._next_second_ns

    def tick(self) -> None:
        """Do what is due."""
        now_ns = self._model.monotonic_ns()
        if self.master is None:
            if self.feeds and now_ns >= self._next_ping_ns:
                self._next_ping_ns = now_ns + PING_EVERY_NS
                self.stream(pack([b"PING"]))
                for session, feed in list(self.feeds.items()):
                    if now_ns - feed.heard_ns >= SILENCE_NS:
                        session.end()
            return
        if self.state != "connect" and now_ns - self._heard_ns >= SILENCE_NS:
            self._unlink()
            self._note_silence()
            self.state, self._next_second_ns = "connect", now_ns
        if now_ns >= self._next_second_ns:
            self._next_second_ns = now_ns + SECOND_NS
            if self.state == "connect":
                self._connect()
            elif self._link is not None and self.state == "connected":
                self._link.acknowledge()

    def role(self) -> list[Reply]:
        """Return the answer to ROLE."""
        if self.master is None:
            feeds = [
                [feed.host.encode(), b"%d" % feed.port, b"%d" % feed.acknowledged]
                for feed in self.feeds.values()
                if feed.acknowledged >= 0
            ]
            return [b"master", self.offset, feeds]
        host, port = self.master
        return [b"slave", host.encode(), port, self.state.encode(), self.offset if self.is_linked else -1]

    def _connect(self) -> None:
        if self.master is not None and self._model.connect_master is not None:
            self.state = "connecting"
            self.heard()
            self._model.connect_master(*self.master)

    def _unlink(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.end()
