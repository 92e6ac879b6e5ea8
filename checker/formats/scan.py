"""Large files of JSON Lines straight to columns, by compiled loops (numba, from the extra `scale`).

Only plain lines go this way (`checker.formats.kernel`). Lines of nemesis, lab and nodes are left to the
decoder one by one; a client's line that is not plain, or anything that is not as it should be, leaves the
whole file to the decoder, which says what is wrong. So both ways give the same history or the same error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from checker.errors import UNREADABLE
from checker.formats import kernel
from checker.formats.chunks import Chunk
from checker.formats.packed import PackedNames
from checker.history.events import RESERVED, Event, ForeignEvent
from checker.history.operations import MISSING, NONE, NUMBER_COLUMNS, F
from checker.history.pairing import EVENT_CODES, TYPES, EventColumns, client_of, is_client_event
from checker.linearizability.compiled import Kernel, compiled_kernel, uses_compiler
from checker.linearizability.machine import WORD, intrinsics

LINE_BYTES_MIN: Final = 40
"""No event is shorter: `{"time_ns":0,"process":"","type":"ok","f":"cas"}` has 47 bytes."""
BYTES_PER_OPERATION: Final = 320
PACKED_FROM: Final = 10_000
"""Fewer names than these are kept as a list."""
AHEAD: Final = 4
"""So many blocks at most are read and not yet in the columns."""
ROOM: Final = 1.05
"""For so many times the rows that are expected there is room: what is not used takes no memory."""
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
            np.empty((1, 4), np.int64),  # hash, start, end, and code within the column with the column
            np.empty(1, np.uint8),  # all strings
            np.zeros(kernel.STRINGS + 2, np.int64),  # codes given per column; entries; bytes
        )

    @property
    def used(self) -> Any:
        """Codes given per column, then entries and bytes in use."""
        return self.arrays[3]

    def reserve(self, entries: int, size: int) -> None:
        """Make room for so many more entries and bytes."""
        slots, table, text, used = self.arrays
        known, length = used[kernel.STRINGS :].tolist()
        table = grown(table, known, known + entries)
        if 2 * (known + entries) > slots.size:
            slots = np.full(1 << (4 * (known + entries)).bit_length(), -1, np.int32)
            _fill(slots, table[:known, 0])
        text = grown(text, length, length + size + WORD + 1)
        self.arrays = (slots, table, text, used)

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


def grown(array: Any, used: int, size: int) -> Any:
    """An array of at least `size` rows, twice as long if it had to be another, with the rows in use."""
    if size <= len(array):
        return array
    larger = np.empty((2 * size, *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
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
        np.empty((most, 2 * kernel.TIME), np.int32),  # begin and end of strings and words
        np.empty((most, kernel.STRINGS), np.int64),  # hashes of strings
        np.empty((most, kernel.FIELDS - kernel.TIME), np.int64),  # time, index and the others
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


class Column:
    """A column that grows block by block; while nothing is in it, it takes no memory."""

    def __init__(self, absent: Any) -> None:
        self._absent = absent
        self._array: Any = None

    def add(self, used: int, rows: int, values: Any, room: int) -> None:
        """Put values behind the `used` ones, None if all are absent; `room` is how many there may be."""
        if self._array is None:
            if values is None:
                return
            self._array = np.empty(max(room, used + rows), self._absent.dtype)
            self._array[:used] = self._absent
        if used + rows > self._array.size:
            self._array = grown(self._array, used, max(room, used + rows))
        self._array[used : used + rows] = self._absent if values is None else values

    def whole(self, rows: int) -> Any:
        """The column; what is absent everywhere is one number repeated."""
        return np.broadcast_to(self._absent, (rows,)) if self._array is None else self._array[:rows]


class Columns:
    """The columns of all blocks so far."""

    def __init__(self) -> None:
        self._rows = 0
        self._index, self._time = Column(np.int64(0)), Column(np.int64(0))
        self._type, self._kind = Column(np.int8(0)), Column(np.int8(0))
        self._codes = {name: Column(np.int32(NONE)) for name in EVENT_CODES}
        self._numbers = [Column(np.int64(MISSING)) for _ in NUMBER_COLUMNS]

    def add(self, found: Tokens, codes: Any, before: int, share: float) -> None:
        """Add the rows of a block, before which there were so many lines and of whose kind (bytes in all by
        bytes so far) there will be `share` times as many.
        """
        event, _, types, kinds, _, _, _, numbers = found.table[:8]
        rows, used = found.rows, self._rows
        room = int((used + rows) * share * ROOM)
        self._index.add(used, rows, event[:rows] + before, room)
        self._time.add(used, rows, numbers[:rows, 0], room)
        self._type.add(used, rows, types[:rows], room)
        self._kind.add(used, rows, kinds[:rows], room)
        for name, column in self._codes.items():
            at = _COLUMNS[name]
            column.add(used, rows, codes[at, :rows] if found.seen >> at & 1 else None, room)
        for at, column in enumerate(self._numbers):
            given = found.seen >> kernel.NUMBERS + at & 1
            column.add(used, rows, numbers[:rows, 2 + at] if given else None, room)
        self._rows += rows

    def whole(self, names: dict[str, Sequence[Any]], clients: list[str]) -> EventColumns:
        """All of them, with the strings behind their codes."""
        rows = self._rows
        return EventColumns(
            index=self._index.whole(rows),
            time_ns=self._time.whole(rows),
            type=self._type.whole(rows),
            kind=self._kind.whole(rows),
            codes={name: column.whole(rows) for name, column in self._codes.items()},
            names=names,
            numbers={
                name: column.whole(rows) for name, column in zip(NUMBER_COLUMNS, self._numbers, strict=True)
            },
            clients=clients,
        )


class Scanner:
    """Reads blocks of lines, one after another, into one chunk.

    One thread finds what stands where in a block, another one gives the strings of the block before their
    codes, and this one reads the next.
    """

    def __init__(self, *, foreign: bool, compiled: bool = True) -> None:
        small = (kernel.mixed, kernel.equal, kernel.place, kernel.find, kernel.string_end, kernel.power)
        parse = (*small, kernel.integer, kernel.key, kernel.parsed)
        machine = intrinsics() if compiled else ()

        def twin(function: Kernel, *helpers: Kernel) -> Kernel:
            return compiled_kernel(function, *machine, *helpers, inline=True) if compiled else function

        self._compiled = compiled
        self._tokenized = twin(kernel.tokenized, *parse)
        self._coded = twin(kernel.coded, kernel.equal, kernel.interned)
        self._collected = twin(kernel.collected)
        self._decoder = msgspec.json.Decoder(ForeignEvent if foreign else Event)
        self._keys, self._words = words(_FIELDS), words(_WORDS)
        self._nexts = np.full((kernel.STATES, len(_FIELDS) + 1), NONE, np.int64)
        self._spare: list[tuple[Any, ...]] = []
        self._codes = np.empty((kernel.STRINGS, 0), np.int32)
        self._pool, self._clients = Pool(), np.zeros(0, np.int32)
        self._columns = Columns()
        self._others: list[tuple[int, Event]] = []
        self._count, self._bytes, self._first = 0, 0, MISSING

    def chunk(self, blocks: Iterable[bytes], size: int = 0) -> Chunk:
        """All blocks as one chunk; `size` is how many bytes they have, if that is known.

        Raises:
            NotPlain: something that only the decoder can judge.
        """
        under_way: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
            try:
                for block in blocks:
                    if len(under_way) == AHEAD:
                        under_way.popleft().result()
                    found = first.submit(self._tokens, block)
                    under_way.append(second.submit(self._take, found, size))
            finally:
                for taken in under_way:  # what is wrong with them comes before what is wrong with the end
                    taken.result()
        if not self._count:
            raise NotPlain
        names = {name: self._pool.names(name, self._collected) for name in EVENT_CODES}
        named = self._pool.names("client", self._collected)
        clients = [
            client_of(process, None if code == NONE else named[code])
            for process, code in zip(names["process"], self._clients.tolist(), strict=False)
        ]
        first_index = None if self._first == MISSING else self._first
        return Chunk(self._count, first_index, self._columns.whole(names, clients), self._others)

    def _tokens(self, block: bytes) -> Tokens:
        """What stands where in a block."""
        most = len(block) // LINE_BYTES_MIN + 1
        table = self._spare.pop() if self._spare else _table(most)
        if most > table[0].size:
            table = _table(most)
        data: Any = np.frombuffer(block, np.uint8) if self._compiled else block
        counts = np.array([len(TYPES), len(TYPES) + len(F), 0, 0, 0, 0], np.int64)
        self._tokenized(data, self._keys, self._words, self._nexts, table, counts)
        return Tokens(block, data, table, *counts[2:].tolist())

    def _take(self, tokens: Future[Tokens], size: int) -> None:
        """Give the strings of a block their codes, and add its rows to the columns."""
        found = tokens.result()
        self._require_plain(found)
        rows = found.rows
        self._pool.reserve(kernel.STRINGS * rows, len(found.block))
        known = int(self._pool.used[0])
        self._clients = grown(self._clients, known, known + rows)
        if rows > self._codes.shape[1]:
            self._codes = np.empty((kernel.STRINGS, rows), np.int32)
        self._coded(found.data, rows, found.table, self._pool.arrays, self._codes, self._clients)
        self._bytes += len(found.block)
        self._columns.add(found, self._codes, self._count, size / self._bytes)
        self._count += found.lines
        self._spare.append(found.table)

    def _require_plain(self, found: Tokens) -> None:
        """Decode the lines that are none of a client, and require that every event has its index."""
        index, number_of, begins, ends = found.table[1][: found.lines], *found.table[8:]
        if found.hard < 0:
            raise NotPlain
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
