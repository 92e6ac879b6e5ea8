"""Items, and the plan that consists of them."""

from __future__ import annotations

import shlex

import msgspec

from lab.drivers import PREFIX
from lab.drivers.registry import row, rows
from lab.substrates import AUTO


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One scenario with one lock on one substrate, run ``repeat`` times, each with another seed.

    ``scenario`` is its name or file, ``title`` its title, ``control_of`` the scenario whose control it is.
    ``settings`` are overrides as for ``--set``, including the expectation and the lock. ``label``
    distinguishes its lock from the same one in another case. ``own``: it is run unchanged, with its own lock.
    ``why_not`` says why it cannot be run.
    """

    id: str
    scenario: str
    lock: str
    on: str
    settings: tuple[str, ...] = ()
    repeat: int = 1
    label: str = ""
    own: bool = False
    title: str = ""
    control_of: str = ""
    why_not: str = ""

    @property
    def lock_label(self) -> str:
        """The lock, with its label behind it."""
        return labelled(self.lock, self.label)

    @property
    def name(self) -> str:
        """The name of the scenario, without its directory."""
        return self.id.partition("/")[0]

    def command(self, seed: int | None = None) -> str:
        """The command that runs it, with this seed."""
        drawn = [] if seed is None else ["--seed", str(seed)]
        on = [] if self.on == AUTO else ["--on", self.on]
        settings = [word for setting in self.settings for word in ("--set", setting)]
        return shlex.join(["lab", "run", self.scenario, *drawn, *on, *settings])


class Skipped(msgspec.Struct, frozen=True):
    """A lock that is left out of a plan, and why."""

    lock: str
    reason: str


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The items to run.

    ``survey``: nothing is expected, except of a scenario with its own lock. ``by_task``: not all of its items
    are runs of scenarios, so that it cannot be resumed. ``servers``: those on each of which all of it is run,
    if there are several.
    """

    name: str
    title: str
    items: tuple[Item, ...]
    skipped: tuple[Skipped, ...] = ()
    survey: bool = False
    by_task: bool = False
    servers: tuple[str, ...] = ()


def labelled(lock: str, label: str) -> str:
    """A lock's name, with the label that distinguishes it from the same lock with other settings."""
    return f"{lock} {label}" if label else lock


def library_of(lock: str) -> str:
    """The library behind a lock, its pinned version and registry; empty for any other lock."""
    name = lock.removeprefix(PREFIX)
    if not lock.startswith(PREFIX) or name not in rows():
        return ""
    known = row(name)
    return " ".join(word for word in (known.library, known.version, f"({known.registry})") if word)
