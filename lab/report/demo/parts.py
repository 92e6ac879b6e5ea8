"""A run in parts: each begins at a `say` step, and lasts until the next one."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.run.events import Listener, RunEvent
from lab.scenario.model import Scenario
from lab.scenario.steps import Say


@dataclass(slots=True)
class Part:
    """The text of a `say` step ("" before the first one), and the events until the next."""

    text: str
    lines: list[RunEvent] = field(default_factory=list)

    @property
    def end_ns(self) -> int:
        """The time of its last event, as in the picture."""
        return max((line.at_ns or 0 for line in self.lines), default=0)


class EventLog(Listener):
    """Keeps the events of a run."""

    def __init__(self) -> None:
        self.lines: list[RunEvent] = []

    def event(self, event: RunEvent) -> None:
        """Keep one event."""
        self.lines.append(event)


def parts_of(scenario: Scenario, lines: list[RunEvent]) -> list[Part]:
    """Cut the events at the `say` steps; those before the first one are a part of their own."""
    texts = {step.text for step in scenario.steps if isinstance(step, Say)}
    found = [Part("")]
    for line in lines:
        if line.actor == "lab" and line.text in texts:
            found.append(Part(line.text))
        found[-1].lines.append(line)
    return [part for part in found if part.lines]
