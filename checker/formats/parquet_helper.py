"""A helper process that reads a Parquet file which is not known to be whole: it may die of it."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Final

from checker.errors import HistoryError
from checker.formats.parquet_table import REFUSED, Table, read_here

_ROOM_BYTES: Final = 8 << 30
"""What the helper may map besides its table: mostly room that polars reserves and never touches."""


def main(arguments: list[str]) -> int:
    """Read `FILE MAX_SIZE` for the parent: status 0 and a `Table`, or 3 and a `HistoryError`, pickled."""
    path, max_size = Path(arguments[0]), int(arguments[1])
    _limit_memory(max_size)
    answer: Table | HistoryError
    try:
        answer, status = read_here(path, max_size, trusted=False), 0
    except HistoryError as error:
        answer, status = error, REFUSED
    pickle.dump(answer, sys.stdout.buffer, protocol=5)
    return status


def _limit_memory(max_size: int) -> None:
    try:
        import resource
    except ImportError:  # no such limits on this system
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = min(3 * max_size + _ROOM_BYTES, 2**62)
    resource.setrlimit(resource.RLIMIT_AS, (wanted if most < 0 else min(wanted, most), most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
