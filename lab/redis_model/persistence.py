"""What a Redis keeps on its disk: how it is set up to, and what it has written and synced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Persistence = Literal["none", "rdb", "aof-everysec", "aof-always"]
"""Nothing; snapshots; an append-only file synced once a second; one synced before each reply."""


@dataclass(frozen=True, slots=True)
class Disk:
    """What a node has written to its append-only file or its snapshot, and how much is synced, in bytes.

    ``unsynced`` is what would be lost in a power cut: the rest of the file.
    """

    written: int
    synced: int
    unsynced: bytes
