"""Broken locks, each a few lines away from a real one: what the lab must catch to be worth anything.

``--lock mutant:NAME`` runs one. They are no locks to choose from, and nothing lists them beside real ones.
Each has the finding that it must lead to, and what causes that. Those of ``with_scenario`` have a scenario
that shows it (many of them in ``scenarios/defects``), in which the real lock is clean; ``lab suite
--selftest`` holds them to it. The others are shown step by step in ``tests/known_bad``. A mutant that changes
the store instead of the lock says so by its class's ``store_client``.
"""

from __future__ import annotations

from typing import Final

from lab.errors import LabError, did_you_mean
from lab.locks.broken.mutant import CAUSES, PREFIX, Cause, Mutant
from lab.locks.broken.with_scenario import WITH_SCENARIO
from lab.locks.broken.without_scenario import WITHOUT_SCENARIO

__all__ = ["CAUSES", "MUTANTS", "PREFIX", "SHOWN_BY_SCENARIO", "Cause", "Mutant", "place"]

MUTANTS: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in (*WITH_SCENARIO, *WITHOUT_SCENARIO)}
"""All of them, by name."""
SHOWN_BY_SCENARIO: Final[dict[str, Mutant]] = {name: each for name, each in MUTANTS.items() if each.scenario}
"""Those that a scenario shows."""


def place(lock: str) -> str:
    """Where the class of ``mutant:NAME`` is, as ``package.module:Class``.

    Raises:
        LabError: there is no such mutant.
    """
    name = lock.removeprefix(PREFIX)
    if name not in MUTANTS:
        near = did_you_mean(name, MUTANTS)
        raise LabError(
            f"the broken lock {name!r}",
            where="lock.name",
            expected=f"one of {', '.join(MUTANTS)}",
            hint=f"did you mean {PREFIX + near!r}?" if near else "lab suite --selftest lists them",
        )
    return MUTANTS[name].place
