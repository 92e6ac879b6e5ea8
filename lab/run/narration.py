"""What a run says while it goes on, line by line, and the listener that it says it to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.run.request import Plan
    from lab.run.result import RunResult


@dataclass(frozen=True, slots=True)
class Narrated:
    """One line of the narration: who acts (``lab`` and ``nemesis`` included), what happened, how it went."""

    actor: str
    text: str
    status: str
    """``ok``, ``fail``, ``info``, ``skipped``, ``fault`` or ``plain``."""


Narrator = Callable[[Narrated], None]


class Listener:
    """Hears what a run says. This one ignores it; others override what they need."""

    def planned(self, plan: Plan) -> None:
        """Called once, before anything is started."""

    def told(self, told: Narrated) -> None:
        """Called for each line of the narration."""

    def ended(self, result: RunResult) -> None:
        """Called once with the verdict, before anything is drawn."""
