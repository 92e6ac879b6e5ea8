"""The text of a history: its pieces and lines, wherever it lies, and sizes in words."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from checker.errors import HistoryError
from checker.formats import FORMATS, detect, load, save, text
from checker.formats.text import Lines, Text, size_of, size_text
from tests.unit.checker.builder import HistoryBuilder


def kinds(tmp_path: Path, data: bytes) -> list[Text]:
    """The same text in memory, in a file and in a compressed file."""
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed").write_bytes(gzip.compress(data))
    return [Text(data=data), Text(tmp_path / "plain"), Text(tmp_path / "packed", packed=True)]


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 30, 31])
def test_pieces_of_a_size_and_no_more_than_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(text, "PIECE_BYTES", 10)
    data = bytes(range(65, 65 + size))
    for one in kinds(tmp_path, data):
        pieces = list(one.pieces())
        assert pieces == [data[at : at + 10] for at in range(0, size, 10)]
        assert one.whole() == data
        assert one.decoded() == data.decode()
        bounded = Text(one.path, one.packed, one.data, max_size=size)
        assert list(bounded.pieces()) == pieces
        if size:
            with pytest.raises(HistoryError, match=f"saw more than {size - 1} B of text"):
                list(Text(one.path, one.packed, one.data, max_size=size - 1).pieces())
    assert [one.plain_path for one in kinds(tmp_path, data)] == [None, tmp_path / "plain", None]


@pytest.mark.parametrize(
    "data", [b"", b"a", b"\n", b"ab\ncd", b"0123456789\nabc\n", b"a\n" * 12, b"x" * 25 + b"\ny"]
)
def test_blocks_are_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(text, "PIECE_BYTES", 10)
    for one in kinds(tmp_path, data):
        blocks = list(one.blocks())
        assert b"".join(blocks) == data
        assert all(block.endswith(b"\n") for block in blocks[:-1])
        assert all(blocks)
        lines = Lines(one)
        assert lines.tail == b""
        before = b"".join(lines.blocks())
        assert before + lines.tail == data
        last = data.rstrip().rpartition(b"\n")[2]
        assert lines.tail.startswith(last)
        if last:
            assert lines.tail.strip() == last


def test_what_is_no_utf8_is_quoted_with_its_line() -> None:
    with pytest.raises(HistoryError) as caught:
        Text(data=b"a\nb\xff12345").decoded()
    assert str(caught.value) == (
        "2: saw the bytes b'\\xff123', expected UTF-8\nhint: convert the file to UTF-8, or get it once more"
    )
    with pytest.raises(HistoryError, match="2: saw"):
        Text(data=b"\n\xff\n").decoded()


@pytest.mark.parametrize("cut", [0, 1, 9])
def test_a_gzip_file_that_is_cut_says_so(tmp_path: Path, cut: int) -> None:
    (tmp_path / "h").write_bytes(gzip.compress(b"a\n" * 50)[: -cut or None] + b"?" * (not cut))
    with pytest.raises(HistoryError, match=r"this is no whole gzip file: [a-z]") as caught:
        list(Text(tmp_path / "h", packed=True).pieces())
    assert caught.value.hint == "`gzip --test` says the same of it: get the file once more"


@pytest.mark.parametrize(
    ("words", "size"),
    [
        *[("1", 1), (" 10 B ", 10), ("1k", 1 << 10), ("1K", 1 << 10), ("2KiB", 2 << 10), ("2 kb", 2 << 10)],
        *[("1M", 1 << 20), ("3MiB", 3 << 20), ("1.5G", 3 << 29), ("1GB", 1 << 30), ("2TiB", 2 << 40)],
        *[("", None), ("B", None), ("0", None), ("0.9", None), ("-1", None), ("1X", None), ("1KK", None)],
        *[("k1", None), ("1e400", None), ("1 2", None), ("1ii", None), ("1bb", None)],
    ],
)
def test_a_size_in_words(words: str, size: int | None) -> None:
    if size is not None:
        assert size_of(words) == size
        return
    with pytest.raises(HistoryError) as caught:
        size_of(words)
    assert str(caught.value) == (
        f"field 'max-size': saw {words!r}, expected a number of bytes, such as 500MiB or 2GiB"
    )


def test_sizes_are_told_in_the_largest_unit_that_fits() -> None:
    sizes = (0, 1, 1023, 1024, 1536, (1 << 20) - 1, 1 << 20, 5 << 28, 1 << 30, 1 << 40, 3 << 41)
    assert [size_text(size) for size in sizes] == [
        *("0 B", "1 B", "1.02e+03 B", "1 KiB", "1.5 KiB", "1.02e+03 KiB"),
        *("1 MiB", "1.25 GiB", "1 GiB", "1 TiB", "6 TiB"),
    ]


@pytest.mark.parametrize(
    ("name", "head", "format"),
    [
        *[("h.jsonl", b"", "jsonl"), ("h.NDJSON", b"[", "jsonl"), ("h.json", b"x", "jsonl")],
        *[("h.edn", b"", "edn"), ("h.log", b"{", "jepsen-log"), ("h.parquet", b"", "parquet")],
        *[("h.edn.gz", b"", "edn"), ("h.gz", b"{:a 1}", "edn"), ("h", b"", "jsonl"), ("h", b" \n", "jsonl")],
        *[("h", b"PAR1", "parquet"), ("h", b' {"a"', "jsonl"), ("h", b"{:a", "edn"), ("h.txt", b"[", "edn")],
        *[("h", b"INFO", "jepsen-log"), ("h", b" " * 255 + b"[", "edn"), ("h", b" " * 256 + b"[", "jsonl")],
    ],
)
def test_the_format_of_a_file(tmp_path: Path, name: str, head: bytes, format: str) -> None:
    (tmp_path / name).write_bytes(head)
    assert detect(tmp_path / name, head[:256] if name.endswith(".gz") else None) == format


def test_saving_says_what_it_cannot_do(tmp_path: Path) -> None:
    history = HistoryBuilder().acquire("alice", "g", 0, 1).history()
    save(history, tmp_path / "h")
    save(history, tmp_path / "h.jsonl")
    assert (tmp_path / "h").read_bytes() == (tmp_path / "h.jsonl").read_bytes()
    save(history, tmp_path / "h.txt", "edn")
    assert load(tmp_path / "h.txt", "edn").params == history.params
    reported = {
        "h.gz": "a compressed history can be read, not written\nhint: save as .jsonl, then gzip",
        "h.log": "this format can be read, not written\nhint: save as .jsonl",
        "none/h.edn": "cannot be written: no such file or directory",
    }
    for name, words in reported.items():
        with pytest.raises(HistoryError) as caught:
            save(history, tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {words}"
    for action in (lambda: save(history, tmp_path / "h", "xml"), lambda: load(tmp_path / "h", "xml")):
        with pytest.raises(HistoryError) as caught:
            action()
        known = ", ".join(FORMATS)
        assert str(caught.value) == (
            f"{tmp_path / 'h'}: field 'format': saw format 'xml', expected one of {known}"
        )


@pytest.mark.parametrize(
    ("name", "limit"), [("h.jsonl", "LINES_MAX"), ("h.edn", "TREE_MAX"), ("h.jsonl.gz", "UNPACKED_MAX")]
)
def test_each_kind_of_file_has_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: str
) -> None:
    plain = tmp_path / name.removesuffix(".gz")
    save(HistoryBuilder().acquire("alice", "g", 0, 1).history(), plain)
    size = plain.stat().st_size
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
    monkeypatch.setattr(f"checker.formats.{limit}", size)
    assert len(load(tmp_path / name).ops) == 1
    monkeypatch.setattr(f"checker.formats.{limit}", size - 1)
    with pytest.raises(HistoryError, match="saw more than"):
        load(tmp_path / name)
    assert len(load(tmp_path / name, max_size=size).ops) == 1
