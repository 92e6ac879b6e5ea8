"""A replica's connection to its master: asks for everything, then follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.redis_model.aof import commands_in
from lab.redis_model.keyspace import snapshot
from lab.redis_model.parser import ProtocolError, RequestParser
from lab.redis_model.reply import pack
from lab.redis_model.session import FROM_MASTER, Session

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel


class MasterLink:
    """One connection. ``send`` takes what goes to the master, ``closed`` tells that the replica ended it."""

    def __init__(
        self, model: RedisModel, send: Callable[[bytes], None], closed: Callable[[], None] | None
    ) -> None:
        self._model = model
        self._send = send
        self._closed = closed
        self._parser = RequestParser()
        self._session = Session(model, 0, FROM_MASTER, None)
        self._session.is_master = True
        self._offset = 0
        self._id = ""
        self._payload_bytes: int | None = None
        self._follows = False
        self._held: list[list[bytes]] = []
        self._in_transaction = False
        self._is_open = True

    def ask(self, port: int, announces: str) -> None:
        """Ask for everything, as the server that others reach by this name and port."""
        words = [[b"REPLCONF", b"listening-port", b"%d" % port]]
        if announces:
            words.append([b"REPLCONF", b"ip-address", announces.encode()])
        self._send(b"".join(pack(each) for each in [*words, [b"PSYNC", b"?", b"-1"]]))

    def feed(self, data: bytes) -> None:
        """Take bytes from the master."""
        if not self._is_open:
            return
        self._parser.feed(data)
        self._model.replication.heard()
        try:
            if self._follows or self._begin():
                self._follow()
        except ProtocolError:
            self.end()
            self.close()
        self._model.settle()

    def close(self) -> None:
        """The connection is lost, or could not be made."""
        self._is_open = False
        self._model.replication.unlinked(self)

    def end(self) -> None:
        """End the connection from the replica's side."""
        if self._is_open:
            self._is_open = False
            if self._closed is not None:
                self._closed()

    def acknowledge(self) -> None:
        """Tell the master how far this replica has come."""
        self._send(pack([b"REPLCONF", b"ACK", b"%d" % self._model.replication.offset]))

    def _begin(self) -> bool:
        """Take answers and the snapshot; tell whether it is there. Raises ``ProtocolError``."""
        while self._payload_bytes is None:
            line = self._parser.line()
            if line is None:
                return False
            if line.startswith(b"+FULLRESYNC "):
                _, identity, offset = line.decode().split()
                self._id, self._offset = identity, int(offset)
            elif line.startswith(b"$"):
                self._payload_bytes = int(line[1:])
            elif not line.startswith(b"+"):
                raise ProtocolError("the master refuses")
        payload = self._parser.take(self._payload_bytes)
        if payload is None:
            return False
        model = self._model
        model.read_clock()
        model.keys.clear()
        model.load(commands_in(payload))
        if model.aof is not None:
            stored = b"".join(pack(args) for args in snapshot(model.keys))
            model.aof.rewrite(stored, model.now_us // 1_000_000)
        model.replication.synchronised(self._id, self._offset)
        self._follows = True
        self.acknowledge()
        return True

    def _follow(self) -> None:
        """Take commands; those of a transaction are applied together, once it is whole."""
        model = self._model
        while self._is_open and (args := self._parser.next()) is not None:
            if not args:
                continue
            name = args[0].upper()
            self._held.append(args)
            if name == b"MULTI":
                self._in_transaction = True
            elif name == b"EXEC":
                self._in_transaction = False
            if self._in_transaction:
                continue
            held, self._held = self._held, []
            for each in held:
                self._apply(each)
            model.replication.forward(b"".join([pack(each) for each in held]))
            if name == b"REPLCONF" and args[1:2] == [b"GETACK"]:
                self.acknowledge()

    def _apply(self, args: list[bytes]) -> None:
        """Do to the keys what the master did to its own."""
        model = self._model
        name = args[0].upper()
        if name in (b"SELECT", b"REPLCONF"):
            return
        if name in (b"MULTI", b"EXEC"):
            if model.aof is not None:
                model.aof.append([args])
            return
        model.read_clock()
        dirty = model.keys.dirty
        model.keys.obeys = True
        try:
            model.perform(self._session, model.find(args), args)
        finally:
            model.keys.obeys = False
        if model.aof is not None and model.keys.dirty != dirty:
            # A duration is counted from here on, and the file gets the point in time.
            written = model.rewritten if model.for_replicas is not None else None
            model.aof.append([args] if written is None else written)
        model.finish()
