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
import signal
from dataclasses import dataclass
from pathlib import Path

from lab.paths import state_dir, writable_dir

RUN_VARIABLE = "LOCK_LAB_RUN"


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep found of one dead run."""

    run_id: str
    killed: tuple[int, ...]


def started_at(pid: int) -> str | None:
    """Return the kernel's start time of a process, which tells a reused id apart, or None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name may hold anything, also ")": fields are counted after the last one. State Z is a corpse.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def processes_of(run_id: str, variable: str = RUN_VARIABLE) -> list[int]:
    """Return the ids of all living processes that carry ``run_id`` (the caller's own excluded)."""
    marker = f"{variable}={run_id}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if marker in (entry / "environ").read_bytes().split(b"\0") and started_at(int(entry.name)):
                found.append(int(entry.name))
    return found


def kill_all(run_id: str) -> list[int]:
    """End every process of a run at once and return their ids. SIGKILL also ends what was stopped."""
    killed: list[int] = []
    for pid in processes_of(run_id):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    return killed


class RunFile:
    """The trace of a living run. ``scratch`` is removed with it."""

    def __init__(self, run_id: str, scratch: Path) -> None:
        self.path = writable_dir(state_dir()) / f"{run_id}.json"
        self.run_id = run_id
        self.scratch = scratch
        self.path.write_text(
            json.dumps({"pid": os.getpid(), "started_at": started_at(os.getpid()), "scratch": str(scratch)})
        )

    def close(self) -> None:
        """Forget the run: it ended properly."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.path.unlink(missing_ok=True)


def sweep() -> list[Swept]:
    """End what dead runs left behind; runs whose lab is alive are not touched."""
    swept: list[Swept] = []
    if not state_dir().is_dir():
        return swept
    for path in sorted(state_dir().glob("*.json")):
        try:
            record = json.loads(path.read_text())
            pid, since, scratch = int(record["pid"]), record["started_at"], Path(record["scratch"])
        except (OSError, ValueError, KeyError, TypeError):
            pid, since, scratch = (
                -1,
                "",
                None,
            )  # damaged by a full disk, perhaps: the id still finds processes
        if pid > 0 and started_at(pid) == since:
            continue
        killed = kill_all(path.stem)
        if scratch is not None and scratch.name.startswith("lock-lab-"):
            shutil.rmtree(scratch, ignore_errors=True)
        path.unlink(missing_ok=True)
        swept.append(Swept(path.stem, tuple(killed)))
    return swept
