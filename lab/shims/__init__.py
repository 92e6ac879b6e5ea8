"""The LD_PRELOAD shims seen from Python: their variables, the clock record, and what was synced.

The C side is clock.c, sync.c and names.c in this directory; `lab.tools` builds them.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

CLOCK_VARIABLE = "LOCK_LAB_CLOCK"
"""Names the clock file that the clock shim maps."""

SYNC_VARIABLE = "LOCK_LAB_SYNC_DIR"
"""Names the directory into which the sync shim records; it must exist."""

STALL_VARIABLE = "LOCK_LAB_STALL"
"""Names the file by which the sync shim lets a disk stall; it must exist."""

NAMES_VARIABLE = "LOCK_LAB_NAMES"
"""Names the file of names and addresses that the names shim reads."""

MAX_OFFSET_NS = 50 * 365 * 86_400 * 10**9
"""Bound of an offset, fifty years: together with real time and drift it stays within 64 bits."""

MAX_RATE_PPB = 10**9
"""Bound of a rate, in parts per billion: -MAX stops the clock, +MAX makes it run twice as fast."""

_RECORD = struct.Struct("=Qqqq")  # seq, offset_ns, rate_ppb, anchor_ns, as in clock.c
_SEQ = struct.Struct("=Q")
_STALL = struct.Struct("=qq")  # stalls, waiting, as in sync.c
_WORD = struct.Struct("=q")
_READ_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class ClockState:
    """What a clock file says: now = real + offset_ns + (monotonic - anchor_ns) · rate_ppb / 1e9."""

    offset_ns: int
    rate_ppb: int
    anchor_ns: int

    def shift_ns(self, monotonic_ns: int) -> int:
        """How far the shifted clock is ahead of the real one at `monotonic_ns` of CLOCK_MONOTONIC."""
        drift = abs(monotonic_ns - self.anchor_ns) * abs(self.rate_ppb) // 10**9
        return self.offset_ns + (
            drift if (monotonic_ns >= self.anchor_ns) == (self.rate_ppb >= 0) else -drift
        )


class ClockFile:
    """The record that sets the wall clock of every process started with it. One writer at a time.

    It is written in place, so that the change shows at once in processes that have it mapped; a rename would
    leave them with the old file. Writes are pwrite calls rather than stores into a mapping: Python has no
    memory barrier to order stores with, and on ARM a reader could see them in another order, whereas the
    kernel's inode lock orders one pwrite before the next.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        """Make the file, its clock equal to the real one. An existing file is reset, never truncated.

        Raises OSError.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(descriptor).st_size < _RECORD.size:
                os.ftruncate(descriptor, _RECORD.size)
        finally:
            os.close(descriptor)
        self.set(offset_ns=0, rate_ppb=0, anchor_ns=0)

    def set(self, offset_ns: int, rate_ppb: int = 0, anchor_ns: int | None = None) -> ClockState:
        """Set the shift of the clock from now on, and return what was written.

        `offset_ns` is the shift at the anchor; `rate_ppb` how much faster than real the clock runs;
        `anchor_ns` the CLOCK_MONOTONIC time from which the rate counts (default: now). Repairs a record
        that a dead writer left half written. Raises ValueError beyond MAX_OFFSET_NS or MAX_RATE_PPB, OSError
        if the file is gone.
        """
        if abs(offset_ns) > MAX_OFFSET_NS:
            raise ValueError(f"offset_ns is {offset_ns}, beyond ±{MAX_OFFSET_NS}")
        if abs(rate_ppb) > MAX_RATE_PPB:
            raise ValueError(f"rate_ppb is {rate_ppb}, beyond ±{MAX_RATE_PPB}")
        state = ClockState(offset_ns, rate_ppb, time.monotonic_ns() if anchor_ns is None else anchor_ns)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            (seq,) = _SEQ.unpack(os.pread(descriptor, _SEQ.size, 0))
            writing = seq | 1
            os.pwrite(descriptor, _SEQ.pack(writing), 0)
            record = _RECORD.pack(writing, state.offset_ns, state.rate_ppb, state.anchor_ns)
            os.pwrite(descriptor, record[_SEQ.size :], _SEQ.size)
            os.pwrite(descriptor, _SEQ.pack((writing + 1) % 2**64), 0)
        finally:
            os.close(descriptor)
        return state

    def read(self) -> ClockState:
        """What the file says now. Raises OSError if it is gone, ValueError if it is short or half written."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for _ in range(_READ_ATTEMPTS):
                record = os.pread(descriptor, _RECORD.size, 0)
                if len(record) < _RECORD.size:
                    raise ValueError(f"{self.path} is not a clock file: {len(record)} bytes")
                seq, offset_ns, rate_ppb, anchor_ns = _RECORD.unpack(record)
                if seq % 2 == 0 and os.pread(descriptor, _SEQ.size, 0) == record[: _SEQ.size]:
                    return ClockState(offset_ns, rate_ppb, anchor_ns)
        finally:
            os.close(descriptor)
        raise ValueError(f"{self.path} was left half written")


class StallFile:
    """Whether the disk of the processes started with it stalls, and how many of their syncs wait for it.

    Written in place, as a ``ClockFile``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def reset(self) -> None:
        """Let the disk work, with no sync waiting; makes the file. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, _STALL.pack(0, 0), 0)
        finally:
            os.close(descriptor)

    def set(self, stalls: bool) -> None:
        """Let the disk stall, or go on. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, _WORD.pack(stalls), 0)
        finally:
            os.close(descriptor)

    def waiting(self) -> int:
        """How many syncs wait for the disk now. Raises OSError."""
        return int(_STALL.unpack(self.path.read_bytes())[1])


def preload(*shims: Path) -> str:
    """The value of LD_PRELOAD that adds `shims` to what this process's environment preloads already."""
    return ":".join([*map(str, shims), *os.environ.get("LD_PRELOAD", "").replace(":", " ").split()])


def synced_bytes(sync_dir: Path, file: Path) -> int:
    """How many bytes of `file` would survive a power cut, by the sync shim's record in `sync_dir`.

    0 without a record. Never more than the file has: an inode number may have had another file before.
    Raises OSError if `file` is gone.
    """
    status = file.stat()
    try:
        record = (sync_dir / str(status.st_ino)).read_bytes()
    except FileNotFoundError:
        return 0
    return min(status.st_size, int(struct.unpack("=q", record)[0])) if len(record) == 8 else 0
