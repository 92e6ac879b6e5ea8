"""A helper process of the JSON Lines reader: decodes a share of a file and hands it to its parent."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from checker.errors import UNREADABLE, HistoryError
from checker.formats.chunks import packed, read_range


def main(arguments: list[str]) -> int:
    """Write the pickled chunk of `PATH START END FOREIGN` to stdout; status 1 and silence is failure."""
    path, start, end, foreign = Path(arguments[0]), int(arguments[1]), int(arguments[2]), arguments[3] == "1"
    try:
        chunk = read_range(path, start, end, foreign)
    except (*UNREADABLE, HistoryError, OSError):
        return 1
    pickle.dump(packed(chunk), sys.stdout.buffer, protocol=5)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
