"""Large files of JSON Lines straight to columns, by compiled loops (numba, from the extra `scale`).

Only plain lines go this way (`checker.formats.kernel`). Lines of nemesis, lab and nodes are left to the
decoder one by one; a client's line that is not plain, or anything that is not as it should be, leaves the
whole file to the decoder, which says what is wrong. So both ways give the same history or the same error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from checker.errors import UNREADABLE
from checker.formats import kernel
from checker.formats.chunks import Chunk, joined
from checker.formats.packed import PackedNames
from checker.history.events import RESERVED, Event, ForeignEvent
from checker.history.operations import MISSING, NONE, NUMBER_COLUMNS, F
from checker.history.pairing import EVENT_CODES, TYPES, EventColumns, client_of, is_client_event
from checker.linearizability.compiled import Kernel, compiled_kernel, uses_compiler

LINE_BYTES_MIN: Final = 40
"""No event is shorter: `{"time_ns":0,"process":"","type":"ok","f":"cas"}` has 47 bytes."""
BYTES_PER_OPERATION: Final = 320
PACKED_FROM: Final = 10_000
"""Fewer names than these are kept as a list."""
_STRINGS: Final = ("process", "client", "key", "grant_id", "token", "error", "value")
_COLUMNS: Final = {"grant" if name == "grant_id" else name: i for i, name in enumerate(_STRINGS)}
_FIELDS: Final = (*_STRINGS, "type", "f", "time_ns", "index", *NUMBER_COLUMNS)
_WORDS: Final = (*sorted(TYPES, key=TYPES.__getitem__), *(kind.name.lower() for kind in F), *sorted(RESERVED))


class NotPlain(Exception):
    """The file holds something that only the decoder can judge."""


def worth_it(size: int) -> bool:
    """Whether a file of so many bytes is large enough to pay for compiled code, and numba is there."""
    return uses_compiler(size // BYTES_PER_OPERATION)


def words(texts: Sequence[str]) -> tuple[Any, Any, Any]:
    """Words as the kernel looks them up: their bytes, where each begins, and a table in which each has a
    place of its own, followed by the factor with which that is so.
    """
    data = "".join(texts).encode()
    starts = np.cumsum([0, *map(len, texts)])
    for factor in range(1, 1 << 16):
        places = [kernel.place(data, a, b, factor) for a, b in pairwise(starts.tolist())]
        if len(set(places)) == len(places):
            break
    table = np.full(kernel.PLACES + 1, -1, np.int64)
    table[places], table[-1] = np.arange(len(texts)), factor
    return np.frombuffer(data, np.uint8), starts, table


class Pool:
    """All strings that were seen, each once per column: a hash table that grows between blocks."""

    def __init__(self) -> None:
        self.arrays: tuple[Any, ...] = (
            np.full(1 << 10, -1, np.int32),  # slots: entries by hash
            *(np.zeros(1, np.int64) for _ in range(3)),  # hash, start and end by entry
            np.zeros(1, np.int8),  # column
            np.zeros(1, np.int32),  # code within the column
            np.zeros(1, np.uint8),  # all strings
            np.zeros(kernel.STRINGS + 2, np.int64),  # codes given per column; entries; bytes
        )

    @property
    def used(self) -> Any:
        """Codes given per column, then entries and bytes in use."""
        return self.arrays[7]

    def reserve(self, entries: int, size: int) -> None:
        """Make room for so many more entries and bytes."""
        slots, *columns, text, used = self.arrays
        most = int(used[kernel.STRINGS]) + entries
        if most > columns[0].size:
            columns = [_grown(column, most) for column in columns]
        if 2 * most > slots.size:
            slots = np.full(1 << (4 * most).bit_length(), -1, np.int32)
            _fill(slots, columns[0][: used[kernel.STRINGS]])
        text = _grown(text, int(used[kernel.STRINGS + 1]) + size)
        self.arrays = (slots, *columns, text, used)

    def names(self, name: str, collected: Any) -> Sequence[Any]:
        """The strings of a column, by code.

        Raises:
            NotPlain: one is no UTF-8.
        """
        column, json = _COLUMNS[name], name == "value"
        ends = np.empty(int(self.used[column]), np.int64)
        data = np.empty(int(self.used[kernel.STRINGS + 1]), np.uint8)
        packed = data[: collected(column, self.arrays, data, ends)].tobytes()
        names = PackedNames(packed, ends, json=json)
        if len(names) >= PACKED_FROM and packed.isascii():
            return names
        try:
            listed = list(names)
        except UNREADABLE:
            raise NotPlain from None
        return listed if len(names) < PACKED_FROM else names


def _grown(array: Any, size: int) -> Any:
    if size <= array.size:
        return array
    larger = np.zeros(2 * size, array.dtype)
    larger[: array.size] = array
    return larger


def _fill(slots: Any, hashes: Any) -> None:
    """Put entries into empty slots: those that find theirs taken go on to the next, all at once."""
    mask = slots.size - 1
    left = np.arange(hashes.size, dtype=np.int32)
    wanted = (hashes ^ hashes >> 20) & mask
    while left.size:
        free = slots[wanted] < 0
        slots[wanted[free]] = left[free]
        lost = slots[wanted] != left
        left, wanted = left[lost], (wanted[lost] + 1) & mask


def _table(most: int) -> tuple[Any, ...]:
    """What the kernel fills for so many lines at most; see `kernel.tokenized`."""
    return (
        np.empty(most, np.int64),  # event
        np.empty(most, np.int64),  # index, by line
        np.empty(most, np.int8),  # type
        np.empty(most, np.int8),  # kind
        np.empty(most, np.int32),  # mask of fields
        np.empty((most, 2 * kernel.STRINGS), np.int32),  # begin and end of strings
        np.empty((most, kernel.STRINGS), np.int64),  # their hashes
        np.empty((1 + len(NUMBER_COLUMNS), most), np.int64),
        *(np.empty(most, np.int64) for _ in range(3)),  # other lines: event, begin, end
    )


@dataclass(slots=True)
class Tokens:
    """A block, and what stands where in it."""

    block: bytes
    data: Any
    table: tuple[Any, ...]
    rows: int
    hard: int
    lines: int
    seen: int


class Scanner:
    """Reads blocks of lines, one after another, into one chunk.

    One thread finds what stands where in a block while this one gives the strings of the block before their
    codes.
    """

    def __init__(self, *, foreign: bool, compiled: bool = True) -> None:
        small = (kernel.equal, kernel.place, kernel.find, kernel.string_end, kernel.integer)
        parse = (*small, kernel.key, kernel.parsed)

        def twin(function: Kernel, *helpers: Kernel) -> Kernel:
            return compiled_kernel(function, *helpers, inline=True) if compiled else function

        self._compiled = compiled
        self._tokenized = twin(kernel.tokenized, *parse)
        self._coded = twin(kernel.coded, kernel.equal, kernel.interned)
        self._collected = twin(kernel.collected)
        self._decoder = msgspec.json.Decoder(ForeignEvent if foreign else Event)
        self._keys, self._words = words(_FIELDS), words(_WORDS)
        sizes = (*[len(_FIELDS)] * 3, len(_FIELDS) - kernel.TIME)
        self._scratch = (
            *(np.zeros(size, np.int64) for size in sizes),
            np.full(len(_FIELDS) + 1, -1, np.int64),
        )
        self._tables = [_table(0), _table(0)]
        self._codes = np.empty((kernel.STRINGS, 0), np.int32)
        self._pool, self._clients = Pool(), np.zeros(0, np.int32)
        self._parts: list[EventColumns] = []
        self._others: list[tuple[int, Event]] = []
        self._count, self._first = 0, MISSING

    def chunk(self, blocks: Iterable[bytes]) -> Chunk:
        """All blocks as one chunk.

        Raises:
            NotPlain: something that only the decoder can judge.
        """
        before: Future[Tokens] | None = None
        with ThreadPoolExecutor(1) as thread:
            for block in blocks:
                found = thread.submit(self._tokens, block)
                if before is not None:
                    self._take(before.result())
                before = found
        if before is None:
            raise NotPlain
        self._take(before.result())
        columns = joined(self._parts)
        columns.names = {name: self._pool.names(name, self._collected) for name in EVENT_CODES}
        named = self._pool.names("client", self._collected)
        columns.clients = [
            client_of(process, None if code == NONE else named[code])
            for process, code in zip(columns.names["process"], self._clients.tolist(), strict=False)
        ]
        return Chunk(self._count, None if self._first == MISSING else self._first, columns, self._others)

    def _tokens(self, block: bytes) -> Tokens:
        """What stands where in a block; two tables take turns, since the other is still being read."""
        most = len(block) // LINE_BYTES_MIN + 1
        self._tables.reverse()
        if most > self._tables[0][0].size:
            self._tables[0] = _table(most)
        data: Any = np.frombuffer(block, np.uint8) if self._compiled else block
        counts = np.array([len(TYPES), len(TYPES) + len(F), 0, 0, 0, 0], np.int64)
        self._tokenized(data, self._keys, self._words, self._scratch, self._tables[0], counts)
        return Tokens(block, data, self._tables[0], *counts[2:].tolist())

    def _take(self, found: Tokens) -> None:
        self._require_plain(found)
        rows = found.rows
        self._pool.reserve(kernel.STRINGS * rows, len(found.block))
        self._clients = _grown(self._clients, int(self._pool.used[0]) + rows)
        if rows > self._codes.shape[1]:
            self._codes = np.empty((kernel.STRINGS, rows), np.int32)
        self._coded(found.data, rows, found.table, self._pool.arrays, self._codes, self._clients)
        self._parts.append(self._columns(found))
        self._count += found.lines

    def _require_plain(self, found: Tokens) -> None:
        """Decode the lines that are none of a client, and require that every event has its index."""
        index, number_of, begins, ends = found.table[1][: found.lines], *found.table[8:]
        for at in range(found.hard):
            event = self._decoded(found.block[int(begins[at]) : int(ends[at])])
            number = int(number_of[at])
            index[number] = MISSING if event.index is None else event.index
            self._others.append((self._count + number, event))
        if not self._count and index.size:
            self._first = int(index[0])
        if self._first != MISSING:
            begin = self._first + self._count
            if not np.array_equal(index, np.arange(begin, begin + index.size)):
                raise NotPlain

    def _decoded(self, line: bytes) -> Event:
        try:
            event: Event = self._decoder.decode(line)
        except UNREADABLE:
            raise NotPlain from None
        if is_client_event(event) or not -(2**63) < (event.index or 0) < 2**62:
            raise NotPlain
        return event

    def _columns(self, found: Tokens) -> EventColumns:
        event, _, types, kinds, _, _, _, numbers = found.table[:8]
        rows = found.rows

        def code(column: int) -> Any:
            known = found.seen >> column & 1
            return self._codes[column, :rows].copy() if known else np.broadcast_to(np.int32(NONE), (rows,))

        def number(at: int) -> Any:
            known = found.seen >> kernel.NUMBERS + at & 1
            return numbers[1 + at, :rows].copy() if known else np.broadcast_to(np.int64(MISSING), (rows,))

        return EventColumns(
            index=event[:rows] + self._count,
            time_ns=numbers[0, :rows].copy(),
            type=types[:rows].copy(),
            kind=kinds[:rows].copy(),
            codes={name: code(_COLUMNS[name]) for name in EVENT_CODES},
            names={},
            numbers={name: number(at) for at, name in enumerate(NUMBER_COLUMNS)},
            clients=[],
        )
