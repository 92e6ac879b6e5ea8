"""Clusters that are kept up after their run: each is marked beside the run's file, until it is ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lab.paths import state_dir, writable_dir
from lab.processes import started_at
from lab.substrates.run_files import boot_id, pid_namespace

ENDS_WITHIN_S: Final = 60.0
"""How long taking a cluster down may last; it is some 2 s."""
_POLL_S: Final = 0.05


@contextlib.contextmanager
def marked(run_id: str) -> Iterator[None]:
    """Mark a run as one whose cluster is kept up."""
    marker = writable_dir(state_dir()) / f"{run_id}.kept"
    marker.touch()
    try:
        yield
    finally:
        marker.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """A cluster that was kept up, and why it still is; None: it is down."""

    run_id: str
    why_not: str | None

    @property
    def words(self) -> str:
        """What was done, for people."""
        if self.why_not is None:
            return "took the cluster down that was kept up"
        return f"its cluster is still kept up: {self.why_not}"


def end_kept() -> list[Ended]:
    """Tell each lab that keeps a cluster up to take it down, and wait for that."""
    ended = []
    for marker in sorted(state_dir().glob("*.kept")):
        run_file = marker.with_suffix(".json")
        try:
            record = json.loads(run_file.read_text())
            pid, since, space = int(record["pid"]), record["started_at"], record["pid_namespace"]
        except (OSError, ValueError, KeyError, TypeError):
            marker.unlink(missing_ok=True)  # it ended a moment ago, or `sweep` finds what is left
            continue
        if record.get("boot") == boot_id() and space != pid_namespace():
            ended.append(Ended(marker.stem, "its lab has another view of process ids, end it there"))
            continue
        if started_at(pid) != since:
            marker.unlink(missing_ok=True)
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        give_up = time.monotonic() + ENDS_WITHIN_S
        while run_file.exists() and time.monotonic() < give_up:
            time.sleep(_POLL_S)
        why_not = f"process {pid} did not end within {ENDS_WITHIN_S:.0f} s" if run_file.exists() else None
        ended.append(Ended(marker.stem, why_not))
    return ended
