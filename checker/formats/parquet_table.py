"""The table of a Parquet file as columns, by polars.

Polars trusts what it reads: a damaged file can abort the process. A file that is not known to be whole is
therefore read by a process of its own (`checker.formats.parquet_helper`).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from checker.errors import UNREADABLE, HistoryError
from checker.formats.packed import PackedNames
from checker.formats.text import require_size
from checker.history.operations import CODE_COLUMNS, COLUMNS, I32, NONE, F, Names, Operations, Status

METADATA: Final = "history"
ENUMS: Final = {"f": [f.name.lower() for f in F], "status": [s.name.lower() for s in Status]}
PACKED_FROM: Final = 10_000
"""Fewer names than these are kept as a list."""
THREADS: Final = 2
"""So many columns are read at once: polars itself uses all cores for large ones, but not for their codes."""
REFUSED: Final = 3
"""The status with which the helper says that it wrote a `HistoryError`."""


@dataclass(frozen=True, slots=True)
class Table:
    """The operations of a file, and the text of its metadata (None if there is none of ours)."""

    operations: Operations | None
    metadata: str | None


def read_here(path: Path, max_size: int, *, trusted: bool = True) -> Table:
    """Read a table in this process; many names stay packed, unless they have to be looked at (`trusted`).

    Raises:
        HistoryError: polars is not installed, the file is no such table, or larger than is allowed.
    """
    pl = polars(path)
    try:
        text = pl.read_parquet_metadata(path).get(METADATA)
        if text is None:
            return Table(None, None)
        rows = int(pl.scan_parquet(path).select(pl.len()).collect().item())
        require_size(rows * _ROW_BYTES, max_size)
        return Table(_operations(pl, path, trusted), text)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, *UNREADABLE, OverflowError) as error:
        raise HistoryError(f"saw no history, expected one that checker.save wrote ({error})") from None


_ROW_BYTES: Final = sum(np.dtype(dtype).itemsize for dtype, _ in COLUMNS.values())


def read_apart(path: Path, max_size: int) -> Table:
    """Read a table in a process of its own, which may die of it; raises as `read_here`."""
    polars(path)
    done = subprocess.run(
        [sys.executable, "-m", "checker.formats.parquet_helper", str(path), str(max_size)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    if done.returncode == 0:
        table: Table = pickle.loads(done.stdout)
        return table
    if done.returncode == REFUSED:
        raise pickle.loads(done.stdout)
    output = done.stderr.decode("utf-8", "replace").strip().splitlines()
    raise HistoryError(
        f"saw a damaged file, on which polars failed ({output[-1][:200] if output else done.returncode})",
        hint="get the file once more, or save the history again with checker.save",
    )


def _operations(pl: Any, path: Path, trusted: bool) -> Operations:
    with ThreadPoolExecutor(THREADS) as threads:
        read = dict(
            zip(COLUMNS, threads.map(lambda name: _column(pl, path, name, trusted), COLUMNS), strict=True)
        )
    names = {name: texts for name, (_, texts) in read.items() if texts is not None}
    return Operations(**{name: column for name, (column, _) in read.items()}, names=Names(**names))


def _column(pl: Any, path: Path, name: str, trusted: bool) -> tuple[np.ndarray, Sequence[Any] | None]:
    """One column, and what its codes mean (None for a column of numbers)."""
    dtype = COLUMNS[name][0]
    series = pl.read_parquet(path, columns=[name]).to_series()
    _refuse_other(name, series, _type(pl, name, dtype))
    if name in CODE_COLUMNS:
        codes, texts = _codes(pl, series)
        return codes, _names(texts, json=name == "value", pack=trusted)
    if name in ENUMS:
        return series.to_physical().to_numpy().astype(dtype), None
    if len(series) and series.min() == series.max():
        return np.broadcast_to(dtype(series[0]), (len(series),)), None
    return series.to_numpy().astype(dtype, copy=False), None


def _type(pl: Any, name: str, dtype: Any) -> Any:
    """Which type ``save`` gives a column."""
    if name in CODE_COLUMNS:
        return pl.String
    return pl.Enum(ENUMS[name]) if name in ENUMS else pl.Series(np.empty(0, dtype)).dtype


def _refuse_other(name: str, series: Any, wanted: Any) -> None:
    """What is not as ``save`` writes it would be turned into numbers that nobody recorded."""
    if series.dtype != wanted:
        raise HistoryError(f"saw a column of {series.dtype}, expected one of {wanted}", field=name)
    if name not in CODE_COLUMNS and (missing := series.null_count()):
        raise HistoryError(f"saw {missing} missing values, expected none", field=name)


def _codes(pl: Any, series: Any) -> tuple[I32, Any]:
    """Codes in order of first sight, and the series of what they mean."""
    missing = series.is_null().to_numpy()
    if missing.all():
        return np.broadcast_to(np.int32(NONE), (len(series),)), series.clear()
    series = series.rechunk()
    for seed in count():
        first = first_rows(series.hash(seed).to_numpy())
        if series.gather(pl.Series(first.view(np.uint32))).eq_missing(series).all():
            break  # else two strings have the same hash, which another seed changes
    new = (first == np.arange(first.size, dtype=np.int32)) & ~missing
    codes = (np.cumsum(new, dtype=np.int32) - np.int32(1)).take(first)
    codes[missing] = NONE
    return codes, series.filter(pl.Series(new))


def first_rows(hashes: npt.NDArray[np.uint64]) -> I32:
    """For each row the first one with the same hash, O(n) expected.

    All rows go into a table by some of their bits, where the earliest stays; whoever finds another hash than
    its own goes on to the next table, by other bits. So each table settles at least one hash.
    """
    found = left = np.arange(hashes.size, dtype=np.int32)
    own, shift = hashes, 0
    while own.size:
        bits = own.size.bit_length() + 1
        place = ((own << np.uint64(shift)) >> np.uint64(64 - bits)).view(np.int64)
        table = np.empty(1 << bits, np.int32)
        table[place[::-1]] = left[::-1]  # of several at one place the last one stays
        earliest = table.take(place)
        settled = hashes.take(earliest) == own
        if own is hashes:
            found = earliest
        else:
            found[left[settled]] = earliest[settled]
        left = left[~settled]
        own, shift = hashes.take(left), (shift + bits) % 64
    return found


def _names(texts: Any, *, json: bool, pack: bool) -> Sequence[Any]:
    """The names in a series of strings; `json` says that they are the JSON of values."""
    if pack and len(texts) >= PACKED_FROM:
        ends = texts.str.len_bytes().cum_sum().to_numpy().astype(np.int64)
        return PackedNames(texts.str.join("").item().encode(), ends, json=json)
    listed: list[Any] = texts.to_list()
    return [_value(text) for text in listed] if json else listed


def _value(text: str) -> Any:
    value = msgspec.json.decode(text)
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str | int | None) and not isinstance(part, bool) for part in parts):
        raise HistoryError(f"saw {text[:60]}, expected a string, an integer or a pair", field="value")
    return tuple(value) if isinstance(value, list) else value


def polars(path: Path) -> Any:
    """The module polars. Raises `HistoryError` where it is not installed."""
    try:
        import polars
    except ImportError:
        raise HistoryError(
            "Parquet needs polars, which is not installed",
            file=str(path),
            hint="install the extra 'scale', or keep the history as .jsonl",
        ) from None
    return polars
