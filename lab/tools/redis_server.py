"""What a program on this machine is: which server, whether it serves, what it reads its clock from."""

from __future__ import annotations

import functools
import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from lab.servers import NEEDED, Server, server_in
from lab.shims import preload
from lab.tools.model import SourceFailed
from lab.tools.process import PROBE_TIMEOUT_S, run

MINIMUM = (6, 2)
_MONOTONIC = re.compile(r"monotonic clock: (.+)")
PRODUCTS = ("redis", "valkey", "redict")
_INTERPRETER = 3
"""The kind of an ELF program header that names the dynamic loader (PT_INTERP)."""


def on_path() -> list[Path]:
    """The servers on PATH, in the order in which they are tried."""
    found = map(shutil.which, ("redis-server", "valkey-server"))
    return [Path(path).absolute() for path in found if path is not None]


def unfit(server: Server) -> str | None:
    """Return why the lab cannot use this server, as the end of a sentence, or None."""
    fits = server.product in PRODUCTS and (server.product != "redis" or server.number >= MINIMUM)
    return None if fits else f"{NEEDED} is needed"


def probe(binary: Path) -> Server:
    """Ask a server's binary what it is. Raises SourceFailed: it does not start, or names no server."""
    try:
        status = binary.stat()
    except OSError as cause:
        raise SourceFailed(f"{binary} cannot be read: {cause.strerror or cause}") from cause
    return _probe(binary, status.st_mtime_ns, status.st_size)


@functools.cache
def _probe(binary: Path, _mtime_ns: int, _size: int) -> Server:
    banner = run([binary, "--version"], timeout_s=PROBE_TIMEOUT_S)
    if (server := server_in(banner)) is None:
        raise SourceFailed(f"{binary} --version names no Redis and no Valkey: {banner[:80]!r}")
    return server


def monotonic_clock(binary: Path, library: Path | None = None) -> str:
    """Return what a server says it reads its monotonic clock from: "POSIX clock_gettime", "X86 TSC @ …".

    Started without anything to listen on, a server says so and ends. Empty if it says nothing. ``library`` is
    preloaded, as in a run.
    """
    try:
        status = binary.stat()
    except OSError:
        return ""
    return _monotonic_clock(binary, library, status.st_mtime_ns, status.st_size)


@functools.cache
def _monotonic_clock(binary: Path, library: Path | None, _mtime_ns: int, _size: int) -> str:
    with tempfile.TemporaryDirectory(prefix="lock-lab-") as directory:
        try:
            ended = subprocess.run(
                [binary, "--port", "0", "--save", "", "--daemonize", "no", "--loglevel", "notice"],
                cwd=directory,
                env=os.environ if library is None else {**os.environ, "LD_PRELOAD": preload(library)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_TIMEOUT_S,
                text=True,
                errors="replace",
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
    found = _MONOTONIC.search(ended.stdout)
    return found[1] if found else ""


def is_static(program: Path) -> bool:
    """Return whether an ELF program names no dynamic loader: then `LD_PRELOAD` has no effect in it.

    False for what is no ELF file, such as a script, and for what cannot be read.
    """
    try:
        with program.open("rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:4] != b"\x7fELF":
                return False
            order, is_64 = "<" if head[5] == 1 else ">", head[4] == 2
            offset, sizes = ("Q", 32), 54
            if not is_64:
                offset, sizes = ("I", 28), 42
            (table,) = struct.unpack_from(order + offset[0], head, offset[1])
            entry_size, entries = struct.unpack_from(order + "HH", head, sizes)
            file.seek(table)
            headers = file.read(entry_size * entries)
        if len(headers) < entry_size * entries:
            return False
        kinds = [struct.unpack_from(order + "I", headers, at * entry_size)[0] for at in range(entries)]
    except (OSError, struct.error):
        return False
    return bool(kinds) and _INTERPRETER not in kinds
