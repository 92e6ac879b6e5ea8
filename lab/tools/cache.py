"""The cache of provided tools: published whole or not at all, checked when read, one provider at a time.

A published tool is a directory `tools/<name>/<key>/` with the files and a `manifest.json` (version, origin,
size and SHA-256 of each file). It appears by one rename, so a reader never sees half a tool.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.paths import CACHE_VARIABLE, tools_dir, writable_dir
from lab.tools.model import Progress

MANIFEST = "manifest.json"
LOCK_TIMEOUT_S = 1800.0
_LOCK_POLL_S = 0.1
_STALE_SCRATCH_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Cached:
    """A tool in the cache whose files are as they were published."""

    directory: Path
    version: str


def platform_key() -> str:
    """The machine as the cache names it, e.g. "linux-x86_64-glibc": a home may be shared by several."""
    libc = platform.libc_ver()[0] or "other"
    system = platform.system().lower()
    return f"{system}-{platform.machine().lower()}" + (f"-{libc}" if system == "linux" else "")


def directory(name: str, key: str) -> Path:
    """Where the tool `name`/`key` is kept, or would be."""
    return tools_dir() / name / key


def lookup(name: str, key: str) -> Cached | None:
    """The tool published as `name`/`key`, or None if it is not there or not as it was published."""
    there = directory(name, key)
    try:
        manifest = json.loads((there / MANIFEST).read_bytes())
        intact = bool(manifest["files"]) and all(
            _fingerprint(there / file) == (entry["size_bytes"], entry["sha256"])
            for file, entry in manifest["files"].items()
        )
        version = str(manifest["version"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Cached(there, version) if intact else None


def publish(name: str, key: str, files: dict[str, Path], *, version: str, origin: str) -> Path:
    """Copy `files` (name in the cache → present path) as `name`/`key`, in one step; returns that directory.

    Must be called under `exclusive(...)`. What stood there before is replaced. Raises LabError if the cache
    cannot be written.
    """
    target = directory(name, key)
    with scratch(name) as staging:
        fresh = staging / "publish"
        fresh.mkdir()
        entries: dict[str, dict[str, int | str]] = {}
        for file, origin_path in files.items():
            shutil.copyfile(origin_path, fresh / file)
            (fresh / file).chmod(0o755)
            size_bytes, sha256 = _fingerprint(fresh / file)
            entries[file] = {"size_bytes": size_bytes, "sha256": sha256}
        manifest = {"version": version, "origin": origin, "files": entries}
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            target.rename(staging / "replaced")
        fresh.rename(target)
    return target


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    """A fresh directory on the cache's own file system (so that renames are atomic), removed at the end.

    Left-overs of providers that were killed are removed after a day. Raises LabError if the cache cannot be
    written.
    """
    base = writable_dir(tools_dir())
    for old in base.glob(".tmp-*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > _STALE_SCRATCH_S:
                shutil.rmtree(old, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=f".tmp-{name}-", dir=base))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def exclusive(name: str, progress: Progress, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the advisory lock (flock) that lets one process at a time provide `name`.

    The kernel frees it when its holder dies. Raises LabError if the cache cannot be written or another
    process holds the lock for longer than `timeout_s`.
    """
    path = writable_dir(tools_dir()) / f".{name}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as cause:  # made by another user
        raise _unusable(path, cause) from cause
    try:
        _wait_for(descriptor, path, name, progress, timeout_s)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path, name: str, progress: Progress, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    is_reported = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise LabError(
                    f"another process has been providing {name} for more than {timeout_s:g} s",
                    where=str(path),
                    hint="wait for it, or end it, then try again",
                ) from None
        except OSError as cause:  # a file system without locks
            raise _unusable(path, cause) from cause
        if not is_reported:
            progress(f"another process is providing {name}: waiting for it")
            is_reported = True
        time.sleep(_LOCK_POLL_S)


def _unusable(path: Path, cause: OSError) -> LabError:
    return LabError(
        f"the cache's lock file cannot be used: {cause.strerror or cause}",
        where=str(path),
        hint=f"set {CACHE_VARIABLE} to a directory of your own on a local disk",
    )


def _fingerprint(path: Path) -> tuple[int, str]:
    """Size in bytes and SHA-256 (hex) of a file. Raises OSError."""
    status = path.stat()
    return _read(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@functools.lru_cache(256)
def _read(path: Path, *_as_it_was: int) -> tuple[int, str]:
    # A suite looks at a server of 24 MB before each of its runs.
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return file.tell(), digest
