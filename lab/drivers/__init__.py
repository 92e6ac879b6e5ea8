"""Drivers: programs that put other people's lock libraries behind one protocol (``PROTOCOL.md``)."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from lab.drivers.shapes import is_blocking, settings_of
from lab.errors import LabError

PREFIX: Final = "driver:"
"""How the name of a lock begins that is one of the lab's drivers."""
CLASS_IN_FILE: Final = re.compile(r"(?:(\S*)/)?(\w+)\.py:(\w+)")
"""A class as some write it, by the path of its file: that is no driver, and an error that says so."""


def is_driver(name: str) -> bool:
    """Whether a lock needs a process beside its client's.

    It is one of the lab's drivers (``driver:NAME``), a command line, or an ordinary lock that blocks
    (``module:attribute``): for that there is a driver, which ``words_of`` names.
    """
    if CLASS_IN_FILE.fullmatch(name):
        return False
    if name.startswith(PREFIX) or "/" in name or any(letter.isspace() for letter in name):
        return True
    return ":" in name and is_blocking(name)


def words_of(name: str, python: str = sys.executable, path: Sequence[str] | None = None) -> tuple[str, ...]:
    """How a driver is started that is not the lab's own: as its command line says, or an ordinary lock's.

    Args:
        name: the lock's name.
        python: what runs an ordinary lock.
        path: where Python finds its module; by default where this process does.

    Raises:
        LabError: that is no command line.
    """
    if is_blocking(name):
        settings = msgspec.json.encode(settings_of(name)).decode()
        paths = [entry or str(Path.cwd()) for entry in sys.path] if path is None else path
        return (python, "-m", "lab.drivers.python.ordinary_driver", name, settings, ":".join(paths))
    try:
        words = shlex.split(name)
    except ValueError as error:
        raise LabError(
            seen=f"the command of a driver, {name!r}: {error}",
            where="lock.name",
            expected="words as in a shell",
        ) from error
    if not words:
        raise LabError("the command of a driver is empty", where="lock.name", expected="./my-driver --option")
    return tuple(words)
