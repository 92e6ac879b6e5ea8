"""Nothing is left running: what a killed lab leaves behind is found and ended by the next one.

Every process of a run carries the run's id in its environment. Before a run starts anything it writes a run
file with its own process id; a run file whose lab is gone means leftovers, found by the id they carry, so
there is no moment between starting a process and writing it down.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.paths import state_dir, writable_dir
from lab.processes import kill_all, started_at


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep found of one dead run: processes that it ended, containers that it removed.

    ``not_removed`` says why the container engine did not remove its containers: they may still run, and its
    run file and directory are kept for another sweep.
    """

    run_id: str
    killed: tuple[int, ...] = ()
    containers: int = 0
    not_removed: str | None = None

    @property
    def words(self) -> str:
        """What was done, for people."""
        if self.not_removed is not None:
            ended = f"ended {len(self.killed)} processes; " if self.killed else ""
            return f"{ended}its containers may still run, and its files are kept: {self.not_removed}"
        done = [f"ended {len(self.killed)} processes"] if self.killed or not self.containers else []
        return ", ".join([*done, *([f"removed {self.containers} containers"] if self.containers else [])])

    @property
    def sentence(self) -> str:
        """The same, said by a run that looked before it started."""
        done = "cleaned up after a killed run" if self.not_removed is None else "a killed run was not removed"
        return f"{done} ({self.words})"


def boot_id() -> str:
    """What tells one boot of this machine from another: process ids count from the beginning after each."""
    return _read_or_unknown(lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip())


def pid_namespace() -> str:
    """What tells one view of process ids from another: the same id means another process in each."""
    return _read_or_unknown(lambda: os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - it names no file


def _read_or_unknown(ask: Callable[[], str]) -> str:
    with contextlib.suppress(OSError):
        return ask()
    return ""


class RunFile:
    """The trace of a living run. ``scratch`` is removed with it.

    With ``containers`` it has some, in the engine at the address ``engine``.
    """

    def __init__(
        self, run_id: str, scratch: Path, *, containers: bool = False, engine: str | None = None
    ) -> None:
        self.path = writable_dir(state_dir()) / f"{run_id}.json"
        self.run_id = run_id
        self.scratch = scratch
        record = {
            "pid": os.getpid(),
            "started_at": started_at(os.getpid()),
            "scratch": str(scratch),
            "containers": containers,
            "engine": engine,
            "boot": boot_id(),
            "pid_namespace": pid_namespace(),
        }
        unseen = self.path.with_suffix(".new")  # half of a run file would be swept by a lab beside this one
        try:
            unseen.write_text(json.dumps(record))
            unseen.replace(self.path)
        finally:
            unseen.unlink(missing_ok=True)

    def close(self) -> None:
        """Forget the run, which ended properly; end what its drivers started and left, in any session."""
        kill_all(self.run_id)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.path.unlink(missing_ok=True)
