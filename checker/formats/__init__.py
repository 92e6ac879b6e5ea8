"""Histories on disk: which format a file has, and the one place to load and save them."""

from __future__ import annotations

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
    module = _module(format or detect(file), str(path))
    try:
        history: History = module.load(file)
    except HistoryError as error:
        raise error.at(file=str(path)) from None
    return history


def save(history: History, path: str | Path, format: str | None = None) -> None:
    """Write a history in the format of the suffix (or the one named).

    Raises:
        HistoryError: a format that is unknown or cannot be written.
    """
    file = Path(path)
    module = _module(format or _by_suffix(file) or "jsonl", str(path))
    if not hasattr(module, "save"):
        raise HistoryError("this format can be read, not written", file=str(path), hint="save as .jsonl")
    module.save(history, file)


def detect(file: Path) -> str:
    """The name of the format of a file: by suffix, else by its first bytes."""
    named = _by_suffix(file)
    if named:
        return named
    with file.open("rb") as stream:
        head = stream.read(256).lstrip()
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
