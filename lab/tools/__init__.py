"""The external programs the lab runs: found on this machine, or provided into the user's cache.

`find` looks, `require` insists, `provide` also downloads and builds. Nothing else in the lab downloads.
"""

from __future__ import annotations

from pathlib import Path

from lab.errors import LabError, did_you_mean
from lab.tools import cache
from lab.tools.model import Found, Missing, Origin, Progress, SourceFailed, Tool
from lab.tools.named_servers import NAMES as SERVERS
from lab.tools.named_servers import DefaultServer, is_named, named
from lab.tools.redis_server import monotonic_clock
from lab.tools.services import ETCD, POSTGRES, ZOOKEEPER
from lab.tools.shims import Shim
from lab.tools.toxiproxy_server import ToxiproxyServer

__all__ = [
    "NAMES",
    "SERVERS",
    "SERVICES",
    "Found",
    "Missing",
    "Origin",
    "Progress",
    "find",
    "monotonic_clock",
    "provide",
    "require",
]

_SHIMS = tuple(Shim(stem) for stem in ("clock", "sync", "names", "vtime", "conductor"))
_BUILT: tuple[Tool, ...] = (DefaultServer(), ToxiproxyServer(), *_SHIMS)
_TOOLS: dict[str, Tool] = {tool.name: tool for tool in _BUILT}
NAMES: tuple[str, ...] = tuple(_TOOLS)
"""redis-server, toxiproxy-server, the shims (clock-shim …) and the conductor: what `provide` provides."""
SERVICES: tuple[str, ...] = (ETCD.name, ZOOKEEPER.name, POSTGRES.name)
"""Servers that are used where they are installed."""
_TOOLS |= {tool.name: tool for tool in (ETCD, ZOOKEEPER, POSTGRES)}


def find(tool: str) -> Found | Missing:
    """Look `tool` up: on PATH, then in the cache. Neither uses the network nor writes.

    Besides those in `NAMES` it can be a server: `redis@8.2`, or the path of one. Raises LabError for others.
    """
    return _tool(tool).find()


def require(tool: str) -> Path:
    """The path of `tool`. Raises LabError, with the command that helps, if it cannot be found."""
    found = find(tool)
    if isinstance(found, Missing):
        expected = "a server of Redis or Valkey" if "/" in tool else f"{tool}, to run here"
        raise LabError(found.reason, expected=expected, hint=found.hint)
    return found.path


def provide(tool: str, progress: Progress) -> Found:
    """Find `tool`, or provide it into the cache from the first source that works.

    `progress` is told in short lines what takes time. Two processes that provide the same tool do it one
    after the other, and the second finds what the first made. Raises LabError that lists every source tried
    and why it failed, or that the cache cannot be written.
    """
    entry = _tool(tool)
    found = entry.find()
    if isinstance(found, Found) and not found.stands_in:
        return found
    with cache.exclusive(entry.lock_name, progress):
        again = entry.find()
        if isinstance(again, Found) and not again.stands_in:
            return again
        return _provide(entry, again, progress)


def _provide(entry: Tool, found: Found | Missing, progress: Progress) -> Found:
    failures: list[str] = []
    for source in entry.sources():
        try:
            return source.provide(progress)
        except SourceFailed as failure:
            failures.append(f"{source.name}: {failure}")
            progress(f"{entry.name}: {source.name} failed, {failure}")
        except OSError as cause:  # a full disk, a cache that vanished
            failures.append(f"{source.name}: {cause}")
            progress(f"{entry.name}: {source.name} failed, {cause}")
    if not failures and isinstance(found, Missing):
        raise LabError(found.reason, hint=found.hint)
    raise LabError(
        f"{entry.name} could not be provided; what was tried:\n"
        + "\n".join(f"- {line}" for line in failures),
        expected="one source that works",
        hint=entry.remedy,
    )


def _tool(name: str) -> Tool:
    if name in _TOOLS:
        return _TOOLS[name]
    if is_named(name):
        return named(name)
    near = did_you_mean(name, [*_TOOLS])
    raise LabError(
        f"the lab knows no tool called {name!r}",
        expected=", ".join(_TOOLS),
        hint=f"did you mean {near}?" if near else None,
    )
