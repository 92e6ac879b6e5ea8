"""The environment of a driver: its library, pinned, in a directory of the user's cache that nobody else uses.

Libraries clash by import name, so each has its own. It is made on demand, in the place where it stays
(virtual environments and node_modules do not like to be moved), and counts once its stamp is written. The
directory's name holds a fingerprint of the pins and of the sources: what has changed is made anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from lab.drivers import PREFIX, words_of
from lab.drivers.registry import HERE, Row, row
from lab.errors import LabError
from lab.paths import cache_dir, writable_dir
from lab.tools import cache
from lab.tools.model import Progress, SourceFailed
from lab.tools.process import TimedOut, build_timeout_s, run

STAMP: Final = "ready"


def directory(name: str) -> Path:
    """Where the environment of a driver is, or would be."""
    entry = row(name)
    owner = entry.shares or name
    return cache_dir() / "drivers" / owner / _fingerprint(row(owner))


def installed(name: str) -> bool:
    """Whether it is made, from the sources and pins of today."""
    return (directory(name) / STAMP).is_file()


def why_not(name: str) -> str | None:
    """Say why a driver cannot be used now, or None if it can."""
    entry = row(name)
    if entry.unavailable:
        return entry.unavailable
    if installed(name):
        return None
    if missing := entry.missing:
        return f"it needs {' and '.join(missing)} on the PATH"
    return f"it is not installed: lab drivers install {name}"


def launch(name: str) -> tuple[str, ...]:
    """How to start an installed driver. Raises LabError, with the command that helps, if it is not there."""
    return _launch(name, cache_dir())


@functools.cache
def _launch(name: str, _: Path) -> tuple[str, ...]:
    """The same; asked again in each trial of a search, and its answer depends on the cache's place only."""
    entry = row(name)
    reason = why_not(name)
    if reason is not None:
        ready = not entry.unavailable and not entry.missing
        raise LabError(
            f"the driver {name!r} cannot be used here: {reason}",
            where=f"lock driver:{name}",
            hint=f"lab drivers install {name}" if ready else "`lab drivers list` shows what can",
        )
    return command_of(entry, str(directory(name)), str(HERE))


def command_of(entry: Row, env: str, here: str) -> tuple[str, ...]:
    """How a driver is started whose environment, and the lab's drivers, lie in these directories."""
    words = tuple(_filled(word, env, here) for word in entry.command)
    laid_over = [f"{variable}={_filled(value, env, here)}" for variable, value in entry.environment.items()]
    return ("env", *laid_over, *words) if laid_over else words


def launch_of(name: str) -> tuple[str, ...]:
    """How the driver is started that a lock's name means. Raises ``LabError``."""
    if name.startswith(PREFIX):
        return launch(name.removeprefix(PREFIX))
    return words_of(name)


def install(name: str, progress: Progress) -> Path:
    """Make the environment of a driver, unless it is there; return its directory.

    Two processes that make the same one do it one after the other, and the second finds what the first made.
    Raises LabError if it cannot be made, with what the failing program said.
    """
    entry = row(name)
    if entry.unavailable:
        raise LabError(f"there is no driver for {name!r} yet: {entry.unavailable}")
    if installed(name):
        return directory(name)
    if missing := entry.missing:
        raise LabError(
            f"{name} needs {' and '.join(missing)}, which this machine lacks",
            expected=f"{', '.join(missing)} on the PATH",
            hint=f"install {'it' if len(missing) == 1 else 'them'} and try again",
        )
    if entry.shares:
        return install(entry.shares, progress)
    with cache.exclusive(f"driver-{name}", progress):
        return directory(name) if installed(name) else _make(name, entry, progress)


def _make(name: str, entry: Row, progress: Progress) -> Path:
    env = directory(name)
    timeout_s = build_timeout_s()
    limit = f"at most {timeout_s:.0f} s for each command"
    progress(f"{name}: installing {entry.library} {entry.version} ({entry.registry}), {limit}")
    shutil.rmtree(env, ignore_errors=True)  # what somebody who was killed left half made
    writable_dir(env)
    try:
        for source in entry.sources:
            _copy(HERE / source, env)
        for command in entry.install:
            run(
                [_filled(word, str(env), str(HERE)) for word in command],
                timeout_s=timeout_s,
                cwd=env,
                env=_quiet(),
            )
        for file in entry.files:
            if not list(env.glob(file)):
                raise SourceFailed(f"{file} is missing afterwards")
        (env / STAMP).write_text(f"{entry.library} {entry.version}\n", encoding="utf-8")
    except (SourceFailed, OSError) as error:
        shutil.rmtree(env, ignore_errors=True)
        raise LabError(
            f"{name} could not be installed: {error}",
            expected=f"{entry.library} {entry.version} from {entry.registry}",
            hint=error.hint if isinstance(error, TimedOut) else "is that registry within reach from here?",
        ) from error
    except BaseException:
        shutil.rmtree(env, ignore_errors=True)
        raise
    return env


def _copy(source: Path, env: Path) -> None:
    if source.is_dir():
        shutil.copytree(
            source, env, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "node_modules")
        )
    else:
        shutil.copy2(source, env)


def _filled(word: str, env: str, here: str) -> str:
    return word.replace("{env}", env).replace("{here}", here).replace("{python}", sys.executable)


def _quiet() -> dict[str, str]:
    """What keeps installers from asking, and from writing elsewhere."""
    return {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PYTHONPATH": "", "CI": "1"}


def _fingerprint(entry: Row) -> str:
    what = (entry.library, entry.version, entry.sources, entry.install, entry.files)
    digest = hashlib.sha256(msgspec.json.encode(what))
    digest.update(f"{sys.version_info[:2]} {cache.platform_key()}".encode())
    for name, content in sources_of(entry):
        digest.update(os.fsencode(name) + b"\0" + content + b"\0")
    return digest.hexdigest()[:16]


def sources_of(entry: Row) -> Iterator[tuple[str, bytes]]:
    """What an environment is made from that comes with the lab: names below its drivers, and contents."""
    for source in entry.sources:
        place = HERE / source
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "node_modules" not in path.parts and path.suffix != ".pyc":
                with contextlib.suppress(OSError):
                    yield str(path.relative_to(HERE)), path.read_bytes()
