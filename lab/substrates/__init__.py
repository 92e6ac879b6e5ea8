"""Where a scenario runs. A substrate knows processes, links and clocks, but no lock and no scenario.

This page is the list of them: what they are called, whether one can run here, and which one `auto` means.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from lab.addresses import prefix_of
from lab.errors import LabError, did_you_mean
from lab.servers import DEFAULT_SETTINGS, ServerSettings

if TYPE_CHECKING:
    from lab.substrates.base import Capability, Service, Substrate

AUTO = "auto"
SUBSTRATES = ("docker", "local", "sim", "virtual")
"""Those that start servers of their own, in the order in which `auto` tries them.

It never comes to the last, which is asked for.
"""
ENDPOINTS = "endpoints"
"""The one whose servers exist already."""


def substrate(name: str) -> Substrate:
    """Return the substrate of that name, which is one of ``SUBSTRATES``, or ``ENDPOINTS``."""
    found: Substrate = import_module(f"lab.substrates.{name}").SUBSTRATE
    return found


def is_simulated(name: str) -> bool:
    """Whether a run on it takes place in virtual time, in a world that ``simulate`` makes."""
    return name in ("sim", "virtual")


def key_prefix(name: str, run_id: str) -> str:
    """How every key of a run must begin on this substrate; "" if the servers are the lab's own."""
    return prefix_of(run_id) if name == ENDPOINTS else ""


def choose(
    on: str,
    needed: frozenset[Capability] = frozenset(),
    *,
    service: Service = "redis",
    refuses: Callable[[str], str | None] | None = None,
    server: str | None = None,
    settings: ServerSettings = DEFAULT_SETTINGS,
    where: str = "--on",
) -> tuple[str, str]:
    """Return the substrate to run on, and why it was chosen; one that can do what is needed.

    ``service`` is what kind of nodes there are to be; ``refuses`` says why a substrate, given by its name,
    cannot run the lock now; ``server`` is what Redis nodes are to be, and ``settings`` how they are set up.
    `auto` passes over where these are not installed. ``where`` it was named, for an error.

    Raises:
        LabError: there is none of that name, or it cannot run on this machine.
    """
    from lab.substrates.refusals import lacking

    wanted = (AUTO, *SUBSTRATES, ENDPOINTS)
    if on not in wanted:
        near = did_you_mean(on, wanted)
        raise LabError(
            f"the substrate {on!r}",
            where=where,
            expected=" or ".join(wanted),
            hint=f"did you mean {near!r}?" if near else "lab doctor shows what this machine allows",
        )
    reasons: list[str] = []
    for name in SUBSTRATES if on == AUTO else (on,):
        reason = substrate(name).missing_reason()
        if reason is None and (missing := needed - substrate(name).capabilities):
            reason = lacking(name, missing)
        if reason is None:
            reason = substrate(name).lacks(service, needed, server, settings)
        # Whoever asks for a substrate is told by the run what the lock lacks there.
        if reason is None and on == AUTO and name == "docker":
            reason = refuses and refuses(name)
        if reason is None:
            return name, "asked for" if on == name else "; ".join((substrate(name).what, *reasons))
        reasons.append(reason)
    raise LabError("; ".join(reasons), where=where, hint="lab doctor shows what this machine allows")
