"""What a process writes over TCP is handed on as one piece, however the kernel delivers it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from lab.substrates.sim.host import Host
from lab.substrates.virtual.ends import Stream
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.world import VirtualWorld

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="virtual time is for Linux")

LATE_S = 0.05


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[RealMachine]:
    world = VirtualWorld(1)
    yield RealMachine(world, Host(world, "A"), "test-streams", tmp_path, pytest.fail)
    world.end()


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def test_a_write_that_the_kernel_delivers_late_is_no_message_of_its_own(
    machine: RealMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two connections, of which the first gets the rest of what was written when the second has all."""
    heard: list[tuple[str, bytes]] = []
    writers = []
    for name in ("first", "second"):
        writer, reader = connected()
        Stream(machine, reader, lambda data, name=name: heard.append((name, data)), pytest.fail)  # type: ignore[misc]
        writers.append(writer)
    monkeypatch.setattr(machine, "_written", lambda: len("REPLCONFREPLCONFPING"))
    writers[0].sendall(b"REPLCONF")
    writers[1].sendall(b"PING")
    late = Timer(LATE_S, writers[0].sendall, [b"REPLCONF"])
    late.start()
    machine.attend(one_ended=False)
    late.join()
    assert heard == [("first", b"REPLCONFREPLCONF"), ("second", b"PING")]
    for writer in writers:
        writer.close()


def test_what_was_read_comes_before_the_end(machine: RealMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes | str] = []
    writer, reader = connected()
    Stream(machine, reader, heard.append, lambda: heard.append("end"))
    monkeypatch.setattr(machine, "_written", lambda: 4)
    writer.sendall(b"QUIT")
    writer.close()
    machine.attend(one_ended=False)
    assert heard == [b"QUIT", "end"]
