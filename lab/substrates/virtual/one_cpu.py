"""One CPU for a search and its drivers, which take turns: whoever is woken on another CPU starts late.

It also leaves the machine's other CPUs to other searches: each claims one of its own, by a lock on a file.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from lab.paths import state_dir

CLAIM: Final = "cpu-{}.lock"


class OneCpu:
    """A CPU that is claimed, and this thread bound to it; nothing at all if none is free."""

    def __init__(self) -> None:
        self._before = os.sched_getaffinity(0)
        self._claim: IO[bytes] | None = None
        self._own: set[int] = set()
        with contextlib.suppress(OSError):  # no directory that can be written: then all share
            self._choose()

    def _choose(self) -> None:
        """The CPU that this runs on already, or the first one that no other search has."""
        state_dir().mkdir(parents=True, exist_ok=True)
        here = ctypes.CDLL(None).sched_getcpu()
        for cpu in sorted(self._before, key=lambda cpu: (cpu != here, cpu)):
            claim = (state_dir() / CLAIM.format(cpu)).open("ab")
            try:
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                claim.close()
                continue
            self._claim, self._own = claim, {cpu}
            os.sched_setaffinity(0, self._own)
            return

    def bind(self, pid: int) -> None:
        """Bind a process, with all its threads; those that it makes later are bound as well."""
        with contextlib.suppress(FileNotFoundError):  # the process has just ended
            for task in Path(f"/proc/{pid}/task").iterdir() if self._own else ():
                with contextlib.suppress(ProcessLookupError):  # the thread has
                    os.sched_setaffinity(int(task.name), self._own)

    @contextlib.contextmanager
    def free(self) -> Iterator[None]:
        """Let this thread, and what it starts meanwhile, have all CPUs: they count how many there are."""
        if not self._own:
            yield
            return
        os.sched_setaffinity(0, self._before)
        try:
            yield
        finally:
            os.sched_setaffinity(0, self._own)

    def close(self) -> None:
        """Give the CPU back."""
        if self._claim is not None:
            os.sched_setaffinity(0, self._before)
            self._claim.close()
            self._claim = None
        self._own = set()
