"""A process that stands still before its first thread, and its copies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.virtual_world import World, libraries, world

__all__ = ["libraries", "world"]  # fixtures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD shims are for Linux")

STANDS = """
import os, socket, sys, threading, time
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen(8)
listening.setblocking(False)
number = os.urandom(4).hex()
def say():
    try:
        taken = listening.accept()[0].recv(9).decode()
    except BlockingIOError:
        taken = "nobody"
    time.sleep(1)
    open(sys.argv[2], "a").write(f"{number} {os.urandom(4).hex()} {taken} {time.monotonic()}\\n")
thread = threading.Thread(target=say)
thread.start()
thread.join()
os._exit(7 if os.getsid(0) == os.getpid() else 8)
"""


def test_one_that_stands_still_is_copied(world: World, tmp_path: Path) -> None:
    """A copy has what was drawn before, draws anew, and takes no connection that others were offered."""
    socket_name, said = str(tmp_path / "socket"), tmp_path / "said"
    stands = world.time.admit(1)
    world.time.stand_still(stands)
    with subprocess.Popen(
        [sys.executable, "-ISc", STANDS, socket_name, said],
        env={**os.environ, **world.time.environment(stands)},
        start_new_session=True,
    ) as process:
        world.time.settle()
        assert world.time.stands(stands)
        assert world.time.due() is None
        pids = []
        for seed in (5, 6, 5):
            copy = world.time.admit(seed)
            world.time.copy(stands, copy)
            world.time.settle()
            assert world.time.stands(stands)
            due = world.time.due()
            assert due is not None
            assert {number for number, _ in due.slots} == {copy}
            world.time.advance(due.deadline_ns)
            world.time.wake(*due.slots[0])
            pids.append(world.time.arrived(copy) or 0)
            _, status = os.waitpid(pids[-1], 0)
            assert os.waitstatus_to_exitcode(status) == 7, "it has a session of its own"
            world.time.retire(copy)
            with socket.socket(socket.AF_UNIX) as left:
                left.connect(socket_name)
                left.send(b"left")
        assert process.pid not in pids
        assert len(set(pids)) == 3
        world.time.stand_no_more(stands)
        world.time.settle()
        due = world.time.due()
        assert due is not None
        world.time.advance(due.deadline_ns)
        world.time.wake(*due.slots[0])
        assert process.wait() == 7
    world.time.retire(stands)
    *copies, itself = [line.split() for line in said.read_text().splitlines()]
    assert len({line[0] for line in (*copies, itself)}) == 1
    assert copies[0][1] == copies[2][1] != copies[1][1]
    assert [line[2] for line in copies] == ["nobody"] * 3
    assert itself[2] == "left", "it was offered before it went on"
    assert [line[3] for line in copies] == ["1001.0", "1002.0", "1003.0"]
