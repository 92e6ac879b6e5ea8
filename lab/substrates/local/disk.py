"""The disk of a local node: the process preloads the sync shim, which records what was synced."""

from __future__ import annotations

from pathlib import Path

from lab.shims import STALL_VARIABLE, SYNC_VARIABLE, preload
from lab.substrates.real.disk import NodeDisk


class LocalDisk(NodeDisk):
    """What one node keeps in ``directory``. Without a sync shim nothing is known about syncing."""

    def __init__(self, directory: Path, sync_shim: Path | None) -> None:
        super().__init__(directory, recorded=sync_shim is not None)
        self._shim = sync_shim

    def environment(self, preloaded: dict[str, str]) -> dict[str, str]:
        """What lets a process record its syncs, added to an environment that may preload something."""
        if self._shim is None:
            return preloaded
        before = preloaded.get("LD_PRELOAD")
        both = f"{self._shim}:{before}" if before else preload(self._shim)
        return {
            **preloaded,
            "LD_PRELOAD": both,
            SYNC_VARIABLE: str(self.records),
            STALL_VARIABLE: str(self.stall.path),
        }
