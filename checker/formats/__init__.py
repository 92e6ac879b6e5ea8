"""Histories on disk: which format a file has, and the one place to load and save them.

What this package writes says how many events it holds and the digest of them, so that damage is noticed; of
other files the completeness is not known, and the verdict says so (`checker.history.completeness`).

A text may be compressed with gzip: it is unpacked while it is read.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from checker.errors import HistoryError
from checker.formats.foreign import AS_IT_IS, Reading, require_foreign
from checker.formats.text import Text
from checker.history.history import History


@dataclass(frozen=True, slots=True)
class Format:
    """A format is a module with `read(text: Text, reading: Reading) -> History` (or `load(path, max_size)`,
    if it is no text) and, if it can write, `save(history, path)`.
    """

    name: str
    module: str
    suffixes: tuple[str, ...]


FORMATS: Final[Mapping[str, Format]] = {
    f.name: f
    for f in (
        Format("jsonl", "checker.formats.jsonl", (".jsonl", ".ndjson", ".json")),
        Format("parquet", "checker.formats.parquet", (".parquet",)),
        Format("edn", "checker.formats.edn", (".edn",)),
        Format("jepsen-log", "checker.formats.jepsen_log", (".log",)),
    )
}

_TREES: Final = ("edn", "jepsen-log")
_ARRAY: Final = re.compile(rb"\[\s*\{\s*\"")
"""How a JSON array of objects begins; in EDN, keys are keywords."""
GZIP: Final = ".gz"
_MAGIC: Final = b"\x1f\x8b"
LINES_MAX: Final = 8 << 30
"""The most bytes of JSON Lines or Parquet that are read unless another limit is given."""
UNPACKED_MAX: Final = 1 << 30
"""The same for a compressed text: what is small on the disk may be a bomb."""
TREE_MAX: Final = 256 << 20
"""The same for EDN and Jepsen's logs, which take 16 times their size in memory while they are read."""


def load(
    path: str | Path,
    format: str | None = None,
    *,
    max_size: int | None = None,
    reading: Reading = AS_IT_IS,
) -> History:
    """Read a history; the format is told by name, else by suffix, else by the first bytes.

    `max_size` is the most that is read, in bytes of uncompressed text (of Parquet: of columns in memory); by
    default `LINES_MAX`, `UNPACKED_MAX` if it is compressed, `TREE_MAX` if it is EDN, a log or a JSON array.
    `reading` says how the history of another tool is read.

    Raises:
        HistoryError: a file that cannot be read, no such format, a damaged history, or one that is too large.
    """
    file = Path(path)
    try:
        return _loaded(file, format, max_size, reading)
    except HistoryError as error:
        raise error.at(file=str(path)) from None
    except OSError as error:
        raise _no_file(file, error) from None


def _loaded(file: Path, format: str | None, max_size: int | None, reading: Reading) -> History:
    _require_file(file)
    packed = _is_packed(file)
    text = Text(file, packed)
    head = next(text.pieces(), b"")[:_HEAD]
    name = format or detect(file, head)
    module = _module(name, str(file))
    tree = name in _TREES or (name == "jsonl" and _ARRAY.match(head.lstrip()))
    allowed = max_size or min(UNPACKED_MAX if packed else LINES_MAX, TREE_MAX if tree else LINES_MAX)
    if packed and not hasattr(module, "read"):
        raise HistoryError(
            "only a history in text can be compressed", hint="gunzip it, and check what comes out"
        )
    if hasattr(module, "read"):
        return cast("History", module.read(replace(text, max_size=allowed), reading))
    require_foreign(reading)
    return cast("History", module.load(file, allowed))


def _require_file(file: Path) -> None:
    """Raises `HistoryError` (or `OSError`) for what is no regular file: reading it might never end."""
    mode = file.stat().st_mode
    if stat.S_ISREG(mode):
        return
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    kind = next((word for test, word in kinds if test(mode)), "a device")
    raise HistoryError(
        f"saw {kind}, expected a file",
        hint="a run keeps its history in <run>/history.jsonl; write what comes from a pipe to a file first",
    )


def _no_file(file: Path, error: OSError) -> HistoryError:
    """An error of the file system, in the words of the system."""
    if isinstance(error, FileNotFoundError):
        return HistoryError(
            "no such file", file=str(file), hint="a run keeps its history in <run>/history.jsonl"
        )
    return HistoryError(
        f"cannot be read: {_words(error)}",
        file=str(file),
        hint="`ls -l` shows who may read it" if isinstance(error, PermissionError) else None,
    )


def _words(error: OSError) -> str:
    """What the system says, as a part of a sentence."""
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]


def _is_packed(file: Path) -> bool:
    """Whether a file is compressed: by its suffix, or its first bytes where that says nothing."""
    if file.suffix.lower() == GZIP:
        return True
    if _by_suffix(file):
        return False
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def save(history: History, path: str | Path, format: str | None = None) -> None:
    """Write a history in the format of the suffix (or the one named).

    Raises:
        HistoryError: a format that is unknown or cannot be written, or a file that cannot be.
    """
    file = Path(path)
    if file.suffix.lower() == GZIP:
        raise HistoryError(
            "a compressed history can be read, not written", file=str(path), hint="save as .jsonl, then gzip"
        )
    module = _module(format or _by_suffix(file) or "jsonl", str(path))
    if not hasattr(module, "save"):
        raise HistoryError("this format can be read, not written", file=str(path), hint="save as .jsonl")
    try:
        module.save(history, file)
    except OSError as error:
        raise HistoryError(f"cannot be written: {_words(error)}", file=str(path)) from None


_HEAD: Final = 256


def detect(file: Path, head: bytes | None = None) -> str:
    """The name of the format of a file: by suffix, else by its first bytes (`head`, if it is compressed)."""
    named = _by_suffix(Path(file.stem) if file.suffix.lower() == GZIP else file)
    if named:
        return named
    if head is None:
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
    head = head.lstrip()
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b'{"') or _ARRAY.match(head) or not head:
        return "jsonl"
    if head[:1] in (b"{", b"["):
        return "edn"
    return "jepsen-log"


def _by_suffix(file: Path) -> str | None:
    suffix = file.suffix.lower()
    return next((f.name for f in FORMATS.values() if suffix in f.suffixes), None)


def _module(name: str, path: str) -> Any:
    known = FORMATS.get(name)
    if known is None:
        raise HistoryError(
            f"saw format {name!r}, expected one of {', '.join(FORMATS)}", file=path, field="format"
        )
    return import_module(known.module)
