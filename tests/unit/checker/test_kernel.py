"""The loops over bytes, one by one, and the table of strings that grows between blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.histories import correct_lock
from checker import save
from checker.formats import chunks, jsonl, kernel, scan
from checker.formats.text import Text
from tests.unit.checker.test_scan import alike

KEYS = scan.words(scan._FIELDS)
WORDS = scan.words(scan._WORDS)
FIELD = {name: at for at, name in enumerate(scan._FIELDS)}


@pytest.mark.parametrize(
    ("data", "end", "value"),
    [
        (b"0", 1, 0),
        (b"7,", 1, 7),
        (b"-1}", 2, -1),
        (b"10", 2, 10),
        (b"9" * 18, 18, 10**18 - 1),
        (b"-" + b"9" * 18 + b"}", 19, 1 - 10**18),
        (b"9" * 19, -1, 0),
        (b"-" + b"9" * 19, -1, 0),
        (b"-0", -1, 0),
        (b"01", -1, 0),
        (b"-", -1, 0),
        (b"", -1, 0),
        (b"/", -1, 0),
        (b":", -1, 0),
        (b'"7"', -1, 0),
    ],
)
def test_integers(data: bytes, end: int, value: int) -> None:
    assert kernel.integer(data, 0) == (end, value)
    assert kernel.integer(b"x" + data, 1) == (end + (end > 0), value)


def test_words_are_found_and_others_are_not() -> None:
    for (text, starts, places), known in ((KEYS, scan._FIELDS), (WORDS, scan._WORDS)):
        for at, word in enumerate(known):
            data = b"." + word.encode() + b"."
            assert kernel.find(data, 1, len(data) - 1, text, starts, places) == at
            for other in (word[:-1] + "~", word + "s", word[1:], "~" + word[1:]):
                found = kernel.find(other.encode(), 0, len(other), text, starts, places)
                assert (found >= 0) == (other in known), other
                assert found < 0 or known[found] == other
        assert kernel.find(b"", 0, 0, text, starts, places) == -1
        table = places[: kernel.PLACES]
        assert sorted(table[table >= 0].tolist()) == list(range(len(known)))
        assert starts.tolist() == np.cumsum([0, *map(len, known)]).tolist()
    assert kernel.equal(b"xab", 1, 3, b"yyab", 2)
    assert not kernel.equal(b"xab", 1, 3, b"yyac", 2)
    assert not kernel.equal(b"xab", 1, 3, b"yyxb", 2)
    assert kernel.equal(b"x", 1, 1, b"", 0)


@pytest.mark.parametrize("guess", [-1, FIELD["f"], FIELD["fence"]])
@pytest.mark.parametrize(
    ("data", "field", "value"),
    [
        (b'f":1', "f", 3),
        (b'fence":1', "fence", 7),
        (b'f" :1', None, 0),
        (b'f":', None, 0),
        (b'f"', None, 0),
        (b"f", None, 0),
        (b'g":1', None, 0),
        (b'":1', None, 0),
        (b'fe":1', None, 0),
    ],
)
def test_keys_are_found_whatever_is_guessed(guess: int, data: bytes, field: str | None, value: int) -> None:
    for before in (0, 3):
        found, at = kernel.key(b"x" * before + data, before, guess, *KEYS)
        assert (found, at) == (FIELD[field], before + value) if field else found == -1


EVENT = b'{"time_ns":1,"process":"lab","type":"info","f":"phase","index":%d}\n'
LINE = b'{"time_ns":5,"process":"a","type":"ok","f":"write","value":7,"error":"","fence":-3,"refused_by":0}'


def in_blocks(text: bytes, size: int) -> None:
    """The loops on blocks of so many lines say what the decoder says."""
    lines = b"".join(jsonl.Body(Text(data=text)).blocks()).splitlines(keepends=True)
    blocks = [b"".join(lines[at : at + size]) for at in range(0, len(lines), size)]
    found = scan.Scanner(foreign=False, compiled=False).chunk(iter(blocks))
    alike(found, chunks.read_blocks(iter(blocks), foreign=False))
    for name, codes in chunks.read_blocks(iter(blocks), foreign=False).columns.codes.items():
        assert found.columns.codes[name].dtype == codes.dtype


@pytest.mark.parametrize("size", [1, 2, 7, 200])
def test_the_table_of_strings_grows_between_blocks(tmp_path: Path, size: int) -> None:
    save(correct_lock(150), tmp_path / "h.jsonl")
    in_blocks((tmp_path / "h.jsonl").read_bytes(), size)


def test_blank_lines_are_no_events() -> None:
    lines = [EVENT[:-13] + b"}\n", LINE + b"\n"] * 2
    for blank in (b"\n", b"\n\n"):
        block = blank + blank.join(lines) + blank
        alike(
            scan.Scanner(foreign=False, compiled=False).chunk([block]),
            chunks.read_blocks([block], foreign=False),
        )


def test_more_lines_than_events_can_be_are_left_to_the_decoder() -> None:
    event = b'{"time_ns":1,"process":"a","type":"invoke","f":"read"}\n'
    for block in (event + b"{}\n" * 300, event + b"\n" * 300 + b"{}\n" * 3):
        with pytest.raises(scan.NotPlain):
            scan.Scanner(foreign=True, compiled=False).chunk([block])
    assert scan.Scanner(foreign=True, compiled=False).chunk([event + b"\n" * 300]).count == 1


def test_strings_of_one_hash_are_told_apart() -> None:
    pool, text = scan.Pool(), b"ababcabcx"
    spans = ((0, 2), (2, 5), (5, 8), (2, 4), (5, 9), (0, 0))
    pool.reserve(len(spans), 100)
    found = [kernel.interned(text, start, end, 7, 2, *pool.arrays) for start, end in spans]
    assert found == [0, 1, 1, 0, 2, 3]
    assert list(pool.names("key", kernel.collected)) == ["ab", "abc", "abcx", ""]


def test_the_table_of_strings() -> None:
    pool = scan.Pool()
    codes: dict[tuple[int, bytes], int] = {}
    for round in range(3):
        texts = [f"{round}-{n}".encode() for n in range(400)] + [b"", b"0-1"]
        data = b"".join(texts)
        pool.reserve(2 * len(texts), 2 * len(data))
        at = 0
        for text in texts:
            for column in (2, 6):
                h = kernel.string_end(text + b'"', 0)[1]
                code = kernel.interned(data, at, at + len(text), h, column, *pool.arrays)
                assert codes.setdefault((column, text), code) == code
            at += len(text)
    assert sorted(code for (column, _), code in codes.items() if column == 2) == list(range(1201))
    assert pool.used.tolist() == [
        0,
        0,
        1201,
        0,
        0,
        0,
        1201,
        2402,
        2 * sum(map(len, {text for _, text in codes})),
    ]
    names = list(pool.names("key", kernel.collected))
    assert [names[codes[2, text]].encode() for column, text in codes if column == 2] == [
        text for column, text in codes if column == 2
    ]
    slots = pool.arrays[0]
    assert slots.size & (slots.size - 1) == 0
    assert slots.size >= 2 * 2402
    assert np.count_nonzero(slots >= 0) == 2402


def test_room_is_made_only_where_it_is_needed() -> None:
    array = np.arange(4, dtype=np.int8)
    assert scan.grown(array, 4, 4) is array
    grown = scan.grown(array, 4, 5)
    assert (grown.dtype, len(grown), grown[:4].tolist()) == (np.int8, 10, [0, 1, 2, 3])
    slots = np.full(8, -1, np.int32)
    scan._fill(slots, np.array([3, 11, 3, 0, 7], np.int64))
    assert sorted(slots.tolist()) == [-1, -1, -1, 0, 1, 2, 3, 4]
    assert slots[7] >= 0
    assert slots[0] >= 0


@pytest.mark.parametrize(
    ("indices", "plain"),
    [([0, 1, 2], True), ([4, 5], True), ([0, 2], False), ([1, 0], False), ([-1, 0], True), ([2**62], False)],
)
def test_indices_count_the_lines(indices: list[int], plain: bool) -> None:
    for size in (1, 5):
        lines = [EVENT % index for index in indices]
        blocks = [b"".join(lines[at : at + size]) for at in range(0, len(lines), size)]
        if plain:
            chunk = scan.Scanner(foreign=False, compiled=False).chunk(blocks)
            assert (chunk.first, chunk.count) == (indices[0], len(indices))
            assert [at for at, _ in chunk.others] == list(range(len(indices)))
        else:
            with pytest.raises(scan.NotPlain):
                scan.Scanner(foreign=False, compiled=False).chunk(blocks)
    with pytest.raises(scan.NotPlain):
        scan.Scanner(foreign=False, compiled=False).chunk([])


def test_a_number_of_lines_never_exceeds_its_table() -> None:
    shortest = b'{"time_ns":0,"process":"","type":"ok","f":"cas"}'
    assert len(shortest) + 1 > scan.LINE_BYTES_MIN
    in_blocks(b"\n".join([b'{"history":1}', *[EVENT[:-13] + b"}"] * 30]) + b"\n", 31)
    table = scan._table(3)
    assert [(a.shape, str(a.dtype)) for a in table[:4]] == [
        ((3,), "int64"),
        ((3,), "int64"),
        ((3,), "int8"),
        ((3,), "int8"),
    ]


def test_many_names_stay_packed_from_a_number_on(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b'{"time_ns":1,"process":"p%d","type":"invoke","f":"read"}\n' % n for n in range(4)]
    for most, packed in ((4, True), (5, False)):
        monkeypatch.setattr(scan, "PACKED_FROM", most)
        chunk = scan.Scanner(foreign=True, compiled=False).chunk([b"".join(lines)])
        assert isinstance(chunk.columns.names["process"], list) is not packed
        assert list(chunk.columns.names["process"]) == ["p0", "p1", "p2", "p3"]
    monkeypatch.setattr(scan, "PACKED_FROM", 4)
    broken = [
        lines[0],
        *(b'{"time_ns":1,"process":"\xff%d","type":"invoke","f":"read"}\n' % n for n in range(4)),
    ]
    with pytest.raises(scan.NotPlain):
        scan.Scanner(foreign=True, compiled=False).chunk([b"".join(broken)])
