"""Parquet: a history of any size as one table of paired operations, read straight into columns.

One row per operation, columns named as in `Operations`; everything else (parameters, faults, stalls, what lab
and nodes reported) travels as JSON in the file's metadata. Convert once from JSON Lines, then check as often
as you like. Needs polars (the extra `scale`).

The file holds the digest of all its bytes. One without is from an earlier version: it is read in a process
of its own, since polars can abort on damage, and its completeness is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from checker.errors import UNREADABLE, HistoryError
from checker.formats.parquet_table import ENUMS, METADATA, polars, read_apart, read_here
from checker.formats.seal import BLANK, KEY, footer_of, is_sealed, seal
from checker.formats.whole import whole_file
from checker.history.completeness import Completeness
from checker.history.events import FORMAT_VERSION, Event, Params
from checker.history.history import History, require_range
from checker.history.identity import identified
from checker.history.operations import CODE_COLUMNS, COLUMNS, NONE, Operations
from checker.history.unpairing import events_of


class Metadata(msgspec.Struct, kw_only=True):
    """What a file holds beside its operations; `digest` says that the file has one (`seal`)."""

    history: int = FORMAT_VERSION
    params: Params
    problems: list[str] = []
    others: list[tuple[int, Event]] = []
    start_ns: int
    end_ns: int
    has_header: bool = True
    complete: Completeness = Completeness.WHOLE
    digest: bool = False


def save(history: History, path: Path) -> None:
    """Write a history.

    Raises:
        HistoryError: polars is not installed.
    """
    pl = polars(path)
    ops = history.ops
    series = []
    for name in COLUMNS:
        column = np.ascontiguousarray(getattr(ops, name))
        if name in ENUMS:
            words = pl.Series(name, ENUMS[name], dtype=pl.Enum(ENUMS[name]))
            series.append(words.gather(column.astype(np.int64)))
        elif name in CODE_COLUMNS:
            series.append(_strings(pl, name, column, getattr(ops.names, name)))
        else:
            series.append(pl.Series(name, column))
    metadata = Metadata(
        params=history.params,
        problems=list(history.problems),
        others=list(history.others),
        start_ns=history.start_ns,
        end_ns=history.end_ns,
        has_header=history.has_header,
        complete=history.complete,
        digest=True,
    )
    text = msgspec.json.encode(metadata).decode()
    with whole_file(path) as file:
        pl.DataFrame(series).write_parquet(file, metadata={METADATA: text, KEY: BLANK})
        file.flush()
        seal(Path(file.name))


def load(path: Path, max_size: int = 2**63) -> History:
    """Read a history that `save` wrote, of at most `max_size` bytes of columns in memory.

    Raises:
        HistoryError: polars is not installed, or the file is no such history, or was changed.
    """
    footer = footer_of(path)
    if footer is None:
        raise HistoryError("saw no whole Parquet file", hint="get the file once more")
    if METADATA.encode() not in footer:
        raise HistoryError("a Parquet file without a history's metadata", hint="write it with checker.save")
    sealed = is_sealed(path)
    if sealed is False:
        raise HistoryError(
            "the file was changed after it was written: its digest does not agree with its bytes",
            field=KEY,
            hint="get the file once more; if another tool rewrote it, start from what checker.save wrote",
        )
    table = read_here(path, max_size) if sealed else read_apart(path, max_size)
    if table.operations is None or table.metadata is None:
        raise HistoryError("a Parquet file without a history's metadata", hint="write it with checker.save")
    try:
        metadata = msgspec.json.decode(table.metadata, type=Metadata)
        if metadata.digest and not sealed:
            raise HistoryError(
                "the file was changed after it was written: its digest is gone",
                field=KEY,
                hint="get the file once more; if another tool rewrote it, start from what checker.save wrote",
            )
        require_range(table.operations, metadata.others)
    except UNREADABLE as error:
        raise HistoryError(f"saw no history, expected one that checker.save wrote ({error})") from None
    others = tuple(metadata.others)
    operations = table.operations if sealed else identified(table.operations)
    history = History(
        ops=operations,
        params=metadata.params,
        problems=tuple(metadata.problems),
        start_ns=metadata.start_ns,
        end_ns=metadata.end_ns,
        has_header=metadata.has_header,
        complete=metadata.complete if sealed else Completeness.NOT_KNOWN,
    )
    return replace(history, source=_source(operations, others)).with_others(others)


def _source(ops: Operations, others: Sequence[tuple[int, Event]]) -> Callable[[], Sequence[Event]]:
    return lambda: events_of(ops, others)


def _strings(pl: Any, name: str, codes: np.ndarray, names: Sequence[Any]) -> Any:
    texts = [msgspec.json.encode(v).decode() for v in names] if name == "value" else list(names)
    table = pl.Series(name, [*texts, None], dtype=pl.String)
    return table.gather(np.where(codes == NONE, len(texts), codes))
