"""Hashes that do not depend on addresses, for objects that libraries keep in sets.

redis-py's clients and connections stand in sets, in the libraries and in what uses them; the order in which
they are gone through must be the same in every process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from lab.substrates.sim.host import running_host

CLASSES: Final = (
    ("redis.asyncio.client", "Redis"),
    ("redis.asyncio.connection", "AbstractConnection"),
    ("redis.asyncio.connection", "ConnectionPool"),
)
NUMBER: Final = "_number_in_the_simulation"


def numbered_hashes() -> list[Callable[[], None]]:
    """Give the classes such hashes, as far as they are imported; return what takes each away again."""
    undo: list[Callable[[], None]] = []
    for module, name in CLASSES:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and "__hash__" not in vars(kind):
            kind.__hash__ = _number  # type: ignore[method-assign,assignment]
            undo.append(lambda kind=kind: delattr(kind, "__hash__"))  # type: ignore[misc]
    return undo


def _number(self: Any) -> int:
    """The object's number, given when it is first asked for; outside a simulation what it always was."""
    number: int | None = vars(self).get(NUMBER)
    if number is None:
        host = running_host()
        if host is None:
            return object.__hash__(self)
        host.world.numbers += 1
        number = vars(self)[NUMBER] = host.world.numbers
    return number
