"""The events that a run reports while it goes on, and the listener that receives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.run.request import Plan
    from lab.run.result import RunResult


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One line of a run's output: the actor (a client, ``lab`` or ``nemesis``), the text, the status."""

    actor: str
    text: str
    status: str
    """``ok``, ``fail``, ``info``, ``skipped``, ``fault`` or ``plain``."""
    at_ns: int | None = None
    """When it was reported: since the cluster was up, as everywhere; None: before that."""


OnEvent = Callable[[RunEvent], None]


class Listener:
    """Receives the plan, the events and the result of a run. Subclasses override what they need."""

    def planned(self, plan: Plan) -> None:
        """Called once, before anything is started."""

    def event(self, event: RunEvent) -> None:
        """Called for each event."""

    def ended(self, result: RunResult) -> None:
        """Called once with the verdict, before anything is drawn."""
