"""The fast way into columns against the decoder: however a line is spelled, the same history or error.

Lines are spelled as other JSON writers may spell them (blanks, escapes, other orders, names twice, numbers
of every size), then bytes are changed; the compiled loops, the interpreted ones and the decoder read them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from checker import History, HistoryError, load
from checker.formats import jsonl, kernel, scan, text
from checker.formats.text import Lines, Text
from checker.history import pairing
from checker.history.operations import CODE_COLUMNS, COLUMNS
from checker.linearizability.compiled import compiled_kernel, uses_compiler
from checker.linearizability.machine import intrinsics
from tests.fuzz.test_formats_fuzz import GOLDEN, PIECES
from tests.fuzzing import examples
from tests.unit.checker.test_scan import compare

fuzzed = settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
COMPILED = uses_compiler(10**6)

Reading = tuple[Any, ...]


@contextmanager
def by(way: str, piece: int) -> Iterator[None]:
    """Read every file in one way ("decoder", "loops" or "compiled"), in blocks of about `piece` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "PIECE_BYTES", piece)
        patch.setattr(jsonl, "worth_it", lambda size: way != "decoder")
        patch.setattr(jsonl, "Scanner", partial(scan.Scanner, compiled=way == "compiled"))
        yield


def reported(history: History) -> Reading:
    """All that a history says."""
    ops = history.ops
    columns = {name: getattr(ops, name).tolist() for name in COLUMNS}
    names = {name: list(getattr(ops.names, name)) for name in CODE_COLUMNS}
    known = (history.params, history.problems, history.complete, history.has_header)
    return columns, names, known, history.others, history.start_ns, history.end_ns


def outcome(file: Path, way: str, piece: int) -> Reading:
    """What comes of a file: all that its history says, or the whole error."""
    with by(way, piece):
        try:
            return reported(load(file))
        except HistoryError as error:
            return (str(error), error.line, error.field, error.hint)


def read_alike(data: bytes, piece: int) -> None:
    """Every way comes to the same."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "h.jsonl")
        file.write_bytes(data)
        expected = outcome(file, "decoder", piece)
        assert outcome(file, "loops", piece) == expected
        if COMPILED:
            assert outcome(file, "compiled", piece) == expected


INTEGERS = st.one_of(
    st.integers(-9, 9),
    st.integers(0, 10**8),
    st.integers(-(2**64), 2**64),
    st.integers(1, 20).map(lambda digits: 10**digits - 1),
    st.integers(1, 20).map(lambda digits: -(10**digits)),
)
TEXTS = st.one_of(
    st.text(st.sampled_from('ab/"\\\x1f\x7fé\u2028😀'), max_size=24),
    st.integers(0, 30).map(lambda length: "0123456789" * 3 + "x" * length),
    st.sampled_from(["a", "b", "a/2", "nemesis", "lab", "node", "", "client", "yes"]),
)
VALUES = st.one_of(INTEGERS, TEXTS, st.none(), st.booleans(), st.floats(), st.lists(INTEGERS, max_size=2))
PIECE_SIZES = st.sampled_from([150, 400, 1 << 20])
KINDS = ["acquire", "extend", "release", "held", "read", "write", "cas", "stall", "lock"]
STRINGS = ["client", "node", "key", "grant_id", "token", "error", "process"]
NUMBERS = ["fence", "ttl_ns", "claimed_ns", "attempt_ns", "refused_by", "version_read", "index", "time_ns"]


@st.composite
def spelled(draw: st.DrawFn, value: Any) -> str:
    """A value as JSON, in one of the ways in which it may be written."""
    if isinstance(value, int) and not isinstance(value, bool) and draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["{}.0", "{}e0", "{}E+0", "0{}", "+{}", "-{}", '"{}"'])).format(value)
    if isinstance(value, str) and value and draw(st.integers(0, 5)) == 0:
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 65536 else c for c in value) + '"'
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@st.composite
def lines(draw: st.DrawFn, at: int) -> str:
    """One event, plain or odd."""
    plain = {
        "time_ns": at,
        "process": draw(st.sampled_from(["a", "b", "longer-than-a-word"])),
        "type": "ok" if at % 2 else "invoke",
        "f": draw(st.sampled_from(["acquire", "read"])),
    }
    if draw(st.booleans()):
        plain["index"] = at
    pairs: list[tuple[str, Any]] = list(plain.items())
    pairs += [(name, draw(TEXTS)) for name in draw(st.lists(st.sampled_from(STRINGS[:-1]), max_size=3))]
    pairs += [(name, draw(INTEGERS)) for name in draw(st.lists(st.sampled_from(NUMBERS[:-2]), max_size=2))]
    if draw(st.integers(0, 3)) == 0:
        odd = st.sampled_from([*STRINGS, *NUMBERS, "type", "f", "value", "host", "end", "history", ""])
        pairs.append((draw(odd), draw(st.one_of(VALUES, st.sampled_from(KINDS)))))
    if draw(st.integers(0, 2)) == 0:
        pairs = draw(st.permutations(pairs))
    blank = draw(st.sampled_from(["", "", "", " ", "\t"]))
    comma, colon = f",{blank}", f"{blank}:{blank}"
    return "{" + comma.join(json.dumps(name) + colon + draw(spelled(value)) for name, value in pairs) + "}"


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A few events with or without a header and a footer, and sometimes a damage."""
    body = [draw(lines(at)) for at in range(draw(st.integers(1, 6)))]
    end = draw(st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\n \n"]))
    whole = draw(st.sampled_from(["", '{"history":1}\n'])) + end.join(body)
    whole += draw(st.sampled_from(["", end, f'{end}{{"end":true,"events":{len(body)}}}\n']))
    data = bytearray(whole.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(data)))
        to = min(len(data), at + draw(st.sampled_from([0, 1, 1, 7])))
        data[at:to] = draw(st.one_of(st.sampled_from(PIECES[:40]), st.binary(max_size=2)))
    return bytes(data)


@pytest.mark.full
@fuzzed
@given(texts(), PIECE_SIZES)
@example(b'{"time_ns":1,"process":"a","type":"invoke","f":"read","value":"\xff"}\n', 500)
@example(b'{"time_ns":1,"process":"a","type":"invoke","f":"read","key":"\\u006b"}\n', 500)
@example(b'{"time_ns":1,"time_ns":1.0,"process":"a","type":"invoke","f":"read"}\n', 500)
def test_however_it_is_spelled_it_is_read_alike(data: bytes, piece: int) -> None:
    read_alike(data, piece)


def test_whole_files_are_read_alike_in_blocks_of_any_size() -> None:
    for path in GOLDEN:
        for piece in (200, 1000):
            with by("loops", piece):
                body = jsonl.Body(Text(path))
                scan.Scanner(foreign=body.foreign, compiled=False).chunk(body.blocks())  # it is plain
            read_alike(path.read_bytes(), piece)


@fuzzed
@given(st.sampled_from(GOLDEN), PIECE_SIZES, st.data())
def test_damage_is_told_alike(path: Path, piece: int, data: st.DataObject) -> None:
    """Whole files of the lab: the same error, with the same line, or the same history."""
    changed = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        to = min(len(changed), at + data.draw(st.sampled_from([0, 1, 2, 20])))
        changed[at:to] = data.draw(st.one_of(st.sampled_from(PIECES[:40]), st.binary(max_size=3)))
    read_alike(bytes(changed), piece)


LINE = '{"time_ns":%d,"process":"p","type":"invoke","f":"read","fence":%d,"key":"%s"}'


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="no numba"))]
)
def test_a_string_is_the_same_wherever_it_ends(compiled: bool) -> None:
    """Near the end of a block, where no whole word is left, bytes are looked at one by one."""
    for length in range(40):
        key, number = "k" * length, int("1" * (length % 19 or 1))
        data = "\n".join(LINE % (at, number, key) for at in range(3)).encode()
        assert compare(data, compiled=compiled), length


@pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.skipif(not COMPILED, reason="no numba"))]
)
def test_more_lines_than_events_would_fit_are_left_to_the_decoder(compiled: bool) -> None:
    """They went beyond the table: compiled code wrote into memory that is not its own."""
    for line in (b"a\n", b"{}\n", b'{"a":1}\n', b"  \n"):
        assert not compare(line * 4000, compiled=compiled)


def twins() -> list[Callable[[Any, int], tuple[int, int]]]:
    """`string_end` and `integer`, as they are compiled."""
    small = (kernel.mixed, kernel.power)
    kernels = (kernel.string_end, kernel.integer)
    return [compiled_kernel(one, *intrinsics(), *small, inline=True) for one in kernels]


@pytest.mark.skipif(not COMPILED, reason="no numba")
@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=40), st.sampled_from([b"", b'"', b",", b"0" * 8, b'"' + b"\xff" * 9]))
def test_words_are_as_the_machine_reads_them(data: bytes, end: bytes) -> None:
    import numpy as np

    whole = data + end
    array = np.frombuffer(whole, np.uint8)
    for one, other in zip((kernel.string_end, kernel.integer), twins(), strict=True):
        for at in range(min(3, len(whole))):
            assert one(whole, at) == tuple(other(array, at))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.binary(max_size=30),
    st.integers(0, 2),
    st.integers(0, 29),
    st.integers(0, 255),
    st.sampled_from([0, 9]),
)
def test_bytes_are_equal_if_each_is(data: bytes, before: int, at: int, byte: int, behind: int) -> None:
    """Wherever the one byte is that differs, with and without room for a whole word behind the last."""
    import numpy as np

    changed = bytearray(data)
    if at < len(data):
        changed[at] = byte
    one = b"\1" * before + data + b"\2" * behind
    other = bytes(changed) + b"\3" * behind
    span = before, before + len(data)
    assert kernel.equal(one, *span, other, 0) == (bytes(changed) == data)
    if COMPILED:
        compiled = compiled_kernel(kernel.equal, *intrinsics(), inline=True)
        left, right = (np.frombuffer(side or b"\0", np.uint8) for side in (one, other))
        assert compiled(left, *span, right, 0) == (bytes(changed) == data)


@settings(max_examples=examples(400), deadline=None)
@given(st.text(st.sampled_from("ab \n\n"), max_size=40), st.integers(1, 9), st.sampled_from([1, 3, 64]))
def test_blocks_of_any_size_are_whole_lines(data: str, size: int, held: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "PIECE_BYTES", size)
        patch.setattr(text, "_END_BYTES", max(1, size // 2))
        patch.setattr(text, "_HELD_MAX", held)
        read = Lines(Text(data=data.encode()))
        blocks = [block.decode() for block in read.blocks()]
    assert "".join(blocks) + read.tail.decode() == data
    assert all(block.endswith("\n") for block in blocks)
    last = data.rstrip().rpartition("\n")[2]
    assert read.tail.decode().rstrip() == last or (held < 64 and not read.tail.strip())


def test_blanks_without_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "PIECE_BYTES", 2)
    monkeypatch.setattr(text, "_HELD_MAX", 3)
    read = Lines(Text(data=b"a\n" + b" \n" * 50))
    assert max(map(len, read.blocks())) <= 10
    assert len(read.tail) <= 10


def test_columns_are_paired_alike_by_two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in GOLDEN:
        alone = reported(load(path))
        with monkeypatch.context() as patch:
            patch.setattr(pairing, "_THREADS_FROM_ROWS", 0)
            assert reported(load(path)) == alone
