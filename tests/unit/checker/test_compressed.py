"""Histories in gzip: read as they stand, and no more of them than the memory bears."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from checker import check, formats
from checker.__main__ import main
from checker.errors import HistoryError
from checker.formats import load, save

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
CASE = GOLDEN / "overlap-violated.jsonl"


def packed(content: bytes, path: Path) -> Path:
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


@pytest.mark.parametrize("name", ["h.jsonl.gz", "h.JSONL.GZ", "h.gz", "h", "h.packed"])
def test_the_verdict_is_that_of_the_plain_file(tmp_path: Path, name: str) -> None:
    verdict = check(load(packed(CASE.read_bytes(), tmp_path / name)))
    assert verdict == check(load(CASE))
    assert verdict.named("overlap")


@pytest.mark.parametrize("suffix", [".edn", ".log"])
def test_the_other_formats_in_text(tmp_path: Path, suffix: str) -> None:
    if suffix == ".edn":
        save(load(CASE), tmp_path / "h.edn")
        content = (tmp_path / "h.edn").read_bytes()
    else:
        content = b"INFO  jepsen.util - 0\t:invoke\t:write\t1\nINFO  jepsen.util - 0\t:ok\t:write\t1\n"
        (tmp_path / f"h{suffix}").write_bytes(content)
    again = load(packed(content, tmp_path / f"other{suffix}.gz"))
    assert list(again.events()) == list(load(tmp_path / f"h{suffix}").events())


def test_an_event_that_is_wrong_is_found_in_its_line(tmp_path: Path) -> None:
    lines = CASE.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"type"', b'"tpye"')
    with pytest.raises(HistoryError) as caught:
        load(packed(b"".join(lines), tmp_path / "h.jsonl.gz"))
    assert str(caught.value).startswith(f"{tmp_path / 'h.jsonl.gz'}:4: ")


def test_a_truncated_record_is_never_ok(tmp_path: Path) -> None:
    content = (GOLDEN / "overlap-accepted.jsonl").read_bytes()
    history = load(packed(content[: content.rindex(b"\n", 0, -1) - 20], tmp_path / "h.jsonl.gz"))
    assert {p.outcome for p in check(history).properties.values()} == {"unknown"}


@pytest.mark.parametrize("kind", ["cut", "flipped", "no gzip", "empty"])
def test_a_damaged_file_is_an_error(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress(CASE.read_bytes(), mtime=0)
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(
        {
            "cut": whole[:-20],
            "flipped": whole[:40] + bytes([whole[40] ^ 0xFF]) + whole[41:],
            "no gzip": CASE.read_bytes(),
            "empty": b"",
        }[kind]
    )
    if kind == "empty":  # what gzip itself takes for the empty text
        assert {p.outcome for p in check(load(path)).properties.values()} == {"unknown"}
        return
    assert main([str(path)]) == 2
    reported = capsys.readouterr().err
    assert reported.startswith(f"error: {path}: this is no whole gzip file: ")
    assert "hint: " in reported


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "UNPACKED_MAX", 1 << 20)
    path = packed(b"\n" * (64 << 20), tmp_path / "h.jsonl.gz")
    assert path.stat().st_size < 1 << 17
    tracemalloc.start()
    try:
        with pytest.raises(HistoryError, match="saw more than 1 MiB"):
            load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20, "it was not unpacked first, and measured then"
    assert load(packed(CASE.read_bytes(), path)).params


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    for name in ("h.parquet.gz", "h.gz"):
        with pytest.raises(HistoryError, match="only a history in text"):
            load(packed(b"PAR1 and more", tmp_path / name))
    with pytest.raises(HistoryError, match="read, not written"):
        save(load(CASE), tmp_path / "h.jsonl.gz")
    assert not (tmp_path / "h.jsonl.gz").exists()
