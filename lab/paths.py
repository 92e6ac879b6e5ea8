"""Directories of the lab: the user's cache, provided tools, run files, and its own scenarios."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lab.errors import LabError, cannot_write

CACHE_VARIABLE = "LOCK_LAB_CACHE"
STATE_VARIABLE = "LOCK_LAB_STATE"


def cache_dir() -> Path:
    """The lab's cache, an absolute path; not created.

    $LOCK_LAB_CACHE, else the user's cache directory as the XDG Base Directory Specification has it.
    Raises LabError if no home directory is known.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(os.path.abspath(os.path.expanduser(chosen)))  # noqa: PTH100, PTH111 - keeps symlinks
    import platformdirs

    try:
        return platformdirs.user_cache_path("lock-lab")
    except RuntimeError as cause:
        raise LabError(
            "no home directory is known, so there is no place for the cache",
            hint=f"set {CACHE_VARIABLE} to a directory that can be written",
        ) from cause


def tools_dir() -> Path:
    """Where provided tools and built shims live; not created."""
    return cache_dir() / "tools"


def state_dir() -> Path:
    """Where run files live (which processes and containers a run owns, for `lab down`); not created.

    $LOCK_LAB_STATE, else below the cache. Labs with different ones never clean up after each other.
    """
    if chosen := os.environ.get(STATE_VARIABLE):
        return Path(os.path.abspath(os.path.expanduser(chosen)))  # noqa: PTH100, PTH111 - as above
    return cache_dir() / "state"


def writable_dir(path: Path) -> Path:
    """Create `path` if need be, prove by writing that it can be written, and return it.

    Raises LabError if it cannot be created or written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        # access(2) is wrong on read-only mounts and for root: only a write proves it.
        with tempfile.TemporaryFile(dir=path) as probe:
            probe.write(b"\0")
    except OSError as cause:
        hint = f"set {CACHE_VARIABLE} to another directory"
        raise cannot_write("the lab's cache", cause, where=str(path), hint=hint) from cause
    return path


def scenario_dir() -> Path:
    """The scenarios that come with the lab: inside the package in a wheel, beside it in a checkout.

    Raises LabError if neither is there (a broken installation).
    """
    return _shipped("scenarios", "a directory of *.yaml files")


def compose_dir() -> Path:
    """The Dockerfiles and the compose file that come with the lab. Raises LabError as `scenario_dir` does."""
    return _shipped("compose", "a directory of Dockerfiles")


def _shipped(name: str, expected: str) -> Path:
    package = Path(__file__).resolve().parent
    candidates = (package / f"_{name}", package.parent / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise LabError(
        f"the {name} that come with the lab are missing",
        where=str(candidates[0]),
        expected=expected,
        hint="reinstall lock-lab",
    )


def writable_file(path: Path | None) -> None:
    """Check that a report can be written, before there is one to write. Raises ``LabError``."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        was_there = path.exists()
        path.touch()
        if not was_there:  # nobody is to take an empty file for a report
            path.unlink()
    except OSError as error:
        error.filename = str(path)  # what was asked for, and not a directory above it
        raise cannot_write("the report", error) from error
