"""Reading a history: pairing, damage, truncation, formats that say the same thing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.histories import correct_lock
from checker import check
from checker.errors import HistoryError
from checker.formats import chunks, detect, load, save
from checker.formats.jsonl import parse
from checker.history.events import Event
from checker.history.history import History
from checker.history.operations import MISSING, NEVER, NONE, F, Operations, Status
from tests.unit.checker.builder import MS, HistoryBuilder

ACQUIRE = '{"time_ns":1,"process":"a","type":"invoke","f":"acquire","key":"k","grant_id":"g"}'
ACQUIRED = '{"time_ns":2,"process":"a","type":"ok","f":"acquire","key":"k","grant_id":"g"}'


def written(builder: HistoryBuilder, path: Path) -> Path:
    path.write_bytes(builder.text())
    return path


def small() -> HistoryBuilder:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10, claimed=980, fence=3, token="t1")
    builder.write("alice", "g1", 20, 30, 0, 1, fence=3, token="t1").release("alice", "g1", 40, 50)
    builder.acquire("bob", "g2", 60, 70, "info").acquire("bob/2", "g3", 80, 90, "fail", error="held")
    builder.fault("cut", 100, ["alice", "D"], until=200, breaks="x").stall("bob", 110, 70)
    builder.lab("read", 300, key="k", version_read=1, value="x").lab(
        "log", 310, key="k", entries=[(1, "x", "g1", 3)]
    )
    return builder.acquire("carol", "g4", 400, None)


def same(one: Operations, two: Operations) -> None:
    for name in ("f", "status", "call_ns", "return_ns", "info_ns", "call_index", "return_index", "fence"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    for name in ("process", "client", "key", "grant", "token", "value", "error"):
        assert [one.name(name, i) for i in range(len(one))] == [two.name(name, i) for i in range(len(two))]
    for name in ("ttl_ns", "claimed_ns", "version_read", "version_written"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


def test_invocations_meet_their_completions() -> None:
    ops = small().history().ops
    assert [F(f).name for f in ops.f] == ["ACQUIRE", "WRITE", "RELEASE", "ACQUIRE", "ACQUIRE", "ACQUIRE"]
    assert [Status(s).name for s in ops.status] == ["OK", "OK", "OK", "INFO", "FAIL", "INFO"]
    assert ops.return_ns[3] == NEVER
    assert ops.info_ns[3] == 70 * MS
    assert ops.return_index[5] == NONE
    assert ops.fence[1] == 3
    assert ops.version_read[1] == 0
    assert ops.version_written[1] == 1
    assert ops.ttl_ns[0] == 1000 * MS
    assert ops.ttl_ns[2] == MISSING
    assert ops.name("client", 4) == "bob"
    assert ops.name("error", 4) == "held"


def test_faults_stalls_and_lab_records() -> None:
    history = small().history()
    (fault, healing) = history.faults
    assert (fault.f, fault.confirmed, fault.until_ns) == ("cut", True, 200 * MS)
    assert healing.heals == fault.fault_id
    assert [(s.client, s.start_ns, s.end_ns) for s in history.stalls] == [("bob", 110 * MS, 180 * MS)]
    assert [r.f for r in history.lab] == ["read", "log"]
    assert history.lab[1].entries == ((1, "x", "g1", 3),)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_formats_say_the_same(tmp_path: Path, suffix: str) -> None:
    history = small().history()
    path = tmp_path / f"history{suffix}"
    save(history, path)
    again = load(path)
    same(history.ops, again.ops)
    assert again.params == history.params
    assert again.faults == history.faults
    assert again.problems == ()
    assert check(again).to_dict() == check(history).to_dict()
    assert [e.time_ns for e in again.events()] == [e.time_ns for e in history.events()]


@pytest.mark.parametrize(
    ("column", "change", "problem"),
    [
        ("status", lambda pl, it: it.set(pl.Series([True] + [False] * (len(it) - 1)), None), "1 missing"),
        ("call_ns", lambda pl, it: it.shift(1), "1 missing"),
        ("fence", lambda pl, it: it.cast(pl.Float64) + 0.5, "Float64"),
        ("f", lambda pl, it: it.cast(pl.Enum(list(reversed(it.dtype.categories)))), "Enum"),
        ("token", lambda pl, it: pl.Series(range(len(it))), "Int64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_was_changed_is_refused(
    tmp_path: Path, column: str, change: Callable[[Any, Any], Any], problem: str
) -> None:
    """It was turned into numbers that nobody recorded: what is missing became the first of all statuses."""
    pl = pytest.importorskip("polars")
    path = tmp_path / "h.parquet"
    save(small().history(), path)
    metadata = pl.read_parquet_metadata(path)
    table = pl.read_parquet(path)
    table = table.with_columns(change(pl, table[column]).alias(column))
    table.write_parquet(path, metadata={"history": metadata["history"]})
    with pytest.raises(HistoryError, match=problem) as error:
        load(path)
    assert error.value.field == column
    assert str(path) in str(error.value)


def test_a_large_file_read_by_helpers_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = correct_lock(4_000, info=0.05)
    save(history, tmp_path / "h.jsonl")
    alone = load(tmp_path / "h.jsonl")
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    together = load(tmp_path / "h.jsonl")
    same(alone.ops, together.ops)
    same(history.ops, together.ops)


def test_an_error_in_the_share_of_a_helper_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(correct_lock(4_000), tmp_path / "h.jsonl")
    lines = (tmp_path / "h.jsonl").read_text().splitlines(keepends=True)
    lines[6_000] = lines[6_000].replace('"type":"ok"', '"type":"okay"').replace('"invoke"', '"okay"')
    (tmp_path / "h.jsonl").write_text("".join(lines))
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.raises(HistoryError) as caught:
        load(tmp_path / "h.jsonl")
    assert (caught.value.line, caught.value.field) == (6_001, "type")


def test_text_and_file_are_read_alike(tmp_path: Path) -> None:
    path = written(small(), tmp_path / "h.jsonl")
    same(load(path).ops, parse(path.read_bytes()).ops)


def cut_last_line(data: bytes) -> bytes:
    return data[:-20]


def cut_inside_event(data: bytes) -> bytes:
    return data[: data.rindex(b"carol") + 3]


def drop_footer(data: bytes) -> bytes:
    return data[: data.rindex(b'{"end"')]


def wrong_count(data: bytes) -> bytes:
    return data.replace(b'"events":', b'"events":1')


@pytest.mark.parametrize("damage", [cut_last_line, cut_inside_event, drop_footer, wrong_count])
def test_an_incomplete_record_is_a_problem_and_never_a_pass(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10, claimed=900).release("alice", "g1", 20, 30)
    builder.acquire("carol", "g4", 400, 410, claimed=900)
    path = tmp_path / "h.jsonl"
    path.write_bytes(damage(builder.text()))
    for history in (load(path), parse(path.read_bytes())):
        assert len(history.problems) == 1
        verdict = check(history)
        assert {p.outcome for p in verdict.properties.values()} == {"unknown"}
        assert verdict.unknown_reasons[0] == history.problems[0]


def test_a_truncated_record_keeps_its_violations(tmp_path: Path) -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).acquire("bob", "g2", 20, 30)
    path = tmp_path / "h.jsonl"
    path.write_bytes(drop_footer(builder.text()))
    assert check(load(path))["mutual_exclusion"].outcome == "violated"


def test_a_foreign_history_needs_neither_header_nor_footer() -> None:
    history = parse(ACQUIRE.replace("}", ',"shard":7}') + "\n" + ACQUIRED)
    assert (history.has_header, history.problems, len(history.ops)) == (False, (), 1)


@pytest.mark.parametrize(
    ("lines", "line", "field", "words"),
    [
        ([ACQUIRE, "{oops}", ACQUIRED], 2, None, "one JSON object per line"),
        ([ACQUIRE.replace('"time_ns":1', '"time_ns":"1"'), ACQUIRED], 1, "time_ns", 'saw "1"'),
        ([ACQUIRE, ACQUIRED.replace('"ok"', '"okay"')], 2, "type", "okay"),
        ([ACQUIRE.replace('"process":"a",', ""), ACQUIRED], 1, "process", "missing"),
        ([ACQUIRE.replace("acquire", "aquire"), ACQUIRED], 1, "f", "did you mean 'acquire'"),
        ([ACQUIRED], 1, "process", "never invoked"),
        ([ACQUIRE, ACQUIRE], 2, "process", "invokes again"),
        ([ACQUIRE, ACQUIRED.replace("acquire", "release")], 1, "f", "another f"),
        ([ACQUIRE, ACQUIRED.replace('"k"', '"l"')], 1, "key", "another key"),
        ([ACQUIRE, ACQUIRED.replace('"g"', '"h"')], 1, "grant", "another grant"),
        ([ACQUIRE, ACQUIRED.replace('"time_ns":2', '"time_ns":0')], 1, "time_ns", "earlier"),
        (
            [ACQUIRE.replace("}", ',"fence":99999999999999999999}'), ACQUIRED],
            1,
            "fence",
            "99999999999999999999",
        ),
        (
            [ACQUIRE.replace("}", ',"index":0}'), ACQUIRED.replace("}", ',"index":2}')],
            2,
            "index",
            "expected 1",
        ),
        (
            [ACQUIRE.replace("}", ',"index":3}'), ACQUIRED.replace("}", ',"index":4}')],
            1,
            "index",
            "expected 0",
        ),
        ([ACQUIRE.replace("}", ',"value":1.5}'), ACQUIRED], 1, "value", "1.5"),
    ],
)
def test_damage_is_one_clear_error(
    lines: list[str], line: int, field: str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(HistoryError) as caught:
        load(path)
    error = caught.value
    assert (error.file, error.line, error.field) == (str(path), line, field)
    assert words in str(error)


@pytest.mark.parametrize(
    ("header", "field"),
    [
        ('{"history":2,"params":{}}', "history"),
        ('{"history":1,"params":{"roh":0.1}}', "roh"),
        ('{"history":1,"params":{"model":"mutexx"}}', "params.model"),
    ],
)
def test_a_bad_header_names_the_field(header: str, field: str) -> None:
    with pytest.raises(HistoryError) as caught:
        parse(header + "\n" + ACQUIRE + "\n" + ACQUIRED)
    assert (caught.value.line, caught.value.field) == (1, field)
    assert "hint: " in str(caught.value) or field == "history"


def test_with_a_header_unknown_fields_are_an_error() -> None:
    with pytest.raises(HistoryError, match="did you mean 'fence'"):
        parse('{"history":1}\n' + ACQUIRE.replace("}", ',"fenc":1}') + "\n" + ACQUIRED)


def test_an_empty_file_is_an_empty_history(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_text("")
    assert {p.outcome for p in check(load(path)).properties.values()} == {"unknown"}


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"PAR1xx", "parquet"),
        (b'{"a":1}', "jsonl"),
        (b"{:a 1}", "edn"),
        (b"[{:a 1}]", "edn"),
        (b"INFO x", "jepsen-log"),
    ],
)
def test_a_file_without_a_suffix_is_told_by_its_content(tmp_path: Path, head: bytes, expected: str) -> None:
    path = tmp_path / "history"
    path.write_bytes(head)
    assert detect(path) == expected


def test_missing_files_and_formats_are_errors(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such file"):
        load(tmp_path / "nothing.jsonl")
    with pytest.raises(HistoryError, match="format"):
        load(written(small(), tmp_path / "h.jsonl"), "xml")
    (tmp_path / "h.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(HistoryError):
        load(tmp_path / "h.parquet")


def test_a_process_that_invokes_nothing_else_has_unknown_outcome() -> None:
    event = Event(time_ns=5, process="a", type="invoke", f="acquire", key="k", grant_id="g")
    history = History.from_events([event])
    assert history.ops.status.tolist() == [Status.INFO]
    assert history.ops.return_ns.tolist() == [NEVER]


def test_operations_refuse_columns_of_another_length() -> None:
    with pytest.raises(ValueError, match="shape"):
        Operations.build(2, f=[0])
    with pytest.raises(ValueError, match="no such column"):
        Operations.build(1, g=[0])


def test_acquires_without_grants_get_one_each_and_their_releases_follow() -> None:
    builder = HistoryBuilder(model="owner-mutex")
    for who, at in (("a", 0), ("b", 30), ("a", 60)):
        builder.op(who, "acquire", at, at + 5).op(who, "release", at + 10, at + 15)
    assert check(builder.history())["mutual_exclusion"].outcome == "ok"
    builder.op("c", "acquire", 61, 64)
    assert check(builder.history())["mutual_exclusion"].outcome == "violated"
