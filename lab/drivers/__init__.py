"""Drivers: programs that put other people's lock libraries behind one protocol (``PROTOCOL.md``)."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "driver:"
"""How the name of a lock begins that is one of the lab's drivers."""


def is_driver(name: str) -> bool:
    """Whether a lock's name means a driver: one of the lab's (``driver:NAME``), or a command line."""
    return name.startswith(PREFIX) or "/" in name or any(letter.isspace() for letter in name)
