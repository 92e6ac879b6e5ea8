"""Processes that belong together, in whatever session or group: a variable of their environment says so."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
from pathlib import Path
from typing import Final

from lab.errors import UnknownOutcome

RUN_VARIABLE = "LOCK_LAB_RUN"
GONE_WITHIN_S: Final = 5.0
LOOK_EVERY_S: Final = 0.01


def started_at(pid: int) -> str | None:
    """Return the kernel's start time of a process, which tells a reused id apart, or None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name may hold anything, also ")": fields are counted after the last one. State Z is a corpse.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def computed_s(pid: int) -> float:
    """The processor time of a process and all its threads, in seconds; 0 if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def allow_open_files(needed: int) -> int | None:
    """Let this process, and those that it starts, have so many open files; the limit if that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return None
    if hard != resource.RLIM_INFINITY and hard < needed:
        return hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    return None


def too_many_files(error: BaseException) -> UnknownOutcome | None:
    """What to say of an error that came of the limit of open files; None if it did not."""
    if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UnknownOutcome(
        f"{error.strerror}: the limit of this process is {limit}", hint=f"ulimit -n {2 * limit}"
    )


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
    """End every process of a run and return their ids, once all are gone. SIGKILL also ends what was stopped.

    A process dies a moment after its signal, and may have started another in between: so all are looked for
    again until there are none. One that the kernel does not let go is given up after ``GONE_WITHIN_S``.

    It may be called inside a simulation, whose clocks stand still meanwhile: so it waits by ``select``, and
    counts how often.
    """
    killed: dict[int, None] = {}
    looks = 0
    while left := processes_of(run_id):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed[pid] = None
        looks += 1
        if looks * LOOK_EVERY_S > GONE_WITHIN_S:
            break
        select.select([], [], [], LOOK_EVERY_S)
    return list(killed)
