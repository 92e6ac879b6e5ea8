"""Searching for a schedule that breaks a lock, and replaying what was found, as ``lab search`` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.batch.row import Row
from lab.drivers.place import servers_of_trials
from lab.search import confirm
from lab.search.command import Asked, save, search_of, to_json
from lab.search.confirm import versions_differ
from lab.search.find import Ended, Search
from lab.search.space import ANY, DRAWN, Drawn
from lab.substrates import choose, substrate
from lab.substrates.execute import execute
from lab.substrates.interruption import Interrupted

__all__ = [
    "ANY",
    "DRAWN",
    "Asked",
    "Drawn",
    "Interrupted",
    "begin",
    "replay",
    "save",
    "search",
    "servers_of_trials",
    "to_json",
    "versions_differ",
]


@dataclass(frozen=True)
class Searched:
    """How a search ended; ``scenario`` is the file of what was found, None if nothing was."""

    ended: Ended
    scenario: Path | None = None

    @property
    def found(self) -> bool:
        """Whether a schedule was found that breaks the lock."""
        return self.ended.found is not None


def begin(asked: Asked) -> Search:
    """The search that these arguments ask for. Raises ``LabError``: it, or its replay, is not possible."""
    found = search_of(asked)
    if asked.confirm is not None:
        on, _ = choose(asked.confirm, server=asked.drawn.server, where="--confirm")
        if asked.drawn.server:
            substrate(on).servers(asked.drawn.server)
    return found


def replay(
    asked: Asked, scenario: Path, out: Path, on_end: Callable[[Row], None] = lambda row: None
) -> confirm.Confirmation:
    """Run a found scenario on the substrate ``asked.confirm``. Raises ``Interrupted``: a signal ended it."""
    return execute(confirm.confirm(scenario, str(asked.confirm), asked.repeat, out, on_end))


def search(asked: Asked) -> Searched:
    """Search for a schedule that breaks a lock, and keep it. Raises ``LabError``."""
    wanted = begin(asked)
    ended = wanted.run()
    return Searched(ended, None if ended.found is None else save(asked, ended.found).path)
