"""A server that is copied in virtual time, where runs share processes."""

from __future__ import annotations

from typing import Final

import pytest

from lab import tools
from lab.errors import LabError

COPIED: Final = "redis@6.2"
"""Redis 8 makes a thread before it opens its sockets, and is started for each run."""


def provide_copied() -> None:
    """Have it here, or skip the test."""
    try:
        tools.provide(COPIED, lambda line: None)
    except LabError as error:
        pytest.skip(f"SKIPPED: {COPIED} cannot be fetched: {error.seen}")
