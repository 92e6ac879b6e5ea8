"""A run in parts: each begins at a `say` step, and lasts until the next one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from lab.run.events import Listener, RunEvent
from lab.scenario.model import Scenario
from lab.scenario.steps import Say


@dataclass(frozen=True, slots=True)
class Line:
    """One event and when it was reported, on the clock of the history."""

    time_ns: int
    event: RunEvent


@dataclass(slots=True)
class Part:
    """The text of a `say` step ("" before the first one), and the events until the next."""

    text: str
    lines: list[Line] = field(default_factory=list)

    @property
    def end_ns(self) -> int:
        """The time of its last event."""
        return max((line.time_ns for line in self.lines), default=0)


class EventLog(Listener):
    """Keeps the events of a run with the time; the recorder stamps by the same clock."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def event(self, event: RunEvent) -> None:
        """Keep one event."""
        self.lines.append(Line(time.monotonic_ns(), event))


def parts_of(scenario: Scenario, lines: list[Line]) -> list[Part]:
    """Cut the events at the `say` steps; those before the first one are a part of their own."""
    texts = {step.text for step in scenario.steps if isinstance(step, Say)}
    found = [Part("")]
    for line in lines:
        if line.event.actor == "lab" and line.event.text in texts:
            found.append(Part(line.event.text))
        found[-1].lines.append(line)
    return [part for part in found if part.lines]
