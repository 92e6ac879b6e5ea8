"""The append-only file of one node, and how much of it a power cut would leave.

Redis 7 keeps it in ``appendonlydir/``, and appends to the newest ``*.incr.aof`` there; before that it is
one file, ``appendonly.aof``. Only what is appended to is ever cut: the base file beside it and the manifest
are synced before they get their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lab.errors import UnknownOutcome
from lab.shims import SYNC_VARIABLE, preload, synced_bytes
from lab.substrates.base import Disk


class LocalDisk:
    """What one node keeps in ``directory``. Without a sync shim nothing is known about syncing."""

    def __init__(self, directory: Path, sync_shim: Path | None) -> None:
        self._directory = directory
        self._shim = sync_shim
        self._records = directory / "synced"
        directory.mkdir()
        if sync_shim is not None:
            self._records.mkdir()

    def environment(self, preloaded: dict[str, str]) -> dict[str, str]:
        """What lets a process record its syncs, added to an environment that may preload something."""
        if self._shim is None:
            return preloaded
        before = preloaded.get("LD_PRELOAD")
        both = f"{self._shim}:{before}" if before else preload(self._shim)
        return {**preloaded, "LD_PRELOAD": both, SYNC_VARIABLE: str(self._records)}

    def state(self) -> Disk:
        """How much is written, how much of it synced, and the rest. Raises ``UnknownOutcome``."""
        if self._shim is None:
            raise UnknownOutcome("nobody recorded what was synced: the nodes run without the sync shim")
        written = synced = 0
        rest = b""
        for path in self._files():
            kept = synced_bytes(self._records, path)
            data = path.read_bytes()
            kept = min(kept, len(data))
            written, synced, rest = written + len(data), synced + kept, rest + data[kept:]
        return Disk(written, synced, rest)

    def lose_unsynced(self) -> Disk:
        """Cut every file back to what was synced, and return what was there before."""
        before = self.state()
        for path in self._files():
            os.truncate(path, synced_bytes(self._records, path))
        return before

    def _files(self) -> Iterator[Path]:
        yield from sorted(self._directory.glob("appendonlydir/*.incr.aof"))
        yield from self._directory.glob("appendonly.aof")
