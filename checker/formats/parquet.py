"""Parquet: a history of any size as one table of paired operations, read straight into columns.

One row per operation, columns named as in `Operations`; everything else (parameters, faults, stalls, what lab
and nodes reported) travels as JSON in the file's metadata. Convert once from JSON Lines, then check as often
as you like. Needs polars (the extra `scale`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from checker.errors import UNREADABLE, HistoryError
from checker.events import FORMAT_VERSION, Event, Params
from checker.history import History
from checker.operations import CODE_COLUMNS, COLUMNS, I32, NONE, F, Names, Operations, Status
from checker.unpairing import events_of

_METADATA: Final = "history"
_ENUMS: Final = {"f": [f.name.lower() for f in F], "status": [s.name.lower() for s in Status]}


class Metadata(msgspec.Struct, kw_only=True):
    """What a file holds beside its operations."""

    history: int = FORMAT_VERSION
    params: Params
    problems: list[str] = []
    others: list[tuple[int, Event]] = []
    start_ns: int
    end_ns: int
    has_header: bool = True


def save(history: History, path: Path) -> None:
    """Write a history.

    Raises:
        HistoryError: polars is not installed.
    """
    pl = _polars(path)
    ops = history.ops
    series = []
    for name in COLUMNS:
        column = np.ascontiguousarray(getattr(ops, name))
        if name in _ENUMS:
            words = pl.Series(name, _ENUMS[name], dtype=pl.Enum(_ENUMS[name]))
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
    )
    text = msgspec.json.encode(metadata).decode()
    pl.DataFrame(series).write_parquet(path, metadata={_METADATA: text})


def load(path: Path) -> History:
    """Read a history that `save` wrote.

    Raises:
        HistoryError: polars is not installed, or the file is no such history.
    """
    pl = _polars(path)
    try:
        text = pl.read_parquet_metadata(path).get(_METADATA)
        if text is None:
            raise HistoryError(
                "a Parquet file without a history's metadata", hint="write it with checker.save"
            )
        metadata = msgspec.json.decode(text, type=Metadata)
        ops = _operations(pl, path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, *UNREADABLE, OSError) as error:
        raise HistoryError(f"saw no history, expected one that checker.save wrote ({error})") from None
    others = tuple(metadata.others)
    history = History(
        ops=ops,
        params=metadata.params,
        problems=tuple(metadata.problems),
        start_ns=metadata.start_ns,
        end_ns=metadata.end_ns,
        has_header=metadata.has_header,
    )
    return replace(history, source=_source(ops, others)).with_others(others)


def _source(ops: Operations, others: Sequence[tuple[int, Event]]) -> Callable[[], Sequence[Event]]:
    return lambda: events_of(ops, others)


def _strings(pl: Any, name: str, codes: np.ndarray, names: Sequence[Any]) -> Any:
    texts = [msgspec.json.encode(v).decode() for v in names] if name == "value" else list(names)
    table = pl.Series(name, [*texts, None], dtype=pl.String)
    return table.gather(np.where(codes == NONE, len(texts), codes))


def _operations(pl: Any, path: Path) -> Operations:
    columns: dict[str, np.ndarray] = {}
    names: dict[str, list[Any]] = {}
    for name, (dtype, _) in COLUMNS.items():
        series = pl.read_parquet(path, columns=[name]).to_series()
        _refuse_other(name, series, _type(pl, name, dtype))
        if name in CODE_COLUMNS:
            columns[name], names[name] = _codes(pl, series)
        elif name in _ENUMS:
            columns[name] = series.to_physical().to_numpy().astype(dtype)
        else:
            columns[name] = series.to_numpy().astype(dtype, copy=False)
    names["value"] = [_value(text) for text in names["value"]]
    return Operations(**columns, names=Names(**names))


def _type(pl: Any, name: str, dtype: Any) -> Any:
    """Which type ``save`` gives a column."""
    if name in CODE_COLUMNS:
        return pl.String
    return pl.Enum(_ENUMS[name]) if name in _ENUMS else pl.Series(np.empty(0, dtype)).dtype


def _refuse_other(name: str, series: Any, wanted: Any) -> None:
    """What is not as ``save`` writes it would be turned into numbers that nobody recorded."""
    if series.dtype != wanted:
        raise HistoryError(f"saw a column of {series.dtype}, expected one of {wanted}", field=name)
    if name not in CODE_COLUMNS and (missing := series.null_count()):
        raise HistoryError(f"saw {missing} missing values, expected none", field=name)


def _codes(pl: Any, series: Any) -> tuple[I32, list[Any]]:
    """Codes in order of first sight, and what they mean."""
    if series.null_count() == len(series):
        return np.broadcast_to(np.int32(NONE), (len(series),)), []
    physical = series.cast(pl.Categorical(pl.Categories.random())).to_physical()
    codes = physical.cast(pl.Int32).fill_null(NONE).to_numpy()
    size = int(codes.max()) + 1
    first = np.full(size + 1, -1, np.int64)
    first[codes[::-1]] = np.arange(codes.size)[::-1]  # code NONE falls on the spare last place
    return codes, series.gather(first[:size]).to_list()


def _value(text: str) -> Any:
    value = msgspec.json.decode(text)
    return tuple(value) if isinstance(value, list) else value


def _polars(path: Path) -> Any:
    try:
        import polars
    except ImportError:
        raise HistoryError(
            "Parquet needs polars, which is not installed",
            file=str(path),
            hint="install the extra 'scale', or keep the history as .jsonl",
        ) from None
    return polars
