"""Which server answers: Redis, or one that speaks its protocol, as it says itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

NEEDED = "Redis 6.2 or later, or Valkey"
_NAMES = ("valkey", "dragonfly")
"""Products that name their own version beside the version of Redis that they are compatible with."""
_REFUSED_DIRECTIVE = re.compile(
    r"FATAL CONFIG FILE ERROR(?: \((?P<server>[^)\n]+)\))?.*?^>>> (?P<directive>[^\n]*)$",
    re.DOTALL | re.MULTILINE,
)


def product_of(server: Mapping[str, str]) -> tuple[str, str]:
    """Return the program's name and its version, from its ``INFO server``: ("valkey-server", "8.1.1").

    Valkey names itself in ``server_name``; its ``redis_version`` is only what it is compatible with.
    """
    for name in (server.get("server_name", ""), *_NAMES):
        if version := server.get(f"{name}_version") if name else None:
            return f"{name}-server", version
    return "redis-server", server.get("redis_version", "?")


def refused_directive(log: str) -> str | None:
    """Say which setting a server did not know, from its log, or None: servers before Redis 6.2 lack some."""
    found = _REFUSED_DIRECTIVE.search(log)
    if found is None:
        return None
    return f"{found['server'] or 'this server'} does not know the setting {found['directive'].strip()}"
