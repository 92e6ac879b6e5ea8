"""The lock libraries with a driver: which can be used, installing them, checking a driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.drivers import PREFIX, is_driver
from lab.drivers.place import place_for
from lab.drivers.registry import Row, row, rows
from lab.errors import LabError
from lab.tools.model import Progress

if TYPE_CHECKING:
    from lab.drivers.conformance import Report

PLACES = ("local", "docker")
"""The substrates that run drivers."""


class Listed(NamedTuple):
    """One library; ``why_not`` says why it cannot be used now."""

    name: str
    row: Row
    why_not: str | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        same = ("library", "registry", "language", "licence", "what")
        return {
            "name": self.name,
            **{name: getattr(self.row, name) for name in same},
            "version": self.row.version or None,
            "needs": list(self.row.needs),
            "usable": self.why_not is None,
            "why_not": self.why_not,
        }


def listed(on: str = "local") -> list[Listed]:
    """All libraries, and whether they can be used on this substrate. Raises ``LabError``."""
    _check_place(on)
    places = {name: place_for(on, PREFIX + name) for name in rows()}
    return [Listed(name, one, places[name].why_not(PREFIX + name)) for name, one in rows().items()]


def chosen(names: list[str], on: str) -> list[str]:
    """The libraries of these names, or those that can be installed if it is ``["all"]``.

    Raises:
        LabError: there is none of that name.
    """
    _check_place(on)
    if names == ["all"]:
        return [name for name, one in rows().items() if not (one.unavailable or one.missing)]
    for name in names:
        _about(name, on)
    return names


def install(name: str, on: str, progress: Progress) -> str:
    """Install a library; return what was installed, and where. Raises ``LabError``."""
    if on == "docker":
        from lab.drivers import docker_images as drivers

        return f"{_about(name, on)} in {drivers.install(drivers.named(name), progress)}"
    from lab.drivers import environment

    return f"{_about(name, on)} in {environment.install(name, progress)}"


def check(command: str, settings: list[str], progress: Callable[[str], None]) -> Report:
    """Check that a driver conforms to the protocol.

    Raises:
        LabError: it cannot be started, or an option is wrong.
        Interrupted: a signal ended it.
    """
    from lab.drivers.conformance import check_driver
    from lab.locks import lacks_around, refuse_alone
    from lab.substrates.execute import execute

    sentinels = lacks_around(command) is not None
    if sentinels:
        refuse_alone(command, "lab drivers check", "sentinels")
    checking = check_driver(command, dict(map(_option, settings)), progress, sentinels=sentinels)
    return execute(checking)


def _about(name: str, on: str) -> str:
    """What is installed by that name; for a user's own driver only its runtime, in containers."""
    if on == "docker" and is_driver(name):
        return "its runtime"
    return f"{row(name).library} {row(name).version}"


def _check_place(on: str) -> None:
    if on not in PLACES:
        raise LabError(f"no driver runs on {on!r}", where="--on", expected=" or ".join(PLACES))


def _option(setting: str) -> tuple[str, str | int | float | bool]:
    """``name=value``, the value as YAML reads it."""
    import yaml

    name, equals, text = setting.partition("=")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = None
    if not (name and equals and isinstance(value, str | int | float | bool)):
        raise LabError(f"the option {setting!r}", where="--set", expected="name=value, like retry_count=0")
    return name, value
