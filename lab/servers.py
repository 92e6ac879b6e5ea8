"""Which server a node is, as it says itself, ranges of versions, and how a Redis server is set up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

NEEDED: Final = "Redis 6.2 or later, or Valkey"
SERVERS_OF_REDIS: Final = ("redis", "valkey", "redict", "dragonfly")
"""Products that speak Redis's protocol. All but Redis name their own version beside `redis_version`."""
IMAGE: Final = "image:"
"""What stands before the name of a container image, where a server is asked for."""
_SIMULATED = "simulated "
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_BANNER = re.compile(r"^(\w+) server v=(\d+(?:\.\d+)+)", re.MULTILINE)
RANGE_PATTERN: Final = f"({'|'.join(SERVERS_OF_REDIS)})(?: *(<|>=) *([0-9]+(?:\\.[0-9]+)*))?"
"""How a range of versions is written: `redis < 7.0`, `redis >= 7.0`, `valkey`."""
_RANGE = re.compile(RANGE_PATTERN)
_REFUSED_DIRECTIVE = re.compile(
    r"FATAL CONFIG FILE ERROR(?: \((?P<server>[^)\n]+)\))?.*?"
    r"^>>> (?P<directive>[^\n]*)$(?:\n(?P<why>[^\n]*))?",
    re.DOTALL | re.MULTILINE,
)
_UNKNOWN_DIRECTIVE = re.compile(
    r"Unresolved Configuration\(s\) Detected:.*?# >>> '(?P<directive>[^\n]*)'", re.DOTALL
)
"""How Redis 8 says it: a directive that it does not know may be one of a module."""


class Server(NamedTuple):
    """A product in small letters, its version, whether it is a model of that: `simulated redis@7.0.15`."""

    product: str
    version: str
    simulated: bool = False

    @classmethod
    def parse(cls, text: str) -> Server:
        """Read `redis@7.0.15` or `simulated redis@7.0.15`. Raises ``ValueError``."""
        product, at, version = text.removeprefix(_SIMULATED).partition("@")
        if not (product and at and version):
            raise ValueError(f"a server is PRODUCT@VERSION, not {text!r}")
        return cls(product, version, text.startswith(_SIMULATED))

    @classmethod
    def from_words(cls, words: str) -> Server | None:
        """Read "Redis 7.0.15"; None if it is no product and version."""
        product, space, version = words.partition(" ")
        return cls(product.lower(), version) if space and version else None

    def __str__(self) -> str:
        return f"{_SIMULATED if self.simulated else ''}{self.product}@{self.version}"

    @property
    def words(self) -> str:
        """For people: "simulated Redis 7.0.15"."""
        name = {"etcd": "etcd", "zookeeper": "ZooKeeper"}.get(self.product, self.product.capitalize())
        return f"{_SIMULATED if self.simulated else ''}{name} {self.version}"

    @property
    def number(self) -> tuple[int, ...]:
        """The version's number, for comparisons; empty if it has none."""
        found = _NUMBER.search(self.version)
        return tuple(map(int, found[0].split("."))) if found else ()


DEFAULT: Final = Server("redis", "8.2.3")
"""What nodes are unless another server is asked for, on every substrate, a model of it on ``sim``.

The newest that `lab setup` has from PyPI alone, that runs under the preload libraries and in virtual time,
and that the model was compared with.
"""


HOST_NAMES_SINCE: Final = (7, 0)
"""The version of Redis since which the nodes of a Redis Cluster announce host names."""


def no_host_names(words: str) -> str | None:
    """Say why a server, "Redis 6.2.14", cannot be a node of a Redis Cluster here; None: nothing is known."""
    server = Server.from_words(words)
    if server is None or server.number >= HOST_NAMES_SINCE:
        return None
    return f"{server.words} announces no host names in a Redis Cluster: Redis 7.0 or later does"


@dataclass(frozen=True, slots=True)
class ServerRange:
    """Some versions of a product: `redis < 7.0`, `redis >= 7.0`, or all of them, `valkey`."""

    product: str
    operator: str = ""
    number: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ServerRange:
        """Read a range. Raises ``ValueError``: it is none, or there is no such product."""
        found = _RANGE.fullmatch(text.strip())
        if found is None:
            raise ValueError(f"{text!r} is no range of versions of {' or '.join(SERVERS_OF_REDIS)}")
        number = tuple(map(int, found[3].split("."))) if found[3] else ()
        return cls(found[1], found[2] or "", number)

    def __contains__(self, server: object) -> bool:
        if not isinstance(server, Server) or server.product != self.product:
            return False
        return not self.operator or (server.number < self.number) == (self.operator == "<")


def server_of(info: Mapping[str, str]) -> Server:
    """Return which server this is, by its `INFO server`.

    Valkey names itself in `server_name`; its `redis_version` is only what it is compatible with.
    """
    for product in (info.get("server_name", ""), *SERVERS_OF_REDIS[1:]):
        if product and (version := info.get(f"{product}_version")):
            return Server(product, version)
    return Server("redis", info.get("redis_version", "?"))


def is_image(wanted: str | None) -> bool:
    """Whether the server that is wanted is a container image: ``image:NAME``."""
    return wanted is not None and wanted.startswith(IMAGE)


def server_in(banner: str) -> Server | None:
    """Return which server `redis-server --version` says it is; None if it names none."""
    found = _BANNER.search(banner)
    return Server(found[1].lower(), found[2]) if found else None


class RefusedDirective(NamedTuple):
    """A directive that a server did not start with: what it is called, all of it, and why."""

    server: str
    name: str
    directive: str
    why: str


def refused_directive(log: str) -> RefusedDirective | None:
    """Return which directive a server refused, from its log, or None. Redis before 6.2 lacks some."""
    if (unknown := _UNKNOWN_DIRECTIVE.search(log)) is not None:
        name, _, value = unknown["directive"].partition(" ")
        why = "there is none of this name, without a module that has it"
        return RefusedDirective("this server", name, f'{name} "{value}"' if value else name, why)
    found = _REFUSED_DIRECTIVE.search(log)
    if found is None:
        return None
    directive = found["directive"].strip().strip("'")
    name = directive.partition(" ")[0]
    return RefusedDirective(found["server"] or "this server", name, directive, (found["why"] or "").strip())


class SavePoint(NamedTuple):
    """A snapshot is written when more than ``seconds`` have passed since the last, with so many changes."""

    seconds: int
    changes: int


DEFAULT_SAVE: Final = (SavePoint(3600, 1), SavePoint(300, 100), SavePoint(60, 10000))
"""The save points of a Redis without a configuration, since 6.2."""


def save_points(text: str) -> tuple[SavePoint, ...]:
    """Read save points as redis.conf has them: `3600 1 300 100`. Raises ``ValueError``: they are none."""
    words = text.split()
    if not words or len(words) % 2 or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError(f"{text!r} has no pairs of seconds and changes")
    numbers = list(map(int, words))
    points = tuple(map(SavePoint, numbers[::2], numbers[1::2]))
    if any(point.seconds < 1 or point.changes < 1 for point in points):
        raise ValueError(f"{text!r} has a 0 in it")
    return points


def save_text(points: tuple[SavePoint, ...]) -> str:
    """Save points as redis.conf has them."""
    return " ".join(f"{point.seconds} {point.changes}" for point in points)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server is set up besides: when it writes snapshots, and directives of its configuration.

    ``config`` has names and values as redis.conf has them.
    """

    save: tuple[SavePoint, ...] = ()
    config: tuple[tuple[str, str], ...] = ()


DEFAULT_SETTINGS: Final = ServerSettings()


def replication_links(replicas: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The links between nodes that replicate others (replica → master): near end, far end.

    From each replica to its master, and to the other replicas of that master: one of them may be promoted.
    """
    others = [
        (one, other)
        for one, master in replicas.items()
        for other in replicas
        if other != one and replicas[other] == master
    ]
    return (*replicas.items(), *others)
