"""Drivers: programs that put other people's lock libraries behind one protocol (``PROTOCOL.md``)."""

from __future__ import annotations

import re
from typing import Final

PREFIX: Final = "driver:"
"""How the name of a lock begins that is one of the lab's drivers."""
CLASS_IN_FILE: Final = re.compile(r"(?:(\S*)/)?(\w+)\.py:(\w+)")
"""A class as some write it, by the path of its file: that is no driver, and an error that says so."""


def is_driver(name: str) -> bool:
    """Whether a lock's name means a driver: one of the lab's (``driver:NAME``), or a command line."""
    if CLASS_IN_FILE.fullmatch(name):
        return False
    return name.startswith(PREFIX) or "/" in name or any(letter.isspace() for letter in name)
