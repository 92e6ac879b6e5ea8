"""The two arms of one contract: the simulated Redis node and a real redis-server, spoken to in bytes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from lab import tools
from lab.redis_model import MasterLink, RedisModel
from lab.redis_model.persistence import Disk, Persistence
from lab.servers import DEFAULT, DEFAULT_SETTINGS, Server, ServerSettings, server_of
from lab.substrates.local.clock import LocalClock
from lab.substrates.local.disk import LocalDisk
from lab.substrates.local.node import redis_command
from lab.substrates.real.ports import free_ports

PATIENCE_S = 60.0
"""How long a real server may take for anything; only a broken one takes that long."""
START_NS = 1_700_000_000_250_000_000
"""What a simulated node's wall clock shows at first."""

Shown = Any
"""A reply as JSON has it: "+OK", "-ERR …", ":1", "$text", None, lists, and {"%": […]} of RESP3."""


class Replies:
    """Replies out of bytes."""

    def __init__(self) -> None:
        self.data = b""
        self._at = 0

    def next(self) -> tuple[bool, Shown]:
        """Return whether there is a whole reply, and the reply."""
        self._at = 0
        try:
            reply = self._one()
        except EOFError:
            return False, None
        self.data = self.data[self._at :]
        return True, reply

    def _line(self) -> bytes:
        end = self.data.find(b"\r\n", self._at)
        if end < 0:
            raise EOFError
        line, self._at = self.data[self._at : end], end + 2
        return line

    def _one(self) -> Shown:
        line = self._line()
        kind, rest = chr(line[0]), line[1:]
        if kind in "$=":
            size = int(rest)
            if size < 0:
                return None
            if len(self.data) < self._at + size + 2:
                raise EOFError
            text = self.data[self._at : self._at + size]
            self._at += size + 2
            return kind + text.decode("latin-1")
        if kind in "*~>%":
            count = int(rest)
            if count < 0:
                return "*-1"
            items = [self._one() for _ in range(count * 2 if kind == "%" else count)]
            return items if kind == "*" else {kind: items}
        return None if kind == "_" else line.decode("latin-1")


class Wire(Protocol):
    """One connection."""

    def write(self, data: bytes) -> None: ...

    def read(self) -> Shown:
        """Wait for the next reply or message and return it; "closed" at the end."""
        ...


def ask(wire: Wire, *arguments: bytes | str | int) -> Shown:
    """Send one command and return its reply."""
    words = [a if isinstance(a, bytes) else str(a).encode("latin-1") for a in arguments]
    wire.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
    return wire.read()


class Arm(Protocol):
    """One server with a clock of its own."""

    version: tuple[int, ...]
    server: Server

    def connect(self) -> Wire: ...

    def jump(self, by_ms: int) -> None:
        """Step its wall clock."""
        ...

    def restart(self, *, power_cut: bool) -> None:
        """Kill it, let it lose what a power cut loses, start it anew; all connections are lost."""
        ...

    def shut_down(self, *words: str) -> None:
        """Shut it down in order, with these words after the command, and start it anew."""
        ...

    def follow(self, other: Any) -> None:
        """Become the replica of another of its kind, and have all it has."""
        ...

    def disk(self) -> Disk: ...


class SimWire:
    """A connection to a simulated node. Time passes only while somebody waits for an answer."""

    def __init__(self, arm: SimArm) -> None:
        self._arm = arm
        self._replies = Replies()
        self._closed = False
        self._session = arm.model.connect(self._push, peer="127.0.0.1:50001", closed=self._end)

    def write(self, data: bytes) -> None:
        self._session.feed(data)

    def read(self) -> Shown:
        while True:
            found, reply = self._replies.next()
            if found:
                return reply
            if self._closed:
                return "closed"
            if not self._arm.step():
                return "nothing"

    def _push(self, data: bytes) -> None:
        self._replies.data += data

    def _end(self) -> None:
        self._closed = True


class SimArm:
    """A simulated node and its clocks, which stand still unless they are moved."""

    def __init__(
        self,
        persistence: Persistence = "none",
        seed: int = 7,
        server: Server = DEFAULT,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.server, self.version = server, server.number
        self.wall_ns, self.monotonic_ns = START_NS, 0
        self._persistence, self._settings = persistence, settings
        self.random = random.Random(seed)
        self.model = RedisModel("A", **self.surroundings())

    def surroundings(self) -> Any:
        """What a node of this arm is made with."""
        return {
            "wall_ns": lambda: self.wall_ns,
            "monotonic_ns": lambda: self.monotonic_ns,
            "persistence": self._persistence,
            "random": self.random,
            "server": self.server,
            "settings": self._settings,
        }

    def connect(self) -> SimWire:
        return SimWire(self)

    def jump(self, by_ms: int) -> None:
        self.wall_ns += by_ms * 1_000_000

    def pass_ms(self, by_ms: int) -> None:
        """Let time pass on both clocks, and the node do what it does by itself."""
        end_ns = self.monotonic_ns + by_ms * 1_000_000
        while (due_ns := self.model.next_timer_ns()) is not None and due_ns <= end_ns:
            assert due_ns >= self.monotonic_ns
            self._advance(due_ns)
            self.model.tick()
        self._advance(end_ns)

    def step(self) -> bool:
        """Let time pass until the node does something by itself; False if it never will."""
        due_ns = self.model.next_timer_ns()
        if due_ns is None:
            return False
        assert due_ns >= self.monotonic_ns
        self._advance(due_ns)
        self.model.tick()
        return True

    def _advance(self, to_ns: int) -> None:
        self.wall_ns += to_ns - self.monotonic_ns
        self.monotonic_ns = to_ns

    def restart(self, *, power_cut: bool) -> None:
        durable = self.model.durable(power_cut)
        self.model.drop()
        self.model = RedisModel("A", durable=durable, **self.surroundings())

    def shut_down(self, *words: str) -> None:
        """SHUTDOWN, and start it anew."""
        ask(self.connect(), "SHUTDOWN", *words)
        self.restart(power_cut=False)

    def follow(self, other: SimArm) -> None:
        """Both ends of the connection are in this process: bytes arrive at once."""
        replica = self.model

        def connect(host: str, port: int) -> None:
            to_replica: list[bytes] = []
            links: list[MasterLink] = []

            def deliver(data: bytes) -> None:
                to_replica.append(data)
                while links and to_replica:
                    links[0].feed(to_replica.pop(0))

            session = other.model.connect(deliver, peer="127.0.0.1:50002")
            links.append(replica.master_link(session.feed))
            deliver(b"")

        replica.connect_master = connect
        ask(self.connect(), "REPLICAOF", "127.0.0.1", "6379")

    def disk(self) -> Disk:
        return self.model.disk()


class RealWire:
    """A connection to a real server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._replies = Replies()

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> Shown:
        while True:
            found, reply = self._replies.next()
            if found:
                return reply
            try:
                data = self._socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return "closed"
            self._replies.data += data

    def close(self) -> None:
        self._socket.close()


class RealArm:
    """A redis-server with a clock of its own, and with a record of its syncs if it keeps a file."""

    def __init__(
        self,
        directory: Path,
        persistence: Persistence = "none",
        settings: ServerSettings = DEFAULT_SETTINGS,
        server: str = "redis-server",
    ) -> None:
        directory.mkdir()
        self._server = tools.require(server)
        self.clock = LocalClock(tools.require("clock-shim"), directory / "clock")
        sync_shim = tools.require("sync-shim") if persistence != "none" else None
        self._disk = LocalDisk(directory / "data", sync_shim)
        self._directory, self._persistence, self._settings = directory, persistence, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._wires: list[RealWire] = []
        self.port = 0
        self._start()
        self.server = server_of(self._info("server"))
        self.version = self.server.number

    def _start(self) -> None:
        """Start it; a race for its port that was lost is run again."""
        for _ in range(5):
            self.port = free_ports(1)[0]
            data = self._directory / "data"
            command = redis_command(self._server, self.port, data, self._persistence, self._settings)
            with (self._directory / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    env={**os.environ, **self._disk.environment(self.clock.environment)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            until(lambda: self._ended() or self._is_ready(), "redis-server answers")
            if not self._ended():
                return
        raise AssertionError((self._directory / "log").read_text()[-2000:])

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _is_ready(self) -> bool:
        assert self._process is not None
        with contextlib.suppress(OSError):
            wire = RealWire(self.port)
            reported = fields(ask(wire, "INFO", "server")) if ask(wire, "PING") == "+PONG" else {}
            wire.close()
            return reported.get("process_id") == str(self._process.pid)
        return False

    def _info(self, section: str) -> dict[str, str]:
        wire = self.connect()
        return fields(ask(wire, "INFO", section))

    def unwritten(self) -> int:
        """Bytes that it answered for and has not yet given to the kernel: with everysec they may wait."""
        return int(self._info("persistence").get("aof_buffer_length", 0))

    def connect(self) -> RealWire:
        wire = RealWire(self.port)
        self._wires.append(wire)
        return wire

    def hang_up(self) -> None:
        """Close all connections."""
        for wire in self._wires:
            wire.close()
        self._wires.clear()

    def jump(self, by_ms: int) -> None:
        self.clock.jump(by_ms * 1_000_000)

    def restart(self, *, power_cut: bool) -> None:
        self.kill()
        if power_cut:
            self._disk.lose_unsynced()
        self._start()

    def shut_down(self, *words: str) -> None:
        """SHUTDOWN, and start it anew."""
        wire = self.connect()
        ask(wire, "SHUTDOWN", *words)
        until(self._ended, "the server ends")
        self.hang_up()
        self._start()

    def kill(self) -> None:
        """End it at once."""
        self.hang_up()
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def follow(self, other: RealArm) -> None:
        ask(self.connect(), "REPLICAOF", "127.0.0.1", other.port)
        until(lambda: self._info("replication").get("master_link_status") == "up", "the replica has all")

    def disk(self) -> Disk:
        return self._disk.state()

    @property
    def files(self) -> Path:
        """Where its files are."""
        return self._directory / "data"


def until(condition: Any, what: str) -> None:
    """Wait until it holds; fail only after a time that no working server takes."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"not in {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.005)


def fields(reported: Shown) -> dict[str, str]:
    """The fields of an answer to INFO."""
    lines = str(reported)[1:].removeprefix("txt:").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


@contextlib.contextmanager
def real_arm(
    directory: Path,
    persistence: Persistence = "none",
    settings: ServerSettings = DEFAULT_SETTINGS,
    server: str = "redis-server",
) -> Iterator[RealArm]:
    """A real server, gone afterwards."""
    arm = RealArm(directory, persistence, settings, server)
    try:
        yield arm
    finally:
        arm.kill()
