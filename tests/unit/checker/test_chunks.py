"""Large files of JSON Lines in shares: the ranges, what helpers send, the merge of their tables."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from checker.errors import UNREADABLE, HistoryError
from checker.formats import chunks, helper, jsonl
from checker.formats.chunks import Chunk, chunk_of, merge, packed, read_range, spans, unpacked
from checker.history.events import Event
from checker.history.pairing import EVENT_CODES, EventColumns, is_client_event
from tests.unit.checker.drawn import drawn_builder


def lines_in(path: Path) -> list[bytes]:
    """Write drawn events without header and footer; returns the lines."""
    lines = drawn_builder(0).text().splitlines(keepends=True)[1:-1]
    path.write_bytes(b"".join(lines))
    return lines


def content(columns: EventColumns) -> dict[str, Any]:
    """Everything in the columns, with names for codes."""
    plain = {name: getattr(columns, name).tolist() for name in ("index", "time_ns", "type", "kind")}
    named = {
        name: [None if code < 0 else columns.names[name][code] for code in columns.codes[name].tolist()]
        for name in EVENT_CODES
    }
    numbers = {name: column.tolist() for name, column in columns.numbers.items()}
    dtypes = {name: str(column.dtype) for name, column in columns.codes.items()}
    return plain | named | numbers | {"clients": list(columns.clients), "dtypes": dtypes}


@pytest.mark.parametrize("size", [1, 100, 150, 151, 10_000])
def test_ranges_are_whole_lines_of_at_least_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    lines = lines_in(tmp_path / "h")
    whole = b"".join(lines)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
    start = len(lines[0])
    ranges = list(spans(tmp_path / "h", start, len(whole)))
    assert [ranges[0][0], ranges[-1][1]] == [start, len(whole)]
    assert all(one[1] == two[0] for one, two in pairwise(ranges))
    for begin, end in ranges[:-1]:
        assert whole[end - 1 : end] == b"\n"
        assert end - begin >= size
        assert b"\n" not in whole[begin + size : end - 1], "it ends with the first line that is long enough"
    assert list(spans(tmp_path / "h", 5, 5)) == []
    at = len(whole) - len(lines[-1]) - 3
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 3)
    assert list(spans(tmp_path / "h", 0, at + 3))[-1][1] == at + 3
    assert list(spans(tmp_path / "h", at, at + 3)) == [(at, at + 3)]


class Helper:
    """A helper that has answered already."""

    def __init__(self, answer: bytes, polled: int | None = 0) -> None:
        self.stdout, self.polled, self.done = io.BytesIO(answer), polled, list[str]()

    def poll(self) -> int | None:
        return self.polled

    def kill(self) -> None:
        self.done.append("killed")

    def wait(self) -> None:
        self.done.append("waited for")


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("cores", [1, 2, 3, 40])
def test_shares_are_read_by_helpers_or_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, answers: bool
) -> None:
    path = tmp_path / "h"
    lines = lines_in(path)
    size = path.stat().st_size
    helpers: list[Helper] = []

    def start(path: Path, begin: int, end: int, foreign: bool) -> Helper:
        chunk = packed(read_range(path, begin, end, foreign))
        helpers.append(Helper(pickle.dumps(chunk) if answers else b"", 0 if answers else None))
        return helpers[-1]

    monkeypatch.setattr(chunks, "_start_helper", start)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 100)
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", size)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    found = chunks.read_chunks(path, 0, size, foreign=False)
    assert len(found) == min(cores, 8)
    assert len(helpers) == len(found) - 1
    assert all(one.done == (["waited for"] if answers else ["killed", "waited for"]) for one in helpers)
    assert all(one.stdout.closed for one in helpers)
    columns, others, total = merge(found)
    once = read_range(path, 0, size, False)
    assert content(columns) == content(once.columns)
    assert (others, total) == (once.others, len(lines))
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", size + 1)
    assert len(chunks.read_chunks(path, 0, size, foreign=False)) == 1


def test_an_unknown_number_of_cores_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines_in(tmp_path / "h")
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert len(chunks.read_chunks(tmp_path / "h", 0, (tmp_path / "h").stat().st_size, foreign=False)) == 1


def test_events_of_other_tools_may_have_other_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h"
    path.write_bytes(b'{"time_ns":1,"process":"a","type":"invoke","f":"read","extra":1}\n' * 1)
    size = path.stat().st_size
    for cores in (1, 2):
        monkeypatch.setattr(chunks, "PARALLEL_BYTES", 0)
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        if cores == 1:
            assert chunks.read_chunks(path, 0, size, foreign=True)[0].count == 1
        with pytest.raises(UNREADABLE):
            chunks.read_chunks(path, 0, size, foreign=False)


@pytest.mark.parametrize("foreign", [True, False])
def test_a_helper_process_sends_its_share(tmp_path: Path, foreign: bool) -> None:
    lines = lines_in(tmp_path / "h")
    cut = len(lines[0] + lines[1])
    started = chunks._start_helper(tmp_path / "h", cut, cut + len(lines[2]), foreign)
    try:
        assert started.stdin is None
        assert started.stderr is None
        found = chunks._result(started)
        assert found is not None
        assert content(found.columns) == content(
            read_range(tmp_path / "h", cut, cut + len(lines[2]), foreign).columns
        )
        assert started.wait() == 0
    finally:
        started.kill()
        assert isinstance(started, subprocess.Popen)
        assert started.stdout is not None
        started.stdout.close()


def test_what_a_helper_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = lines_in(tmp_path / "h")
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    arguments = [str(tmp_path / "h"), "0", str(len(lines[0])), "0"]
    assert helper.main(arguments) == 0
    chunk: Chunk = pickle.loads(out.buffer.getvalue())
    assert chunk.count == 1
    assert chunk.columns.numbers["fence"].shape == ()
    assert helper.main([str(tmp_path / "none"), "0", "1", "0"]) == 1
    assert helper.main([str(tmp_path / "h"), "1", str(len(lines[0])), "0"]) == 1
    (tmp_path / "h").write_bytes(lines[0].replace(b"{", b'{"x":1,', 1))
    size = str((tmp_path / "h").stat().st_size)
    assert [helper.main([str(tmp_path / "h"), "0", size, foreign]) for foreign in "01"] == [1, 0]


def test_constant_columns_are_sent_as_one_number(tmp_path: Path) -> None:
    lines = lines_in(tmp_path / "h")
    chunk = read_range(tmp_path / "h", 0, sum(map(len, lines)), False)
    small = packed(chunk)
    sizes = {name: (column.ndim, column.size) for name, column in small.columns.numbers.items()}
    constant = {n for n, column in chunk.columns.numbers.items() if column.strides == (0,)}
    assert constant
    assert {name for name, (dimensions, _) in sizes.items() if dimensions == 0} == constant
    assert content(unpacked(small).columns) == content(chunk.columns)
    assert chunks._constant(np.array([5, 5])).tolist() == [5, 5]
    assert chunks._constant(np.broadcast_to(np.int64(3), (0,))).shape == (0,)
    assert chunks._constant(np.broadcast_to(np.int64(3), (4,))).tolist() == 3


def test_parts_must_follow_each_other(tmp_path: Path) -> None:
    lines = lines_in(tmp_path / "h")
    cut = len(lines[0]) + len(lines[1])
    size = sum(map(len, lines))
    one, two = read_range(tmp_path / "h", 0, cut, False), read_range(tmp_path / "h", cut, size, False)
    assert merge([one, two])[2] == len(lines)
    assert merge([one])[2] == 2
    for wrong, reported in (
        ([two], "saw 2, expected 0"),
        ([one, one], "saw 0, expected 2"),
        ([two, one], "saw 2"),
    ):
        with pytest.raises(HistoryError, match=reported):
            merge(wrong)
    (tmp_path / "h").write_bytes(b"".join(line.replace(b'"index"', b'"value"') for line in lines[:2]))
    bare = read_range(tmp_path / "h", 0, (tmp_path / "h").stat().st_size, False)
    assert bare.first is None
    assert merge([bare, bare])[2] == 4


def test_events_in_parts_are_one_chunk(tmp_path: Path) -> None:
    """Those of clients and others, whichever part they are in."""
    events = [e for number in (0, 4) for e in drawn_builder(number).events()]
    events = [msgspec.structs.replace(event, index=None) for event in events]
    assert 5 < sum(map(is_client_event, events)) < len(events) - 5
    whole = chunk_of([events])
    for size in (1, 3, 10):
        parts: list[list[Event]] = [events[at : at + size] for at in range(0, len(events), size)]
        found = chunk_of([[], *parts, []])
        assert content(found.columns) == content(whole.columns)
        assert (found.others, found.count, found.first) == (whole.others, len(events), None)
    assert [at for at, _ in whole.others] == [i for i, e in enumerate(events) if not is_client_event(e)]
    counted = [msgspec.structs.replace(event, index=i + 7) for i, event in enumerate(events)]
    assert chunk_of([counted[:4], counted[4:]]).first == 7
    with pytest.raises(HistoryError, match=r"saw 12, expected 11: .* \(event 11\)"):
        chunk_of([counted[:4], counted[5:]])
    with pytest.raises(HistoryError, match=r"saw 14, expected 13: .* \(event 13\)"):
        chunk_of([counted[:4], [*counted[4:6], *counted[7:]]])


def test_joined_columns_keep_their_form() -> None:
    three, none = np.broadcast_to(np.int32(3), (2,)), np.broadcast_to(np.int32(9), (0,))
    joined = chunks._joined([none, three, three])
    assert (joined.strides, joined.tolist()) == ((0,), [3, 3, 3, 3])
    assert chunks._joined([three, np.array([4, 5])]).tolist() == [3, 3, 4, 5]
    assert chunks._joined([none]).tolist() == []
    assert chunks._translated(np.array([1, -1, 0], np.int32), np.array([4, 2])).tolist() == [2, -1, 4]
    same = np.array([1, -1, 0], np.int32)
    assert chunks._translated(same, np.array([0, 1])) is same
    assert chunks._translated(same, np.array([], int)) is same


def test_a_file_is_read_in_shares_only_if_it_lies_plain_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = drawn_builder(0).text()
    (tmp_path / "h.jsonl").write_bytes(text)
    asked: list[tuple[int, int, bool]] = []

    def shares(path: Path, start: int, end: int, *, foreign: bool) -> list[Chunk]:
        asked.append((start, end, foreign))
        return [read_range(path, start, end, foreign)]

    monkeypatch.setattr(chunks, "read_chunks", shares)
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", len(text) + 1)
    assert len(jsonl.load(tmp_path / "h.jsonl").ops) == len(drawn_builder(0).history().ops)
    assert asked == []
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", len(text))
    assert len(jsonl.load(tmp_path / "h.jsonl").ops) == len(jsonl.parse(text).ops)
    lines = text.splitlines(keepends=True)
    assert asked == [(len(lines[0]), len(text) - len(lines[-1]), False)]
