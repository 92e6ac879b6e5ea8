"""The loops over bytes against regular expressions and slices, wherever in a buffer their bytes lie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from checker.formats import kernel, scan

KEYS = scan.words(scan._FIELDS)
NAMES = scan._FIELDS
INTEGER = re.compile(rb"-?\d+")
STRING = re.compile(rb'[^"\\\x00-\x1f]*')
PAIR = re.compile(rb'"(\w+)":("[^"\\\x00-\x1f]*"|-?(?:0|[1-9]\d{0,17})(?![\d.eE]))')
BYTES = b'ab"\\\x1f \x00\x80\xff:,{}'


def around(random: Random, data: bytes, after: bytes = b"") -> tuple[bytes, int]:
    """The bytes somewhere in a buffer, and where: word by word, byte by byte near its end."""
    before = bytes(random.choices(b"0a\x80", k=random.choice((0, 0, 1, 9))))
    behind = (
        after + bytes(random.choices(b'0a\x80"', k=random.choice((0, 0, 1, 6, 7, 8, 20)))) if after else b""
    )
    return before + data + behind, len(before)


@pytest.mark.parametrize("first", range(0, 3000, 1000))
def test_integers_of_all_lengths(first: int) -> None:
    for number in range(first, first + 1000):
        random = Random(number)
        digits = "".join(random.choices("0123456789", k=random.randrange(21)))
        zeros = random.choice(("", "", "", "0", "00"))
        text = (random.choice(("", "", "-")) + zeros + digits).encode()
        data, at = around(random, text, random.choice((b",", b"}", b".", b"/", b":", b" ", b"\xff")))
        found = INTEGER.match(data, at)
        written = found[0] if found else b""
        length = len(written.lstrip(b"-"))
        proper = 0 < length <= 18 and (written == b"0" or not re.match(rb"-?0", written))
        expected = (at + len(written), int(written)) if proper else (-1, 0)
        assert kernel.integer(data, at) == expected, data


@pytest.mark.parametrize("first", range(0, 3000, 1000))
def test_the_end_of_a_string(first: int) -> None:
    for number in range(first, first + 1000):
        random = Random(number)
        odd = random.choice((b"a", b"ab\x80\xff\x7f!#[]", BYTES))
        text = bytes(random.choices(odd, k=random.randrange(25)))
        data, at = around(random, text, random.choice((b'"', b'"', b"\\", b"\x1f", b"\n", b"")))
        end = STRING.match(data, at).end()  # type: ignore[union-attr]  # it matches nothing as well
        closed = end < len(data) and data[end : end + 1] == b'"'
        found, h = kernel.string_end(data, at)
        assert found == (end if closed else -1), (data, at)
        assert 0 <= h < 2**60
        if closed:  # the hash is one of the string alone, whatever is around it
            assert h == kernel.string_end(data[at:end] + b'"', 0)[1]
            assert h == kernel.string_end(data[at:end] + b'"' + b"x" * 20, 0)[1]


def test_different_strings_have_different_hashes() -> None:
    texts = {bytes(Random(n).choices(b"abc", k=n % 23)) for n in range(2000)}
    assert len({kernel.string_end(text + b'"', 0)[1] for text in texts}) == len(texts)


@pytest.mark.parametrize("first", range(0, 4000, 1000))
def test_equal_bytes(first: int) -> None:
    for number in range(first, first + 1000):
        random = Random(number)
        text = bytes(random.choices(b"ab", k=random.randrange(20)))
        other = bytearray(text)
        if other and random.random() < 0.6:
            other[random.randrange(len(other))] ^= random.choice((1, 128))
        data, at = around(random, text, b"x")
        store, place = around(random, bytes(other), b"y")
        assert kernel.equal(data, at, at + len(text), store, place) == (text == other)


def test_words_and_bits() -> None:
    data = bytes(range(1, 30))
    for at in range(20):
        assert kernel.word(data, at) == sum(data[at + i] << 8 * i for i in range(7))
    for bit in range(63):
        assert kernel.lowest(1 << bit) == kernel.lowest(3 << bit) == bit // 8
    assert [kernel.power(exponent) for exponent in range(8)] == [10**exponent for exponent in range(8)]


@pytest.mark.parametrize("guess", range(-1, len(NAMES)))
def test_names_of_fields_at_every_place_of_a_buffer(guess: int) -> None:
    for field, name in enumerate(NAMES):
        for behind in (b"1", b"1}", b'"longer than a word"}'):
            data = b".." + name.encode() + b'":' + behind
            assert kernel.key(data, 2, guess, *KEYS) == (field, 2 + len(name) + 2)
        for wrong in (
            name + '" :1',
            name + '"',
            name + '":',
            name,
            name[:-1] + '":12',
            name + 'x":12',
            '":12',
        ):
            found, _ = kernel.key(b".." + wrong.encode(), 2, guess, *KEYS)
            assert found == (
                NAMES.index(name[:-1]) if name[:-1] in NAMES and wrong == name[:-1] + '":12' else -1
            )


# -- whole lines ---------------------------------------------------------------------------------------------

LINES = (
    b'{"time_ns":5,"process":"a","type":"ok","f":"write","value":7,"error":"","fence":-3,"refused_by":0}',
    b'{"process":"client/12","type":"invoke","f":"acquire","time_ns":1234567890123,"key":"k","grant_id":"g-7"}',
    b'{"f":"read","type":"info","time_ns":0,"process":"","value":"a longer value","index":12,"client":"c"}',
)
REQUIRED = {"process", "type", "f", "time_ns"}


def fields_of(line: bytes) -> dict[str, Any] | None:
    """The fields of a plain line as they are written, the last of each name; None if it is not plain."""
    found: dict[str, Any] = {}
    at = 0
    while line[at : at + 1] == (b"," if at else b"{"):
        pair = PAIR.match(line, at + 1)
        if pair is None or pair[1].decode() not in NAMES:
            return None
        name, value = pair[1].decode(), pair[2]
        quoted, number = value[:1] == b'"', value != b"-0"
        if (quoted or name != "value") and quoted != (NAMES.index(name) < kernel.TIME):
            return None
        if not quoted and not number:
            return None
        found[name] = value if name == "value" or not quoted else value[1:-1]
        at = pair.end()
    return found if line[at:] in (b"}", b"}\n") and set(found) >= REQUIRED else None


def parsed(line: bytes, nexts: Any) -> dict[str, Any] | None:
    """What the loops make of a line, in the second of two rows."""
    spans, hashes = np.zeros((2, 2 * kernel.TIME), np.int32), np.zeros((2, kernel.STRINGS), np.int64)
    numbers = np.zeros((2, kernel.FIELDS - kernel.TIME), np.int64)
    seen, end = kernel.parsed(line, 0, 1, *KEYS, spans, hashes, numbers, nexts)
    assert not spans[0].any()
    assert not numbers[0].any()
    assert 0 <= end <= len(line)
    if seen < 0:
        return None
    assert end == len(line.rstrip(b"\n"))
    fields: dict[str, Any] = {}
    for at, name in enumerate(NAMES):
        if seen >> at & 1:
            text = line[spans[1, 2 * at] : spans[1, 2 * at + 1]] if at < kernel.TIME else b""
            fields[name] = str(numbers[1, at - kernel.TIME]).encode() if at >= kernel.TIME else text
            if at < kernel.STRINGS - 1:
                assert hashes[1, at] == kernel.string_end(text + b'"', 0)[1]
    return fields


def changed_lines(number: int) -> Iterator[bytes]:
    """A line with some of its fields, in another order, or with another byte."""
    random = Random(number)
    head, *pairs = re.split(rb"[{},]", random.choice(LINES))[:-1]
    pairs = random.sample(pairs, random.choice((len(pairs), len(pairs), len(pairs) - 1)))
    if random.random() < 0.3:
        pairs.append(random.choice(pairs))
    line = head + b"{" + b",".join(pairs) + b"}"
    yield line
    yield line + b"\n"
    for _ in range(4):
        at = random.randrange(len(line))
        yield line[:at] + bytes(random.choices(b'"\\:,{}-01a \n', k=random.randrange(3))) + line[at + 1 :]
        yield line[:at]


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_lines_against_a_regular_expression(first: int) -> None:
    nexts = np.full((kernel.STATES, len(NAMES) + 1), -1, np.int64)
    for number in range(first, first + 100):
        for line in changed_lines(number):
            if line:
                assert parsed(line, nexts) == fields_of(line), line
    assert (nexts >= 0).any()
