"""Files of scenarios: those that come with the lab, finding one, reading one."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

from lab.errors import LabError
from lab.paths import scenario_dir
from lab.scenario.problems import choice, printable, shown

SUFFIXES: Final = (".yaml", ".yml")
"""A text with such an end is a path, not a name."""

SIZE_MAX: Final = 1024 * 1024
"""The largest file, in bytes, that is read as a scenario."""


LIBRARIES: Final = "libraries"
"""The subdirectory of scenarios about published libraries, which need an installed driver."""

CONSENSUS: Final = "consensus"
"""The subdirectory of scenarios with locks on etcd, ZooKeeper and Postgres, which must be installed."""

SENTINEL: Final = "sentinel"
"""The subdirectory of scenarios with Redis Sentinel, which not every substrate runs."""

CLUSTER: Final = "cluster"
"""The subdirectory of scenarios with a Redis Cluster, which not every substrate runs."""

DEFECTS: Final = "defects"
"""The subdirectory of scenarios that a correct lock passes and one with a defect does not.

Their control is a correct lock; each is violated with a lock of ``lab.locks.broken``.
"""


def names() -> tuple[str, ...]:
    """The scenarios that need nothing installed, and their controls, sorted by name."""
    return tuple(sorted(path.stem for path in scenario_dir().glob("*.yaml")))


def library_names() -> tuple[str, ...]:
    """The scenarios about published libraries, sorted by name."""
    return tuple(sorted(path.stem for path in (scenario_dir() / LIBRARIES).glob("*.yaml")))


def consensus_names() -> tuple[str, ...]:
    """The scenarios with locks on a service other than Redis, sorted by name."""
    return tuple(sorted(path.stem for path in (scenario_dir() / CONSENSUS).glob("*.yaml")))


def sentinel_names() -> tuple[str, ...]:
    """The scenarios with Redis Sentinel, sorted by name."""
    return tuple(sorted(path.stem for path in (scenario_dir() / SENTINEL).glob("*.yaml")))


def cluster_names() -> tuple[str, ...]:
    """The scenarios with a Redis Cluster, sorted by name."""
    return tuple(sorted(path.stem for path in (scenario_dir() / CLUSTER).glob("*.yaml")))


def defect_names() -> tuple[str, ...]:
    """The scenarios that a correct lock passes and one with a defect does not, sorted by name."""
    return tuple(sorted(path.stem for path in (scenario_dir() / DEFECTS).glob("*.yaml")))


def ordinary_names() -> tuple[str, ...]:
    """All scenarios that need nothing installed, those of `DEFECTS` as well, sorted by name."""
    return tuple(sorted((*names(), *defect_names())))


def every_name() -> tuple[str, ...]:
    """All scenarios that come with the lab."""
    of_servers = (*consensus_names(), *sentinel_names(), *cluster_names())
    return (*names(), *defect_names(), *library_names(), *of_servers)


def shipped(name: str) -> Path:
    """The file of a scenario that comes with the lab; where it would be, if there is none."""
    return _shipped(name) or scenario_dir() / f"{name}.yaml"


def _shipped(name: str) -> Path | None:
    if name != Path(name).name:
        return None
    places = ("", DEFECTS, LIBRARIES, CONSENSUS, SENTINEL, CLUSTER)
    files = (scenario_dir() / within / f"{name}.yaml" for within in places)
    return next((file for file in files if _is_file(file)), None)


def find(path_or_name: str | Path) -> Path:
    """The file that is meant: a path if there is such a file or it looks like one, else a scenario's name.

    A path needn't exist: reading it gives the better error. Raises LabError for an unknown name.
    """
    text = str(path_or_name)
    path = Path(path_or_name)
    if isinstance(path_or_name, Path) or path.suffix in SUFFIXES or "/" in text or _is_file(path):
        return path
    file = _shipped(text)
    if file is not None:
        return file
    known = every_name()
    near = difflib.get_close_matches(text.casefold(), known, n=3)
    asked = f"did you mean {choice(map(shown, near))}? " if near else ""
    raise LabError(
        f"no scenario is called {shown(text)}",
        expected="the name of a scenario, or the path of a .yaml file",
        hint=f"{asked}`lab list` shows all scenarios",
    )


def read(path: Path) -> str:
    """The text of a scenario's file. Raises LabError if it can't be read, is too large or is no text."""
    where = displayed(path)
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        hint = "`lab list` shows the scenarios that come with the lab"
        raise LabError(
            f"the scenario can't be read: {reason}", where=where, expected="a readable YAML file", hint=hint
        ) from error
    if len(content) > SIZE_MAX:
        raise LabError(
            "the file is too large for a scenario", where=where, expected=f"at most {SIZE_MAX} bytes"
        )
    if b"\0" in content:
        raise LabError("this is a binary file", where=where, expected="a YAML file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        seen = f"the byte 0x{content[error.start]:02x} is no UTF-8"
        raise LabError(seen, where=f"{where}:{line}", expected="a YAML file in UTF-8") from error


def displayed(path: Path) -> str:
    """`path` as errors show it: relative to the working directory where it lies below it, on one line."""
    try:
        return printable(str(path.relative_to(Path.cwd()) if path.is_absolute() else path))
    except (ValueError, OSError):
        return printable(str(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long for the file system, or no name at all
        return False
