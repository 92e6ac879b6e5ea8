"""All commands of Redis and Valkey and the words of their syntax, each with the version that added it.

The table says what exists, not what is simulated. With it refusals can be told apart: a command that no
server has is the client's mistake; one that this version lacks needs another server; one that is only not
simulated needs a real one. The last two say nothing about the lock that was refused.

Source: COMMAND DOCS of the servers that the table names; ``python -m tests.sim.record_commands`` renews it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.servers import Server

Version = tuple[int, int, int]
TABLE: Final = Path(__file__).with_name("known_commands.json")
_CONNECTION: Final = "connection"
"""The group of commands with which libraries open a connection."""


_FORKS: Final = {"redict": Server("redis", "7.2.4")}
"""Products that have what a version of another one has."""


def parse_version(text: str) -> Version:
    """Read ``8.4`` or ``8.4.0``, which are the same. Raises ``ValueError``."""
    major, minor, patch = (*map(int, text.split(".")), 0, 0)[:3]
    return major, minor, patch


@functools.cache
def version_of(server: Server) -> Version:
    """Return a server's version as numbers that can be compared; zeros where it has none."""
    major, minor, patch = (*server.number, 0, 0, 0)[:3]
    return major, minor, patch


def since(server: Server, *, redis: tuple[int, int], valkey: tuple[int, int] = (0, 0)) -> bool:
    """Whether a server is this version of its product or a later one; every Valkey unless one is named."""
    return version_of(server) >= (valkey if server.product == "valkey" else redis)


def in_words(product: str, version: Version) -> str:
    """Name the versions from this one on, for a sentence: ``Redis 8.4``."""
    major, minor, patch = version
    return Server(product, f"{major}.{minor}" + (f".{patch}" if patch else "")).words


@dataclass(frozen=True, slots=True)
class Use:
    """Something that a request uses: a command, or a command with one of its options.

    ``since`` has the products that know it. ``opens`` says that it belongs to the opening of a connection:
    libraries try such a command on any server, and go on without it.
    """

    name: str
    since: Mapping[str, Version]
    opens: bool = False

    def is_in(self, server: Server) -> bool:
        """Whether this server has it; a product that the table does not know is taken to."""
        server = _FORKS.get(server.product, server)
        if server.product not in _table():
            return True
        since = self.since.get(server.product)
        return since is not None and since <= version_of(server)

    @property
    def needs(self) -> str:
        """The servers that have it, for a sentence: ``Redis 8.4 or Valkey 9.1``."""
        return " or ".join(in_words(product, since) for product, since in sorted(self.since.items()))


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a request used and that the model of ``server`` does not do.

    ``simulated_as`` is a server whose model does it, ``redis@8.4``; empty where real servers alone do.
    ``in_real_time`` says that these do it in real time alone.
    """

    use: Use
    server: Server
    simulated_as: str = ""
    in_real_time: bool = False

    @property
    def sentence(self) -> str:
        """What was used, as the end of a sentence that begins with who did."""
        if self.use.since and not self.use.is_in(self.server):
            nodes = f"the simulated nodes are {self.server.words}"
            return f"uses {self.use.name}, which needs {self.use.needs}; {nodes}"
        return f"uses {self.use.name}, which simulated nodes lack"

    def remedy(self, command: str = "") -> str:
        """What to do; ``command`` runs the same, where it is told on which substrate."""
        on_real = f"{command} --on {'local' if self.in_real_time else 'virtual'}".strip()
        if self.simulated_as:
            return f"try --server {self.simulated_as}"
        if self.use.since and not self.use.is_in(self.server):
            product, (major, minor, _) = next(iter(sorted(self.use.since.items())))
            return f"try {on_real} --server {product}@{major}.{minor}, or a later one"
        return f"try {on_real}"


@dataclass(frozen=True, slots=True)
class _Row:
    since: Version
    group: str
    before_options: int = 0
    options: Mapping[str, Version] = field(default_factory=dict)


@functools.cache
def _table() -> dict[str, dict[str, _Row]]:
    read: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return {
        product: {name: _row(*row) for name, row in about["commands"].items()}
        for product, about in read.items()
    }


def _row(since: str, group: str, before_options: int = 0, options: Mapping[str, str] | None = None) -> _Row:
    versions = {word: parse_version(each) for word, each in (options or {}).items()}
    return _Row(parse_version(since), group, before_options, versions)


@functools.cache
def command_use(name: str) -> Use | None:
    """Return what a command is, by its name in lower case (``set``, ``client|kill``); None: no server has it.

    A name with a dot is a command of a module (``json.set``), which a server may have loaded.
    """
    rows = {product: table[name] for product, table in _table().items() if name in table}
    if not rows:
        return Use(name.upper(), {}) if "." in name and "|" not in name else None
    opens = any(row.group == _CONNECTION for row in rows.values())
    return Use(name.upper().replace("|", " "), {product: row.since for product, row in rows.items()}, opens)


def use_of(words: Sequence[bytes]) -> Use | None:
    """Return which command, or subcommand, a request asks for; None if no server has it."""
    name = words[0].decode(errors="replace").lower()
    if len(words) > 1 and name in _with_subcommands():
        return command_use(f"{name}|{words[1].decode(errors='replace').lower()}")
    return command_use(name)


@functools.cache
def _with_subcommands() -> frozenset[str]:
    """The commands that have subcommands; an unknown one of these is none."""
    return frozenset(name.partition("|")[0] for table in _table().values() for name in table if "|" in name)


def options_used(words: Sequence[bytes]) -> Iterator[tuple[str, Use]]:
    """Yield the words of a request that may be options of its command, with what they are.

    A value that is spelt like an option is taken for one: ask only about requests that were refused.
    """
    use = use_of(words)
    if use is None or not use.since:
        return
    name = use.name.lower().replace(" ", "|")
    rows = {product: _table()[product][name] for product in use.since}
    first = 1 + min(row.before_options for row in rows.values())
    for word in words[first:]:
        option = word.decode(errors="replace").upper()
        since = {product: row.options[option] for product, row in rows.items() if option in row.options}
        if since:
            yield option, Use(f"{use.name} … {option}", since)


def option_versions(name: str, server: Server) -> frozenset[str]:
    """Return the options of a command that this server has."""
    row = _table()[server.product].get(name)
    if row is None:
        return frozenset()
    return frozenset(option for option, since in row.options.items() if since <= version_of(server))
