"""The compiled loops against the decoder: the same history, or the file is left to the decoder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.histories import correct_lock
from checker import HistoryError, load, save
from checker.formats import chunks, jsonl, kernel, scan
from checker.formats.packed import PackedNames
from checker.formats.text import Text
from checker.history.pairing import EVENT_CODES
from checker.linearizability.compiled import uses_compiler
from tests.fuzz.test_formats_fuzz import GOLDEN, PIECES
from tests.fuzzing import examples
from tests.unit.checker.test_history import same, small

GRANTED = (
    b'{"time_ns":1,"process":"a","type":"invoke","f":"acquire","index":0,"key":"k","grant_id":"g","ttl_ns":5}\n'
    b'{"time_ns":2,"process":"a","type":"ok","f":"acquire","index":1,"key":"k","token":"t","fence":-7}\n'
    b'{"time_ns":3,"process":"lab","type":"ok","f":"read","index":2,"key":"k","value":[1,{"a":"\\\\"}]}\n'
    b'{"time_ns":4,"process":"b","client":"bob","type":"info","f":"write","index":3,"value":12,"error":"\xc3\xa9"}\n'
)


def alike(one: chunks.Chunk, two: chunks.Chunk) -> None:
    """Both chunks say the same, code by code."""
    assert (one.count, one.first) == (two.count, two.first)
    assert one.others == two.others
    assert list(one.columns.clients) == list(two.columns.clients)
    for name in EVENT_CODES:
        assert list(one.columns.names[name]) == list(two.columns.names[name]), name
        assert one.columns.codes[name].tolist() == two.columns.codes[name].tolist(), name
    for name, numbers in two.columns.numbers.items():
        assert one.columns.numbers[name].tolist() == numbers.tolist(), name
    for name in ("index", "time_ns", "type", "kind"):
        assert getattr(one.columns, name).tolist() == getattr(two.columns, name).tolist(), name


def compare(text: bytes, *, compiled: bool = False) -> bool:
    """Whether the loops could read it; if so, the decoder must have read the same."""
    outcome: chunks.Chunk | None
    try:
        body = jsonl.Body(Text(data=text))
        outcome = scan.Scanner(foreign=body.foreign, compiled=compiled).chunk(body.blocks())
    except (scan.NotPlain, HistoryError):
        return False
    again = jsonl.Body(Text(data=text))
    alike(outcome, chunks.read_blocks(again.blocks(), foreign=again.foreign))
    return True


def test_known_histories_are_read_alike() -> None:
    left = [path.name for path in GOLDEN if not compare(path.read_bytes())]
    assert left == [], "events of this package are plain"


@pytest.mark.full
@pytest.mark.parametrize("info", [0.0, 0.1])
def test_compiled_and_interpreted_loops_read_alike(tmp_path: Path, info: float) -> None:
    pytest.importorskip("numba")
    save(correct_lock(3_000, info=info), tmp_path / "h.jsonl")
    assert compare((tmp_path / "h.jsonl").read_bytes(), compiled=True)
    assert compare(small().text(), compiled=True)


@pytest.mark.full  # compiles the loops
def test_a_large_file_goes_this_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = correct_lock(20_000)
    save(history, tmp_path / "h.jsonl")
    plain = load(tmp_path / "h.jsonl")
    monkeypatch.setattr(jsonl, "worth_it", lambda size: size > 1_000_000)
    monkeypatch.setattr(chunks, "read_blocks", None)
    if uses_compiler(10**6):
        fast = load(tmp_path / "h.jsonl")
        same(plain.ops, fast.ops)
        assert isinstance(fast.ops.names.token, PackedNames) == (
            len(plain.ops.names.token) >= scan.PACKED_FROM
        )
        assert fast.complete == plain.complete


def test_what_the_loops_refuse_is_told_by_the_decoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "worth_it", lambda size: True)
    monkeypatch.setattr(jsonl, "Scanner", partial(scan.Scanner, compiled=False))
    path = tmp_path / "h.jsonl"
    path.write_bytes(GRANTED.replace(b'"fence":-7', b'"fence":"7"'))
    with pytest.raises(HistoryError) as caught:
        load(path)
    assert (caught.value.line, caught.value.field) == (2, "fence")


WRONG = (
    (b'"time_ns":1', b'"time_ns":01', b'"time_ns":1.0', b'"time_ns":1e3', b'"time_ns":-0', b'"time_ns":null'),
    (
        b'"fence":-7',
        b'"fence":"7"',
        b'"fence":true',
        b'"fence":-',
        b'"fenc":1',
        b'"fence":9999999999999999999',
    ),
    (b'"index":1', b'"index":2', b'"index":-1', b'"index":9223372036854775807', b'"index":1,"index":1'),
    (b'"type":"ok"', b'"type":"okay"', b'"type":""', b'"type":"acquire"', b'"type":"lab"', b'"type":ok'),
    (b'"f":"acquire"', b'"f":"invoke"', b'"f":"stall"', b'"f":"nemesis"', b'"f":""'),
    (
        b'"process":"a"',
        b'"process":"nemesis"',
        b'"process":"\xff"',
        b'"process":"\\u0061"',
        b'"process":"\n"',
    ),
    (b'"key":"k"', b'"key":"\xc3"', b'"key":5', b'"key":"k" ', b'"key":"k",', b'"node":"A"', b'"key":"\x01"'),
    (b'"value":12', b'"value":"12"', b'"value":-0', b'"value":012', b'"value":1.5', b'"value":[1]'),
    (b"}\n", b"}\r\n", b"}", b"}}\n", b"\n", b"}\n\n", b"}\n \n", b'} {"a":1}\n'),
)


@pytest.mark.parametrize("words", WRONG, ids=lambda words: words[0].decode().strip())
def test_every_change_of_a_word_is_read_alike_or_left(words: tuple[bytes, ...]) -> None:
    for word in words:
        for first in range(GRANTED.count(words[0])):
            parts = GRANTED.split(words[0])
            text = words[0].join(parts[: first + 1]) + word + words[0].join(parts[first + 1 :])
            compare(text)
            compare(b'{"history":1}\n' + text)
    assert compare(GRANTED)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damaged_text_is_read_alike_or_left(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from([GRANTED, *(path.read_bytes() for path in GOLDEN[:12])])))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        to = min(len(text), at + data.draw(st.sampled_from([0, 1, 2, 7])))
        text[at:to] = data.draw(st.one_of(st.sampled_from(PIECES[:40]), st.binary(max_size=3)))
    compare(bytes(text))


@given(st.binary(max_size=30))
@example(b"-0,")
@example(b"00,")
@example(b"9" * 18 + b",")
@example(b"-" + b"9" * 19 + b",")
def test_integers_are_those_of_json(data: bytes) -> None:
    end, value = kernel.integer(data, 0)
    if end >= 0:
        assert int(data[:end]) == value
        assert data[:end] == str(value).encode()


def test_packed_names_are_a_sequence() -> None:
    import numpy as np

    names = PackedNames("aäb".encode(), np.array([1, 3, 3, 4]))
    assert list(names) == ["a", "ä", "", "b"]
    assert names[-1] == "b"
    assert names[1:3] == ["ä", ""]
    assert PackedNames(b'"x"[1,2]7', np.array([3, 8, 9]), json=True)[0:3] == ["x", (1, 2), 7]
    with pytest.raises(IndexError):
        names[4]
