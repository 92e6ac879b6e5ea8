"""Lines of JSON decoded a chunk at a time into columns, by as many processes as the machine has to spare."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from checker.errors import HistoryError
from checker.history.events import Event, ForeignEvent
from checker.history.operations import NUMBER_COLUMNS
from checker.history.pairing import (
    EVENT_CODES,
    EventColumns,
    Interner,
    Tables,
    all_from_clients,
    columns_of,
    is_client_event,
)

CHUNK_BYTES: Final = 1 << 20
"""Small enough that decoded events stay in the processor's cache until their columns are filled."""
PARALLEL_BYTES: Final = 48 << 20
"""Below this a second process costs more than it saves."""
MAX_WORKERS: Final = 8


@dataclass(slots=True)
class Chunk:
    """Some consecutive lines: `count` events, the client ones as columns, the others as they are.

    Positions (`columns.index`, and those in `others`) count from the chunk's first event; `first` is the
    index which that event claims to have, None if it claims none.
    """

    count: int
    first: int | None
    columns: EventColumns
    others: list[tuple[int, Event]]


def chunk_of(parts: Iterable[Sequence[Event]]) -> Chunk:
    """Consecutive events, in parts of convenient size, as one chunk.

    Raises:
        HistoryError: an index out of place, or an event that `columns_of` refuses.
    """
    tables = Tables()
    columns, others, count, first = [columns_of((), (), tables)], [], 0, None
    for events in parts:
        if not events:
            continue
        if count == 0:
            first = events[0].index
        _require_indices(events, None if first is None else first + count)
        mine: Sequence[Event] = events
        positions: Sequence[int] = range(count, count + len(events))
        if not all_from_clients(events):
            others += [(count + i, e) for i, e in enumerate(events) if not is_client_event(e)]
            positions = [count + i for i, e in enumerate(events) if is_client_event(e)]
            mine = [events[i - count] for i in positions]
        columns.append(columns_of(mine, positions, tables))
        count += len(events)
    whole = joined(columns)
    whole.names, whole.clients = tables.names(), tables.clients
    return Chunk(count, first, whole, others)


def _require_indices(events: Sequence[Event], first: int | None) -> None:
    if first is None:
        return
    indices = list(map(attrgetter("index"), events))
    if indices != list(range(first, first + len(events))):
        wrong = next(i for i, index in enumerate(indices) if index != first + i)
        raise _misplaced(indices[wrong], first + wrong)


def _misplaced(seen: int | None, expected: int) -> HistoryError:
    return HistoryError(
        f"saw {seen}, expected {expected}: events are missing or out of order (event {expected})",
        field="index",
        hint="index counts events from 0; leave it out if the file is not numbered",
    )


def spans(path: Path, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Byte ranges of whole lines that cover [start, end) of the file, about `CHUNK_BYTES` each."""
    with path.open("rb") as file:
        while start < end:
            stop = start + CHUNK_BYTES
            if stop >= end:
                stop = end
            else:
                file.seek(stop)
                stop = min(end, stop + len(file.readline()))
            yield start, stop
            start = stop


def read_chunks(path: Path, start: int, end: int, *, foreign: bool) -> list[Chunk]:
    """All chunks of a byte range in order, decoded by helper processes when there is enough to do.

    Raises:
        HistoryError, and those of `UNREADABLE`: a line that is no event, or out of place; without its line.
    """
    workers = min(os.cpu_count() or 1, MAX_WORKERS)
    if end - start < PARALLEL_BYTES or workers < 2:
        return [read_range(path, start, end, foreign)]
    ranges = list(spans(path, start, end))
    cuts = [len(ranges) * i // workers for i in range(workers + 1)]
    shares = [(ranges[a][0], ranges[b - 1][1]) for a, b in pairwise(cuts)]
    helpers = [_start_helper(path, *share, foreign) for share in shares[1:]]
    try:
        chunks = [read_range(path, *shares[0], foreign)]
        for helper, share in zip(helpers, shares[1:], strict=True):
            chunks.append(_result(helper) or read_range(path, *share, foreign))
    finally:
        for helper in helpers:
            if helper.poll() is None:
                helper.kill()
            helper.wait()
            if helper.stdout:
                helper.stdout.close()
    return chunks


def read_range(path: Path, start: int, end: int, foreign: bool) -> Chunk:
    """Decode a byte range of whole lines in this process; raises as `read_chunks`."""
    return read_blocks(_blocks(path, start, end), foreign)


def read_blocks(blocks: Iterable[bytes], foreign: bool) -> Chunk:
    """Decode blocks of whole lines in this process; raises as `read_chunks`."""
    decoder = msgspec.json.Decoder(ForeignEvent if foreign else Event)
    collecting = gc.isenabled()
    gc.disable()  # events hold no cycles, and there are millions of them
    try:
        return chunk_of(map(decoder.decode_lines, blocks))
    finally:
        if collecting:
            gc.enable()


def _blocks(path: Path, start: int, end: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        for begin, stop in spans(path, start, end):
            file.seek(begin)
            yield file.read(stop - begin)


def _start_helper(path: Path, start: int, end: int, foreign: bool) -> subprocess.Popen[bytes]:
    arguments = [str(path), str(start), str(end), str(int(foreign))]
    return subprocess.Popen(
        [sys.executable, "-m", "checker.formats.helper", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


def _result(helper: subprocess.Popen[bytes]) -> Chunk | None:
    """What a helper decoded; None if it failed, so that the caller repeats its share and meets the error."""
    assert helper.stdout is not None
    try:
        chunk: Chunk = pickle.load(helper.stdout)
    except (EOFError, pickle.UnpicklingError):
        return None
    return unpacked(chunk)


def packed(chunk: Chunk) -> Chunk:
    """A chunk whose constant columns are single numbers, cheap to send to another process."""
    return replace(chunk, columns=_mapped(chunk.columns, _constant))


def unpacked(chunk: Chunk) -> Chunk:
    """The chunk that `packed` was given."""
    n = len(chunk.columns)
    whole = _mapped(chunk.columns, lambda column: column if column.ndim else np.broadcast_to(column, (n,)))
    return replace(chunk, columns=whole)


def _constant(column: np.ndarray) -> np.ndarray:
    return np.array(column[0]) if column.size and column.strides == (0,) else column


def _mapped(columns: EventColumns, change: Callable[[np.ndarray], np.ndarray]) -> EventColumns:
    return replace(
        columns,
        codes={name: change(column) for name, column in columns.codes.items()},
        numbers={name: change(column) for name, column in columns.numbers.items()},
    )


def merge(chunks: list[Chunk]) -> tuple[EventColumns, list[tuple[int, Event]], int]:
    """One table of all chunks with absolute positions, the other events, and the number of events.

    Raises:
        HistoryError: a chunk that does not begin with the index that follows.
    """
    if len(chunks) == 1 and chunks[0].first in (None, 0):
        return chunks[0].columns, chunks[0].others, chunks[0].count
    interners = {name: Interner() for name in EVENT_CODES}
    clients: list[str] = []
    others: list[tuple[int, Event]] = []
    parts, total = [], 0
    for chunk in chunks:
        if chunk.first not in (None, total):
            raise _misplaced(chunk.first, total)
        columns = chunk.columns
        tables = {name: _recoded(interners[name], columns.names[name]) for name in EVENT_CODES}
        new = tables["process"] >= len(clients)
        clients += [client for client, is_new in zip(columns.clients, new, strict=False) if is_new]
        codes = {name: _translated(column, tables[name]) for name, column in columns.codes.items()}
        parts.append(replace(columns, index=columns.index + total, codes=codes))
        others += [(position + total, event) for position, event in chunk.others]
        total += chunk.count
    whole = joined(parts)
    whole.names = {name: interner.names() for name, interner in interners.items()}
    whole.clients = clients
    return whole, others, total


def _recoded(interner: Interner, names: Sequence[object]) -> np.ndarray:
    return np.fromiter(map(interner.__getitem__, names), np.int32, len(names))


def _translated(codes: np.ndarray, table: np.ndarray) -> np.ndarray:
    if not table.size or bool((table == np.arange(table.size)).all()):
        return codes
    new: np.ndarray = np.append(table, np.int32(-1))[codes]
    return new


def joined(parts: list[EventColumns]) -> EventColumns:
    """Columns of consecutive events with the same codes as one; `names` and `clients` are the first's."""
    return EventColumns(
        index=np.concatenate([c.index for c in parts]),
        time_ns=np.concatenate([c.time_ns for c in parts]),
        type=np.concatenate([c.type for c in parts]),
        kind=np.concatenate([c.kind for c in parts]),
        codes={name: _joined([c.codes[name] for c in parts]) for name in EVENT_CODES},
        names=parts[0].names,
        numbers={name: _joined([c.numbers[name] for c in parts]) for name in NUMBER_COLUMNS},
        clients=parts[0].clients,
    )


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    present = [part for part in parts if part.size]
    if present and all(part.strides == (0,) for part in present):
        return np.broadcast_to(present[0][0], (sum(part.size for part in present),))
    return np.concatenate(parts)
