"""Lines of a history that grows, one source after the other, and what each line is read as."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from checker.errors import HistoryError
from checker.formats import jsonl
from checker.formats.foreign import Reading
from checker.history.events import Params
from checker.live import lines
from checker.live.command import follow
from checker.live.lines import Reader, lines_of

HEADER = jsonl.header_line(Params(nodes=3)).rstrip()
EVENT = b'{"time_ns":1,"process":"a","type":"invoke","f":"read"}'


def test_a_file_that_grows_is_read_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h"
    path.write_bytes(b"one\ntw")
    parts = [b"o\n", b"", b"\nthree\nfour"]
    slept: list[float] = []

    def grow(seconds: float) -> None:
        slept.append(seconds)
        with path.open("ab") as file:
            file.write(parts.pop(0))

    monkeypatch.setattr(lines.time, "sleep", grow)  # type: ignore[attr-defined]  # the module that it uses
    assert list(islice(lines_of(str(path)), 4)) == [b"one", b"two", b"", b"three"]
    assert slept == [0.05, 0.05, 0.05]


def test_a_file_that_becomes_shorter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h"
    path.write_bytes(b"one\ntwo")
    monkeypatch.setattr(lines.time, "sleep", lambda _: path.write_bytes(b"one\n"))  # type: ignore[attr-defined]
    read = lines_of(str(path))
    assert next(read) == b"one"
    with pytest.raises(HistoryError) as caught:
        next(read)
    assert str(caught.value) == (
        f"{path}: the file became shorter while it was followed\nhint: a history is only ever appended to"
    )


def test_a_file_that_is_gone_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "h"
    path.write_bytes(b"one\n")
    opened: list[Callable[[], object]] = [path.unlink]
    opened += [lambda: path.write_bytes(b"one\n"), lambda: path.write_bytes(b"")]
    monkeypatch.setattr(lines.time, "sleep", lambda _: opened.pop(0)())  # type: ignore[attr-defined]
    read = lines_of(str(path))
    assert next(read) == b"one"
    with pytest.raises(HistoryError, match="became shorter"):
        next(read)
    assert opened == []


@pytest.mark.parametrize(("mebibytes", "fine"), [(15.9, True), (16, True), (16.1, False), (16.9, False)])
def test_a_line_may_be_so_long(monkeypatch: pytest.MonkeyPatch, mebibytes: float, fine: bool) -> None:
    data = [b"x" * int(mebibytes * 2**20), b"\nnext"]
    monkeypatch.setattr(lines, "_from_stdin", lambda: iter(data))
    read = lines_of("-")
    if fine:
        assert [len(line or b"") for line in read] == [len(data[0]), 4]
        return
    with pytest.raises(HistoryError) as caught:
        next(read)
    assert str(caught.value) == "-: saw a line of more than 16 MiB"


def test_nothing_at_all_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lines, "_from_stdin", lambda: iter(()))
    assert follow(["-"]) == 2
    assert capsys.readouterr().err == "error: standard input:1: saw nothing, expected a header\n"


def test_no_file_and_a_directory_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(HistoryError) as caught:
            next(lines_of(str(path)))
        assert str(caught.value) == f"{path}: no such file\nhint: a run writes <run>/history.jsonl"


def test_standard_input_ends_with_a_line_without_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, found in ((b"one\ntwo", [b"one", b"two"]), (b"one\n", [b"one"]), (b"", [])):
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        with os.fdopen(reading) as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            assert list(lines_of("-")) == found


@pytest.mark.parametrize(("size", "fits"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_a_line_without_an_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, fits: bool
) -> None:
    monkeypatch.setattr(lines, "LINE_MAX", 1 << 20)
    monkeypatch.setattr(lines.time, "sleep", lambda _: (tmp_path / "h").write_bytes(b""))  # type: ignore[attr-defined]
    (tmp_path / "h").write_bytes(b"x" * size)
    reported = "the file became shorter" if fits else f"{tmp_path / 'h'}: saw a line of more than 1 MiB"
    with pytest.raises(HistoryError) as caught:
        next(lines_of(str(tmp_path / "h")))
    assert reported in str(caught.value)


def test_each_line_is_what_it_is() -> None:
    reader = Reader("FILE")
    assert (reader.line, reader.params, reader.footer) == (0, None, None)
    assert reader.read(HEADER) is None
    assert reader.params == Params(nodes=3)
    event = reader.read(EVENT)
    assert event is not None
    assert (event.time_ns, event.process, reader.line) == (1, "a", 2)
    assert reader.read(b"") is None
    assert reader.read(b"  ") is None
    assert reader.footer is None
    assert reader.read(b'{"end":true,"events":1}') is None
    assert reader.footer is not None
    assert (reader.footer.events, reader.line) == (1, 5)


@pytest.mark.parametrize(
    ("read", "reported"),
    [
        (
            [b"{:process 0}"],
            "FILE:1: saw {:process 0}, expected one JSON object per line (JSON is malformed: object keys "
            "must be strings (byte 1))\nhint: only the last line of a history may be incomplete",
        ),
        (
            [b"[1]"],
            "FILE:1: saw no object, expected an event\n"
            "hint: other formats can be checked when they are whole: leave out --follow",
        ),
        ([EVENT.replace(b'"read"', b'"read","value":["k",1]')], None),
        ([b'{"history":2}'], "FILE:1: field 'history': saw version 2, expected 1"),
        (
            [b""],
            "FILE:1: saw no header, expected the first line of a history of the lab's own format\n"
            "hint: other formats can be checked when they are whole: leave out --follow",
        ),
        (
            [HEADER, EVENT, EVENT.replace(b":1", b':"1"')],
            "FILE:3: field 'time_ns': saw \"1\": expected `int`, got `str`",
        ),
        (
            [HEADER, b"", EVENT[:-1]],
            f"FILE:3: saw {EVENT[:-1].decode()}, "
            "expected one JSON object per line (Input data was truncated)\n"
            "hint: only the last line of a history may be incomplete",
        ),
        (
            [HEADER, EVENT.replace(b"time_ns", b"time")],
            "FILE:2: field 'time': no such field\nhint: did you mean 'time_ns'?",
        ),
        ([HEADER, b"{}"], "FILE:2: field 'time_ns': missing\nhint: saw {}"),
        ([HEADER, b'{"end":true}'], None),
        ([HEADER, b"\xff"], None),
    ],
)
def test_a_line_that_is_nothing_of_it_is_an_error(read: list[bytes], reported: str | None) -> None:
    reader = Reader("FILE")
    for line in read[:-1]:
        reader.read(line)
    with pytest.raises(HistoryError) as caught:
        reader.read(read[-1])
    assert (caught.value.file, caught.value.line) == ("FILE", len(read))
    assert reported is None or str(caught.value) == reported
    assert reader.footer is None


def test_an_error_elsewhere_gets_the_place_of_the_line() -> None:
    reader = Reader("FILE")
    reader.read(HEADER)
    found = reader.at(HistoryError("bad", line=77, field="f", hint="do"))
    assert str(found) == "FILE:1: field 'f': bad\nhint: do"


def test_a_file_that_is_written_anew_is_an_error_though_it_is_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `copytruncate` of logrotate leaves it, if the next look at it comes late."""
    path = tmp_path / "h"
    for again, said in (
        (lambda: path.write_bytes(b"three\nfour\nfive\n"), "what was read of the file changed"),
        (lambda: _replaced(path, b"one\ntwo\nthree\n"), "replaced by another"),
    ):
        path.write_bytes(b"one\ntwo\n")
        monkeypatch.setattr(lines.time, "sleep", lambda _, again=again: again())  # type: ignore[attr-defined]
        read = lines_of(str(path))
        assert [next(read), next(read)] == [b"one", b"two"]
        with pytest.raises(HistoryError, match=said):
            next(read)


def _replaced(path: Path, data: bytes) -> None:
    path.with_suffix(".new").write_bytes(data)
    path.with_suffix(".new").rename(path)


def test_it_is_said_that_nothing_came_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h"
    path.write_bytes(b"one\n")
    slept: list[float] = []
    monkeypatch.setattr(lines.time, "sleep", slept.append)  # type: ignore[attr-defined]
    read = lines_of(str(path))
    assert [next(read), next(read)] == [b"one", None]
    assert len(slept) == lines.QUIET_POLLS - 1


def test_a_history_of_another_tool_has_no_header() -> None:
    reader = Reader("FILE", Reading({"grab": "acquire"}))
    event = reader.read(b'{"time":1,"process":3,"type":"invoke","f":"grab","ttl_ns":5,"shard":1}')
    assert event is not None
    assert (event.process, event.f, event.time_ns, event.ttl_ns) == ("3", "acquire", 1, 5)
    assert (reader.foreign, reader.params, reader.read(b""), reader.footer) == (True, Params(), None, None)
