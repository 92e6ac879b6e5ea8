"""A disk that runs full: the run proves nothing and says so; what was kept can be read."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import UnknownOutcome
from lab.run.recorder import HISTORY, Recorder, recover
from tests.lab_process import Lab

pytestmark = pytest.mark.full

DISK_BYTES = 4 << 20
READS = "[{do: alice acquires}" + ", {wait: 300ms}, {do: alice reads}" * 400 + "]"
CAROL = READS.replace("alice", "carol")
"""A scenario that writes events for as long as anybody may need to fill a disk."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    place = tmp_path / "disk"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mount.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mount.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Leave not a byte free."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass
    return filler


def test_a_disk_that_runs_full_ends_the_run_as_unknown(lab: Lab, disk: Path) -> None:
    process = lab.start("run", "healthy", "--out", "disk", "--set", f"steps={READS}")
    directory = lab.wait_for_event("acquire", "alice", reports="disk")
    filler = fill(disk)
    run = lab.ended(process, "disk")
    assert run.code == 3, run.out + run.err
    assert "Traceback" not in run.err
    assert "No space left on device" in run.out + run.err
    assert "did not finish" not in run.err, "a client that cannot write its log ends, and nobody waits for it"
    filler.unlink()
    check = lab("check", str(directory))
    assert check.code == 3, "a history without its end proves nothing"
    assert '"f":"acquire"' in (directory / HISTORY).read_text()


def test_a_disk_that_runs_full_under_a_suite_loses_nothing_of_what_had_ended(lab: Lab, disk: Path) -> None:
    (lab.directory / "two.yaml").write_text(
        "title: t\ncases:\n  - {scenarios: healthy, on: sim}\n"
        f"  - {{scenarios: healthy, on: local, set: ['clients=[carol]', 'steps={CAROL}']}}\n"
    )
    process = lab.start("suite", "two.yaml", "--out", "disk", "--jobs", "1")
    lab.wait_for_event("acquire", "carol", reports="disk/suite-*")
    fill(disk)
    run = lab.ended(process, "disk")
    assert run.code == 3, run.out + run.err
    assert "Traceback" not in run.err
    assert "1 of 2 as expected, 0 not, 1 unknown" in run.out
    assert "No space left on device" in run.err


def test_a_disk_that_is_full_already(lab: Lab, disk: Path) -> None:
    (disk / "reports").mkdir()
    fill(disk)
    run = lab("run", "healthy", "--on", "sim", "--out", "disk/reports")
    assert run.code in (2, 3), run.out + run.err
    assert "Traceback" not in run.err
    assert "No space left on device" in run.err


@pytest.mark.parametrize(
    ("kib", "lost"), [(60, "index.html"), (24, "the history")], ids=["for its page", "for its history"]
)
def test_a_disk_without_room_is_one_error_and_nothing_is_truncated(
    lab: Lab, disk: Path, kib: int, lost: str
) -> None:
    filler = fill(disk)
    os.truncate(filler, filler.stat().st_size - (kib << 10))
    run = lab("run", "healthy", "--on", "sim", "--seed", "1", "--out", "disk")
    assert run.code == 3, run.out + run.err
    assert f"error: {lost} cannot be written: No space left on device" in run.err
    assert "Traceback" not in run.out + run.err
    assert "did not finish" not in run.err, "nobody waits for a client that cannot write its log"
    assert list((disk / "latest").glob("**/*.partial")) == []
    assert list((disk / "latest").glob("*.html")) == []
    if lost != "the history":
        assert "healthy: as expected" in run.out
        filler.unlink()
        assert lab("check", "disk/latest").code == 0


def test_events_that_are_lost_make_no_history(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, {})
    recorder.write("lab", "info", "phase", value="up")
    reported: list[str] = []
    recorder.on_loss = lambda: reported.append("lost")
    recorder._log._file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115 - the recorder closes it
    recorder.write("lab", "info", "phase", value="steps")
    recorder.write("lab", "info", "phase", value="down")
    assert reported == ["lost"]
    with pytest.raises(UnknownOutcome, match="No space left on device"):
        recorder.finish()
    assert not (tmp_path / HISTORY).exists()
    history = recover(tmp_path)
    assert history is not None
    assert '"value":"up"' in history.read_text()
    assert '"end"' not in history.read_text()
