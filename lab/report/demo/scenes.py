"""A run as scenes: each begins where the story says something, and lasts until it speaks again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from lab.run.narration import Listener, Narrated
from lab.scenario.model import Scenario
from lab.scenario.steps import Say


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the narration and when it was told, on the clock of the history."""

    time_ns: int
    told: Narrated


@dataclass(slots=True)
class Scene:
    """What was said at its beginning ("" before the first word), and what happened until the next."""

    said: str
    lines: list[Line] = field(default_factory=list)

    @property
    def end_ns(self) -> int:
        """When its last line was told."""
        return max((line.time_ns for line in self.lines), default=0)


class Narration(Listener):
    """Keeps what a run tells, with the time; the recorder stamps its events by the same clock."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def told(self, told: Narrated) -> None:
        """Keep one line."""
        self.lines.append(Line(time.monotonic_ns(), told))


def scenes_of(scenario: Scenario, lines: list[Line]) -> list[Scene]:
    """Cut a narration at what the story says; what comes before its first words is a scene of its own."""
    sayings = {step.text for step in scenario.steps if isinstance(step, Say)}
    found = [Scene("")]
    for line in lines:
        if line.told.actor == "lab" and line.told.text in sayings:
            found.append(Scene(line.told.text))
            found[-1].lines.append(line)
        else:
            found[-1].lines.append(line)
    return [scene for scene in found if scene.lines]
