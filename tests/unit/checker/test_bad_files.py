"""Files that cannot be read, or not in bounded work: one error and exit code 2, never a traceback."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from checker import History, HistoryError, check, load, save
from checker.__main__ import main
from checker.formats import edn, jsonl, parquet_table
from checker.formats.text import PIECE_BYTES, Lines, Text, size_of, size_text
from checker.history.arrays import largest_before
from checker.history.events import Event, Params
from tests.lab_process import ended_here
from tests.unit.checker.builder import HistoryBuilder

ROOT = Path(__file__).resolve().parents[3]
CASE = ROOT / "tests" / "golden" / "overlap-accepted.jsonl"


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], *words: str) -> None:
    assert main(arguments) == 2
    reported = capsys.readouterr().err
    assert reported.startswith("error: ")
    assert "Traceback" not in reported
    for word in words:
        assert word in reported


def test_what_is_no_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    refused([str(tmp_path)], capsys, "saw a directory, expected a file", str(tmp_path))
    refused([str(tmp_path / "pipe.jsonl")], capsys, "saw a pipe")
    refused(["/dev/null"], capsys, "saw a device")
    refused([str(tmp_path / "none.jsonl")], capsys, f"{tmp_path / 'none.jsonl'}: no such file")
    refused([str(tmp_path / ("x" * 300))], capsys, "cannot be read: file name too long")
    refused([str(CASE / "x")], capsys, "cannot be read: not a directory")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_errors_of_the_file_system_are_bad_input(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "open", broken)
    refused([str(CASE)], capsys, str(CASE), "cannot be read: ", os.strerror(number)[1:])


def test_lab_check_refuses_them_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "lab", "check", "/"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    ends: list[tuple[object, str]] = [(done.returncode, done.stderr)]
    ends += (ended_here(monkeypatch, capsys, "check", path) for path in ("/dev/null", "x" * 300, f"{CASE}/x"))
    for code, said in ends:
        assert (code, "Traceback" in said) == (2, False), said
        assert said.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--depth", "-1"], "params.depth"),
        (["--depth", "0"], "params.depth"),
        (["--depth", "9" * 30], "params.depth"),
        (["--max-size", "1"], "saw more than 1 B of text"),
        (["--max-size", "lots"], "expected a number of bytes"),
        (["--max-size", "-5"], "expected a number of bytes"),
        (["--format", "xml"], "expected one of jsonl"),
        (["--model", "mutexx"], "expected one of lease"),
    ],
)
def test_bad_options_are_bad_input(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([str(CASE), *arguments], capsys, words)


@pytest.mark.parametrize("name", ["epsilon_ns", "delta_ns", "stall_ns", "unavailable_ns", "nodes", "depth"])
@pytest.mark.parametrize("value", [-1, 2**62, 2**70])
def test_parameters_beyond_reason_are_refused(name: str, value: int) -> None:
    with pytest.raises(HistoryError) as caught:
        jsonl.parse(f'{{"history":1,"params":{{"{name}":{value}}}}}\n')
    assert caught.value.field == f"params.{name}"


def test_the_largest_parameters_crash_no_check() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10, claimed=900).release("alice", "g1", 20, 30)
    events = builder.acquire("bob", "g2", 400, 410, claimed=900).history().events()
    for model in ("lease", "owner-mutex", "mutex", "fenced-mutex"):
        for most in (0, 10**17):
            params = Params(epsilon_ns=most, delta_ns=most, stall_ns=most, grace_ns=most, unavailable_ns=most)
            verdict = check(History.from_events(events, params), model=model)
            assert not [v.why for v in verdict.properties.values() if "crashed" in v.why]


@pytest.mark.parametrize("stamps", [[-(2**63), -(2**63) + 5], [2**63 - 6, 2**63 - 1], [-(2**63), 2**63 - 1]])
def test_stamps_at_the_ends_of_64_bits_are_compared(stamps: list[int]) -> None:
    group, first = np.zeros(2, np.int64), np.zeros(1, np.int64)
    found = largest_before(group, np.array(stamps), np.array([7, 8]), first, np.array(stamps[1:]))
    assert found.tolist() == [7]


def test_what_unpacks_to_more_than_is_allowed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * (64 << 20)))
    tracemalloc.start()
    with pytest.raises(HistoryError, match="saw more than 32 MiB"):
        load(path, max_size=32 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80 << 20
    assert len(load(CASE, max_size=CASE.stat().st_size).ops) == 2
    with pytest.raises(HistoryError, match="--max-size"):
        load(CASE, max_size=CASE.stat().st_size - 1)


@pytest.mark.parametrize("name", ["h.jsonl.gz", "h.edn.gz", "h.log.gz", "h.edn", "h.log", "h.jsonl"])
def test_bytes_that_are_no_utf8_are_an_error(tmp_path: Path, name: str) -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).history()
    if ".log" in name:
        data = b"INFO  jepsen.util - 0\t:invoke\t:write\tal\xffce\n"
    elif ".edn" in name:
        data = b"".join(edn.line_of(e, i).encode() + b"\n" for i, e in enumerate(builder.events()))
    else:
        data = b"".join(jsonl.event_line(e, i) for i, e in enumerate(builder.events()))
    data = data.replace(b"alice", b"al\xffce", 1)
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(HistoryError) as caught:
        load(path)
    assert (caught.value.line, caught.value.file) == (1, str(path))


def test_blocks_are_whole_lines_and_the_last_line_is_apart(tmp_path: Path) -> None:
    long = b"x" * (3 * PIECE_BYTES + 5)
    for lines in ([b"a", b"b"], [b"a", long], [long, b"b"], [b"", b"a", b"", b"b"], [long], [b""]):
        for end in (b"", b"\n", b"\n\n \n"):
            data = b"\n".join(lines) + end
            (tmp_path / "h").write_bytes(data)
            for text in (Text(data=data), Text(tmp_path / "h")):
                read = Lines(text)
                blocks = list(read.blocks())
                assert b"".join(blocks) + read.tail == data
                assert all(block.endswith(b"\n") for block in blocks)
                assert read.tail.rstrip() == data.rstrip().rpartition(b"\n")[2]


def test_a_long_last_line_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its search was quadratic: the bytes that are read are counted, not the time that it takes."""
    path = tmp_path / "h.jsonl"
    path.write_bytes(jsonl.header_line(Params()) + b'{"time_ns":' + b"1" * (20 * PIECE_BYTES))
    size, read = path.stat().st_size, 0
    pieces = Text.pieces

    def counted(self: Text) -> object:
        nonlocal read
        for piece in pieces(self):
            read += len(piece)
            yield piece

    monkeypatch.setattr(Text, "pieces", counted)
    assert "truncated" in load(path).problems[0]
    assert read < 3 * size


def test_a_reader_of_parquet_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    path = tmp_path / "h.parquet"
    save(HistoryBuilder().acquire("alice", "g1", 0, 10).history(), path)
    path.write_bytes(path.read_bytes().replace(b"lock-lab.sha256", b"lock-lab.sha257"))
    with pytest.raises(HistoryError, match="digest"):
        load(path)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'checker.formats.parquet_helper' in sys.orig_argv:\n    import os\n    os.abort()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(HistoryError, match="polars failed"):
        load(path)


def test_what_is_no_parquet_of_ours_is_not_given_to_polars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl = pytest.importorskip("polars")
    path = tmp_path / "h.parquet"
    monkeypatch.setattr(parquet_table, "polars", None)
    for data in (b"", b"PAR1", b"PAR1" + b"\xff" * 20 + b"PAR1", b"PAR1" + b"\0" * 8 + b"PAR1"):
        path.write_bytes(data)
        with pytest.raises(HistoryError, match="Parquet file"):
            load(path)
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(HistoryError, match="without a history's metadata"):
        load(path)


def test_parquet_of_more_than_is_allowed_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    path = tmp_path / "h.parquet"
    save(HistoryBuilder().acquire("alice", "g1", 0, 10).history(), path)
    with pytest.raises(HistoryError, match="saw more than 10 B"):
        load(path, max_size=10)
    with pytest.raises(HistoryError, match="saw more than 10 B"):
        parquet_table.read_apart(path, 10)
    assert load(path, max_size=1000).ops.names.client == ["alice"]


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("2GiB", 2 << 30), ("500 MB", 500 << 20), ("1.5k", 1536), ("7b", 7)]
)
def test_sizes_in_words(text: str, size: int) -> None:
    assert size_of(text) == size


def test_sizes_are_told_as_they_are_written() -> None:
    assert [size_text(n) for n in (5, 1 << 20, 3 << 29)] == ["5 B", "1 MiB", "1.5 GiB"]
    for text in ("", "x", "0", "1e99999", "2XiB", "nan", "inf"):
        with pytest.raises(HistoryError):
            size_of(text)


def test_an_event_in_a_line_of_its_own_kind() -> None:
    """A last line that is JSON but no event is an error, and no footer."""
    for line in ("null", "3", "[]", "{}", '{"end":false,"events":0}'):
        with pytest.raises(HistoryError):
            jsonl.parse('{"history":1}\n' + line)
    assert jsonl.parse(jsonl.event_line(Event(time_ns=0, process="a", type="invoke", f="read"), 0)).ops
