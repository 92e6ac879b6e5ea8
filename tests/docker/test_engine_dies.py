"""The engine is killed while a run goes on: nothing can be said about the lock, and nothing stays behind.

Never the engine that others use: one of the test's own, with its own data, which only root can start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.substrates import substrate
from lab.substrates.docker.engine import connect, no_engine_reason
from lab.substrates.docker.images import build
from tests.docker.conftest import of_lab
from tests.lab_process import ROOT, Lab

ROOT_VARIABLE = "LOCK_LAB_TEST_ENGINE_ROOT"
"""A data directory for that engine, in which the images may be already; a new one, if absent."""
WAITS = "steps=[{do: alice acquires}, {wait: 300s}]"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


class OwnEngine:
    """An engine that belongs to one test."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "engine.sock"
        self._log = directory / "engine.log"
        self._exec_root = directory / "exec"
        data = os.environ.get(ROOT_VARIABLE) or str(directory / "root")
        self._command = [
            "dockerd",
            "--cgroup-parent=/",
            "--data-root",
            data,
            "--exec-root",
            str(self._exec_root),
        ]
        self._command += ["-H", f"unix://{self.socket}", "--pidfile", str(directory / "pid")]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> str | None:
        """Start it and wait until it answers; say why it does not."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        give_up = time.monotonic() + 120
        while no_engine_reason() is not None:
            if self.process.poll() is not None or time.monotonic() > give_up:
                return "dockerd did not come up; it said: " + self._log.read_text(errors="replace")[-400:]
            time.sleep(0.1)
        return None

    def put_away(self) -> None:
        """Let it end its containers; one that was killed cannot, so it is started again for that."""
        if self.process is not None and self.process.poll() is not None:
            self.start()
        self.end(signal.SIGTERM)
        self._unmount()

    def end(self, number: signal.Signals) -> None:
        """End it in this way, and wait for its end."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()

    def _unmount(self) -> None:
        """Take away the mounts that an engine leaves behind when it is killed."""
        for line in Path("/proc/mounts").read_text().splitlines():
            if (place := line.split()[1]).startswith(str(self._exec_root)):
                subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def own_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnEngine]:
    """Skipped where there is another engine: two on one host take each other's networks away."""
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine")
    if shutil.which("dockerd") is None:
        pytest.skip("there is no dockerd")
    for name in list(Path("/proc").glob("[0-9]*/comm")):
        with contextlib.suppress(OSError):
            if name.read_text().strip() == "dockerd":
                pytest.skip("another engine runs on this machine")
    engine = OwnEngine(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
    try:
        if reason := engine.start():
            pytest.skip(reason)
        if substrate("docker").missing_reason() or substrate("docker").lacks("redis"):
            try:
                subprocess.run(
                    [ROOT / "compose" / "base-image.sh"], check=True, capture_output=True, text=True
                )
                build(lambda line: None)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"there is no base image: {error.stderr[-400:]}")
            except LabError as error:
                pytest.skip(f"the images could not be built: {error.seen}")
        yield engine
    finally:
        engine.put_away()


def test_a_killed_engine_makes_the_run_unknown(own_engine: OwnEngine, tmp_path: Path) -> None:
    lab = Lab(tmp_path, engine=True)
    process = lab.start("run", "healthy", "--on", "docker", "--set", WAITS, "--picture", "unexpected")
    directory = lab.wait_for_event("acquire", "alice")
    own_engine.end(signal.SIGKILL)
    run = lab.ended(process)
    assert run.code == 3, run.out + run.err
    assert "Traceback" not in run.err
    assert set(run.outcomes.values()) == {"unknown"}
    assert lab("check", str(directory)).code == 3
    assert own_engine.start() is None
    down = lab("down")
    assert down.code == 0, down.out + down.err
    api = connect()
    try:
        assert of_lab(api, process.pid) == ([], [])
    finally:
        api.close()
