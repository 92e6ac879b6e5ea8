"""Servers that the lab runs if they are installed, and never provides: etcd, ZooKeeper, Postgres."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.tools.model import Found, Missing, Source, SourceFailed
from lab.tools.process import PROBE_TIMEOUT_S, run

_VERSION = re.compile(r"\d+(?:\.\d+)+")
_POSTGRES_PLACES = ("/usr/lib/postgresql/*/bin/postgres", "/usr/local/pgsql/bin/postgres")
_ZOOKEEPER_JARS = ("/usr/share/java/zookeeper-[0-9]*.jar", "/usr/share/zookeeper/lib/zookeeper-[0-9]*.jar")


@dataclass(frozen=True, slots=True)
class Installed:
    """A server that comes from the system's package manager; ``look`` finds its file and its version."""

    name: str
    package: str
    look: Callable[[], tuple[Path, str] | None]
    needs: tuple[str, ...] = ()
    """Programs that must be on PATH as well."""

    @property
    def lock_name(self) -> str:
        """Its own name: nobody provides it."""
        return self.name

    @property
    def remedy(self) -> str:
        """The command that installs it on Debian and its like."""
        return f"apt-get install --no-install-recommends {self.package}"

    def find(self) -> Found | Missing:
        """PATH and the places where packages put it."""
        lacking = [program for program in self.needs if shutil.which(program) is None]
        if lacking:
            return Missing(f"{self.name} needs {', '.join(lacking)}, not on PATH", self.remedy)
        try:
            found = self.look()
        except SourceFailed as failure:
            return Missing(f"{self.name} does not serve: {failure}", self.remedy)
        if found is None:
            return Missing(f"{self.name} is not installed", self.remedy)
        path, version = found
        return Found(path, version, "PATH" if shutil.which(path.name) else "system")

    def sources(self) -> tuple[Source, ...]:
        """None."""
        return ()


def _etcd() -> tuple[Path, str] | None:
    which = shutil.which("etcd")
    return None if which is None else (Path(which).absolute(), _said([which, "--version"]))


def _postgres() -> tuple[Path, str] | None:
    which = shutil.which("postgres")
    at = [Path(which).resolve()] if which else _found(_POSTGRES_PLACES)
    at = [path for path in at if (path.parent / "initdb").exists()]
    return (at[-1], _said([str(at[-1]), "--version"])) if at else None


def _zookeeper() -> tuple[Path, str] | None:
    """The jar, of the system's package or beside a `zkServer.sh` on PATH; its name tells the version."""
    places = _found(_ZOOKEEPER_JARS)
    if script := shutil.which("zkServer.sh"):
        places += sorted(Path(script).resolve().parents[1].glob("lib/zookeeper-[0-9]*.jar"))
    for jar in places:
        if version := _VERSION.search(jar.stem):
            return jar, version.group()
    return None


def _found(places: tuple[str, ...]) -> list[Path]:
    return [path for place in places for path in sorted(Path("/").glob(place.removeprefix("/")))]


def _said(command: list[str]) -> str:
    banner = run(command, timeout_s=PROBE_TIMEOUT_S)
    if (version := _VERSION.search(banner)) is None:
        raise SourceFailed(f"{' '.join(command)} names no version: {banner[:80]!r}")
    return version.group()


ETCD = Installed("etcd", "etcd-server", _etcd)
ZOOKEEPER = Installed("zookeeper", "zookeeper", _zookeeper, needs=("java",))
POSTGRES = Installed("postgres", "postgresql", _postgres)
