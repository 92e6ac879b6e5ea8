"""The sync shim on real processes: what an fsync covered, in Python children and a real redis-server."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.shims import (
    CLOCK_VARIABLE,
    STALL_VARIABLE,
    SYNC_VARIABLE,
    ClockFile,
    StallFile,
    preload,
    synced_bytes,
)
from tests.unit.shim_support import built_shims, redis_under


@pytest.fixture(scope="session")
def shims(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built_shims(tmp_path_factory)


@pytest.mark.parametrize("policy", ["always", "no"])
def test_redis_syncs_are_recorded(shims: dict[str, Path], tmp_path: Path, policy: str) -> None:
    records = tmp_path / "synced"
    records.mkdir()
    env = {"LD_PRELOAD": preload(shims["sync-shim"]), SYNC_VARIABLE: str(records)}
    with redis_under(tmp_path, env, "--appendonly", "yes", "--appendfsync", policy) as client:
        for number in range(20):
            client.set(f"key-{number}", "x" * number)
        (log,) = [*tmp_path.glob("appendonly.aof"), *tmp_path.glob("appendonlydir/*.incr.aof")]
        assert log.stat().st_size > 500
        if policy == "always":
            assert synced_bytes(records, log) == log.stat().st_size
        else:
            assert synced_bytes(records, log) < log.stat().st_size


@pytest.mark.parametrize("call", ["fsync", "fdatasync"])
def test_sync_records_the_size_that_is_covered(shims: dict[str, Path], tmp_path: Path, call: str) -> None:
    records = tmp_path / "synced"
    records.mkdir()
    script = f"""
import os, sys
os.chdir("/")
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(file, b"x" * 100)
os.{call}(file)
os.write(file, b"y" * 50)
directory = os.open(os.path.dirname(sys.argv[1]), os.O_RDONLY)
os.{call}(directory)
read, write = os.pipe()
by_path = os.open(sys.argv[2], os.O_PATH)
for refused, code in ((write, {errno.EINVAL}), (by_path, {errno.EBADF})):
    try:
        os.{call}(refused)
    except OSError as error:
        assert error.errno == code, error
    else:
        raise AssertionError("that cannot be synced")
"""
    file = tmp_path / "file"
    never = tmp_path / "never-synced"
    never.write_bytes(b"z" * 10)
    subprocess.run(
        [sys.executable, "-ISc", script, file, never],
        # Relative, and the program changes its directory: the shim must have resolved it before.
        env={**os.environ, "LD_PRELOAD": preload(shims["sync-shim"]), SYNC_VARIABLE: "synced"},
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    assert file.stat().st_size == 150
    assert synced_bytes(records, file) == 100
    assert synced_bytes(records, never) == 0
    assert [path.name for path in records.iterdir()] == [str(file.stat().st_ino)], "regular files only"
    os.truncate(file, 40)
    assert synced_bytes(records, file) == 40


def test_sync_without_a_directory_still_syncs(shims: dict[str, Path], tmp_path: Path) -> None:
    script = "import os, sys; file = open(sys.argv[1], 'wb'); file.write(b'x'); os.fsync(file.fileno())"
    for value in ("", str(tmp_path / "nowhere")):
        env = {**os.environ, "LD_PRELOAD": preload(shims["sync-shim"]), SYNC_VARIABLE: value}
        subprocess.run([sys.executable, "-ISc", script, tmp_path / "f"], env=env, check=True, timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_both_shims_together_on_redis(shims: dict[str, Path], tmp_path: Path) -> None:
    clock = ClockFile(tmp_path / "clock")
    clock.create()
    env = {
        "LD_PRELOAD": preload(shims["clock-shim"], shims["sync-shim"]),
        CLOCK_VARIABLE: str(clock.path),
        SYNC_VARIABLE: str(tmp_path),
    }
    with redis_under(tmp_path, env, "--appendonly", "yes", "--appendfsync", "always") as client:
        clock.set(3600 * 10**9)
        client.set("k", "v")
        assert client.time()[0] > time.time() + 3000
        (log,) = [*tmp_path.glob("appendonly.aof"), *tmp_path.glob("appendonlydir/*.incr.aof")]
        assert synced_bytes(tmp_path, log) == log.stat().st_size


def test_a_sync_waits_while_the_disk_stalls_and_covers_what_was_written_meanwhile(
    shims: dict[str, Path], tmp_path: Path
) -> None:
    script = """
import os, sys, threading
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.write(file, b"x" * 100)
syncs = threading.Thread(target=os.fsync, args=(file,))
syncs.start()
sys.stdin.read(1)
os.write(file, b"y" * 50)
print("written", syncs.is_alive(), flush=True)
syncs.join()
print("synced", flush=True)
"""
    (records := tmp_path / "synced").mkdir()
    file, stall = tmp_path / "file", StallFile(tmp_path / "stall")
    stall.reset()
    stall.set(True)
    loaded = {
        "LD_PRELOAD": preload(shims["sync-shim"]),
        SYNC_VARIABLE: str(records),
        STALL_VARIABLE: str(stall.path),
    }
    command = [sys.executable, "-ISc", script, str(file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=os.environ | loaded, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        while not stall.waiting():
            assert child.poll() is None
            time.sleep(0.002)
        child.stdin.write("w")
        child.stdin.flush()
        assert child.stdout.readline() == "written True\n"
        assert (stall.waiting(), synced_bytes(records, file)) == (1, 0)
        stall.set(False)
        assert child.stdout.readline() == "synced\n"
    assert (stall.waiting(), synced_bytes(records, file)) == (0, 150)
