"""The append-only file of one node, or its snapshot, and how much of it a power cut would leave.

Redis 7 keeps it in ``appendonlydir/``, and appends to the newest ``*.incr.aof`` there; before that it is
one file, ``appendonly.aof``. Only what is appended to is ever cut: the base file beside it and the manifest
are synced before they get their names. So is a snapshot, ``dump.rdb``, which counts only where no file is
appended to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.errors import UnknownOutcome
from lab.redis_model.persistence import Disk
from lab.shims import StallFile, synced_bytes
from lab.substrates.base import Capability

SYNCS: Final = frozenset((Capability.POWER_CUTS, Capability.STALL_DISKS))
"""What nodes need the sync shim for."""


class NodeDisk:
    """What one node keeps in ``directory``. Unless its syncs are ``recorded`` nothing is known about them."""

    def __init__(self, directory: Path, *, recorded: bool) -> None:
        self.directory = directory
        self.recorded = recorded
        directory.mkdir()
        # Beside it, since a server that is copied for each run shares its directory with the next one.
        self.stall = StallFile(directory.with_name(f"{directory.name}.stall"))
        if recorded:
            self.records.mkdir()
            self.stall.reset()

    @property
    def records(self) -> Path:
        """Where the sync shim notes what was synced."""
        return self.directory / "synced"

    def begin_life(self) -> None:
        """Reset the stall before a server starts: calls of one that was killed wait no more."""
        if self.recorded:
            self.stall.reset()

    def state(self) -> Disk:
        """How much is written, how much of it synced, and the rest. Raises ``UnknownOutcome``."""
        if not self.recorded:
            raise UnknownOutcome("nobody recorded what was synced: the nodes run without the sync shim")
        written = synced = 0
        rest = b""
        for path in self._files():
            kept = synced_bytes(self.records, path)
            data = path.read_bytes()
            kept = min(kept, len(data))
            written, synced, rest = written + len(data), synced + kept, rest + data[kept:]
        return Disk(written, synced, rest)

    def lose_unsynced(self) -> Disk:
        """Cut every file back to what was synced, and return what was there before."""
        before = self.state()
        for path in self._files():
            os.truncate(path, synced_bytes(self.records, path))
        return before

    def _files(self) -> Iterator[Path]:
        appended = sorted(self.directory.glob("appendonlydir/*.incr.aof"))
        appended += self.directory.glob("appendonly.aof")
        yield from appended or self.directory.glob("dump.rdb")


class OnDisk:
    """A node that is a real process, with its files in a directory of its own."""

    name: str
    _disk: NodeDisk

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        raise NotImplementedError

    async def disk(self) -> Disk:
        """Its append-only file and what the sync shim has noted of it."""
        return self._disk.state()

    async def stall_disk(self, stalls: bool) -> None:
        """Let the sync shim hold every sync, or let go of them."""
        self._disk.stall.set(stalls)

    async def held_syncs(self) -> int:
        """How many syncs the sync shim holds."""
        return self._disk.stall.waiting()

    async def lose_unsynced(self) -> Disk:
        """Cut the file back to what was synced."""
        if self.alive:
            raise UnknownOutcome(f"node {self.name} still runs: its files can't be cut")
        return self._disk.lose_unsynced()
