"""Parquet: what is written is read again, field by field; what is not as it is written is named."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checker import check
from checker.errors import HistoryError
from checker.formats import parquet, parquet_helper, parquet_table
from checker.formats.packed import PackedNames
from checker.formats.seal import BLANK, KEY, footer_of
from checker.history.completeness import Completeness
from checker.history.history import History
from checker.history.operations import COLUMNS
from tests.unit.checker.drawn import drawn_builder

SOME = [drawn_builder(number).history() for number in (0, 4, 5, 7, 13)]


@pytest.fixture
def pl() -> Any:
    """Polars, which is imported when a test needs it: it starts threads."""
    return pytest.importorskip("polars")


def same(one: History, two: History) -> None:
    """Both hold the same, column by column and name by name."""
    for name, (dtype, _) in COLUMNS.items():
        first, second = getattr(one.ops, name), getattr(two.ops, name)
        assert second.dtype == dtype, name
        if not hasattr(one.ops.names, name):
            assert first.tolist() == second.tolist(), name
            continue
        texts = []
        for codes, names in ((first, getattr(one.ops.names, name)), (second, getattr(two.ops.names, name))):
            texts.append([None if code < 0 else names[code] for code in codes.tolist()])
        assert texts[0] == texts[1], name
    for name in ("params", "problems", "others", "start_ns", "end_ns", "has_header", "complete"):
        assert getattr(one, name) == getattr(two, name), name


@pytest.mark.parametrize("number", range(len(SOME)))
@pytest.mark.parametrize("packed", [True, False])
def test_what_is_written_is_read_again(
    pl: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, packed: bool
) -> None:
    monkeypatch.setattr(parquet_table, "PACKED_FROM", 1 if packed else 10_000)
    history = SOME[number]
    parquet.save(history, tmp_path / "h.parquet")
    again = parquet.load(tmp_path / "h.parquet")
    same(history, again)
    assert check(again).to_dict() == check(history).to_dict()
    assert isinstance(again.ops.names.process, PackedNames) == packed


def test_what_is_known_of_a_history_travels_with_it(pl: Any, tmp_path: Path) -> None:
    whole = replace(
        SOME[0], problems=("cut",), has_header=False, complete=Completeness.COUNTED, start_ns=-5, end_ns=7
    )
    parquet.save(whole, tmp_path / "h.parquet")
    same(whole, parquet.load(tmp_path / "h.parquet"))


def unsealed(pl: Any, path: Path) -> None:
    """Write a file anew without its digest, as an earlier version would have."""
    text = pl.read_parquet_metadata(path)["history"].replace('"digest":true', '"digest":false')
    pl.read_parquet(path).write_parquet(path, metadata={"history": text})


def test_a_file_without_a_digest_is_read_apart_and_of_unknown_completeness(pl: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    parquet.save(SOME[0], path)
    unsealed(pl, path)
    again = parquet.load(path)
    assert again.complete is Completeness.NOT_KNOWN
    same(replace(SOME[0], complete=Completeness.NOT_KNOWN), again)


REWRITTEN: tuple[tuple[Any, str], ...] = (
    (
        lambda pl, t: t.with_columns(pl.col("fence").cast(pl.Float64)),
        "field 'fence': saw a column of Float64, expected one of Int64",
    ),
    (
        lambda pl, t: t.with_columns(pl.lit(3).alias("key")),
        "field 'key': saw a column of Int32, expected one of String",
    ),
    (
        lambda pl, t: t.with_columns(pl.when(pl.col("ttl_ns") > 0).then(pl.col("ttl_ns")).alias("ttl_ns")),
        "field 'ttl_ns': saw 1 missing values, expected none",
    ),
    (
        lambda pl, t: t.with_columns(pl.lit("true").alias("value")),
        "field 'value': saw true, expected a string, an integer or a pair",
    ),
    (
        lambda pl, t: t.with_columns(pl.lit('["a",true]').alias("value")),
        "field 'value': saw [\"a\",true], expected a string",
    ),
    (lambda _, t: t.drop("token"), "saw no history, expected one that checker.save wrote ("),
)


@pytest.mark.parametrize("number", range(len(REWRITTEN)))
def test_a_table_that_is_another_is_named(pl: Any, tmp_path: Path, number: int) -> None:
    change, reported = REWRITTEN[number]
    path = tmp_path / "h.parquet"
    history = drawn_builder(5).history() if "ttl" not in reported else SOME[0]
    parquet.save(history, path)
    metadata = {"history": pl.read_parquet_metadata(path)["history"]}
    change(pl, pl.read_parquet(path)).write_parquet(path, metadata=metadata)
    with pytest.raises(HistoryError) as caught:
        parquet_table.read_here(path, 2**40)
    assert re.sub(r"\d+ missing", "1 missing", str(caught.value)).startswith(reported)


def test_a_digest_that_is_gone_or_wrong_is_named(pl: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    parquet.save(SOME[0], path)
    text = pl.read_parquet_metadata(path)["history"]
    hint = "hint: get the file once more; if another tool rewrote it, start from what checker.save wrote"
    for metadata, reported in (
        ({"history": text}, "its digest is gone"),
        ({"history": text, KEY: BLANK}, "its digest does not agree with its bytes"),
    ):
        pl.read_parquet(path).write_parquet(path, metadata=metadata)
        with pytest.raises(HistoryError) as caught:
            parquet.load(path)
        assert str(caught.value) == (
            f"field '{KEY}': the file was changed after it was written: {reported}\n{hint}"
        )


@pytest.mark.parametrize("text", ['{"params":{},"start_ns":0}'])
def test_metadata_that_are_none_are_named(pl: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "h.parquet"
    parquet.save(SOME[0], path)
    pl.read_parquet(path).write_parquet(path, metadata={"history": text})
    with pytest.raises(HistoryError, match=r"saw no history, expected one that checker.save wrote \(.+\)"):
        parquet.load(path)


def test_files_that_are_no_history(pl: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    path.write_bytes(b"PAR1" + struct.pack("<I", 0) + b"PAR2")
    with pytest.raises(HistoryError) as caught:
        parquet.load(path)
    assert str(caught.value) == "saw no whole Parquet file\nhint: get the file once more"
    for metadata in ({}, {"other": "history"}):
        pl.DataFrame({"a": [1]}).write_parquet(path, metadata=metadata)
        with pytest.raises(HistoryError) as caught:
            parquet.load(path)
        assert str(caught.value) == (
            "a Parquet file without a history's metadata\nhint: write it with checker.save"
        )
        assert footer_of(path) is not None


def test_stamps_beyond_reason_are_refused(pl: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    parquet.save(replace(SOME[0], ops=replace(SOME[0].ops, call_ns=SOME[0].ops.call_ns + 2**61)), path)
    with pytest.raises(HistoryError, match="expected a number from"):
        parquet.load(path)


def test_the_size_is_that_of_the_columns(pl: Any, tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    parquet.save(SOME[0], path)
    row = sum(np.dtype(dtype).itemsize for dtype, _ in COLUMNS.values())
    size = row * len(SOME[0].ops)
    assert parquet.load(path, size).ops is not None
    with pytest.raises(HistoryError, match="saw more than"):
        parquet.load(path, size - 1)


def test_a_helper_that_dies_is_named(pl: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dead(code: int, reported: bytes) -> Any:
        return lambda *_, **__: parquet_table.subprocess.CompletedProcess([], code, b"", reported)  # type: ignore[attr-defined]

    for code, reported, words in (
        (-6, b"one\nlast words\n", "last words"),
        (-6, b"", "-6"),
        (1, b"x" * 300, "x" * 200 + ")"),
        (1, b"\xff", "\ufffd"),
    ):
        monkeypatch.setattr(parquet_table.subprocess, "run", dead(code, reported))  # type: ignore[attr-defined]
        with pytest.raises(HistoryError) as caught:
            parquet_table.read_apart(tmp_path / "h", 1)
        assert "saw a damaged file, on which polars failed (" + words in str(caught.value)
        assert caught.value.hint == "get the file once more, or save the history again with checker.save"


def test_the_memory_of_the_helper_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    room, asked = 8 << 30, []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    for most in (-1, 1 << 50, 5):
        monkeypatch.setattr(resource, "getrlimit", lambda _, most=most: (7, most))
        parquet_helper._limit_memory(100)
    parquet_helper._limit_memory(2**63)
    assert asked == [(300 + room, -1), (300 + room, 1 << 50), (5, 5), (5, 5)]
