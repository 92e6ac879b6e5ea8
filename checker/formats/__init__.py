"""Histories on disk: which format a file has, and the one place to load and save them.

A text may be compressed with gzip: it is unpacked in memory, up to `UNPACKED_MAX`, and read as it stands.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from checker.errors import HistoryError
from checker.history import History


@dataclass(frozen=True, slots=True)
class Format:
    """A format is a module with `load(path: Path) -> History` and, if it can write, `save(history, path)`."""

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

GZIP: Final = ".gz"
_MAGIC: Final = b"\x1f\x8b"
UNPACKED_MAX: Final = 256 << 20
"""How many bytes a compressed history may come to; beyond that it may be a bomb."""


def load(path: str | Path, format: str | None = None) -> History:
    """Read a history; the format is told by name, else by suffix, else by the first bytes.

    Raises:
        HistoryError: no such file or format, or a damaged history.
    """
    file = Path(path)
    if not file.is_file():
        raise HistoryError(
            "no such file", file=str(path), hint="a run keeps its history in <run>/history.jsonl"
        )
    try:
        packed = _is_packed(file)
        content = _unpacked(file) if packed else b""
        module = _module(format or detect(file, content[:_HEAD] if packed else None), str(path))
        history: History = _parsed(module, content) if packed else module.load(file)
    except HistoryError as error:
        raise error.at(file=str(path)) from None
    return history


def _is_packed(file: Path) -> bool:
    """Whether a file is compressed: by its suffix, or its first bytes where that says nothing."""
    if file.suffix.lower() == GZIP:
        return True
    if _by_suffix(file):
        return False
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _unpacked(file: Path) -> bytes:
    """The content of a compressed file. Raises `HistoryError` if it is damaged, or too much."""
    try:
        with gzip.open(file) as stream:
            content = stream.read(UNPACKED_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        told = str(error) or type(error).__name__
        raise HistoryError(
            f"this is no whole gzip file: {told[:1].lower()}{told[1:]}",
            hint="`gzip --test` says the same of it: get the file once more",
        ) from error
    if len(content) > UNPACKED_MAX:
        raise HistoryError(
            f"it unpacks to more than {UNPACKED_MAX >> 20} MiB",
            hint="if it is no bomb: gunzip it, and check what comes out",
        )
    return content


def _parsed(module: Any, content: bytes) -> History:
    """The history in a text. Raises `HistoryError`, also for a format that is no text."""
    if not hasattr(module, "parse"):
        raise HistoryError(
            "only a history in text can be compressed", hint="gunzip it, and check what comes out"
        )
    history: History = module.parse(content.decode("utf-8", "replace"))
    return history


def save(history: History, path: str | Path, format: str | None = None) -> None:
    """Write a history in the format of the suffix (or the one named).

    Raises:
        HistoryError: a format that is unknown or cannot be written.
    """
    file = Path(path)
    if file.suffix.lower() == GZIP:
        raise HistoryError(
            "a compressed history can be read, not written", file=str(path), hint="save as .jsonl, then gzip"
        )
    module = _module(format or _by_suffix(file) or "jsonl", str(path))
    if not hasattr(module, "save"):
        raise HistoryError("this format can be read, not written", file=str(path), hint="save as .jsonl")
    module.save(history, file)


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
    if head.startswith(b'{"') or not head:
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
