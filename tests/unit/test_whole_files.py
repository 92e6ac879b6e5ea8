"""Files are written as a whole or not at all, and what hinders it is said once: what, where, and why."""

from __future__ import annotations

import contextlib
import errno
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from checker import HistoryError, load, save
from checker.formats.whole import whole_file, write_whole
from lab.errors import ExitCode, LabError, cannot_write
from lab.paths import writable_file
from lab.run.recorder import Recorder

GOLDEN = Path(__file__).parents[1] / "golden" / "belief-overlap-violated.jsonl"


@contextlib.contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """The kernel refuses what would make a file longer, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("before", ["what was there", None])
def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "page.html"
    if before is not None:
        path.write_text(before)
    with no_file_longer_than(100), pytest.raises(OSError, match="File too large") as raised:
        write_whole(path, "x" * 200)
    assert raised.value.filename == str(path)
    assert names(tmp_path) == ([] if before is None else ["page.html"])
    assert before is None or path.read_text() == before


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with whole_file(path) as file:
        file.write(b"a part")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"a part"
    assert names(tmp_path) == ["history.jsonl"]
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(b"another" * (1 // 0))
    assert path.read_bytes() == b"a part"
    assert names(tmp_path) == ["history.jsonl"]


def test_devices_and_links_stay_what_they_are(tmp_path: Path) -> None:
    write_whole(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_whole(Path("/dev/full"), "no room")
    assert raised.value.filename == "/dev/full"
    link, there = tmp_path / "link", tmp_path / "there"
    link.symlink_to(there.name)
    write_whole(link, "content")
    assert link.is_symlink()
    assert there.read_text() == "content"


def test_histories_are_saved_whole(tmp_path: Path) -> None:
    history = load(GOLDEN)
    for suffix in ("jsonl", "edn"):
        with no_file_longer_than(300), pytest.raises(HistoryError, match="too large"):
            save(history, tmp_path / f"other.{suffix}")
        assert names(tmp_path) == []


def test_a_full_disk_is_unknown_and_a_wrong_place_is_bad_input(tmp_path: Path) -> None:
    full = cannot_write("the page", OSError(errno.ENOSPC, "No space left on device", "here"), hint="go there")
    assert full.exit_code == ExitCode.UNKNOWN
    assert full.render().splitlines() == [
        "error: the page cannot be written: No space left on device",
        "  where: here",
        "  expected: room for it on the disk",
        "  hint: make room, or go there",
    ]
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="File exists") as raised:
        writable_file(tmp_path / "file" / "report.xml")
    assert raised.value.exit_code == ExitCode.USAGE


def test_to_ask_whether_a_report_can_be_written_leaves_none(tmp_path: Path) -> None:
    writable_file(tmp_path / "report.xml")
    assert names(tmp_path) == []
    (tmp_path / "report.xml").write_text("of before")
    writable_file(tmp_path / "report.xml")
    assert (tmp_path / "report.xml").read_text() == "of before"


def test_a_history_that_cannot_be_begun_is_an_error(tmp_path: Path) -> None:
    with no_file_longer_than(10), pytest.raises(LabError, match="the history cannot be written") as raised:
        Recorder(tmp_path, {"nodes": 5, "rho": 0.01})
    assert raised.value.exit_code == ExitCode.UNKNOWN
