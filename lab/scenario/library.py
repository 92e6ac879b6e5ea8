"""The scenarios that come with the lab, as a library: their names, a line about each, the text of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.paths import scenario_dir
from lab.scenario.files import find, names, read
from lab.scenario.load import load_scenario

__all__ = ["Summary", "find", "names", "summaries", "text_of"]


@dataclass(frozen=True)
class Summary:
    """One line of `lab list`."""

    name: str
    """The name it is run by."""
    title: str
    """What happens in it."""
    expected: dict[str, str]
    """The expected outcome of each property that it names."""
    control: str | None
    """The name of its control, the same story without the decisive fault; None: it has none, or is one."""
    control_of: str | None
    """The name of the scenario whose control it is."""


def text_of(path_or_name: str | Path) -> str:
    """The file of a scenario as it was written, for `lab show`. Raises LabError if it can't be read."""
    return read(find(path_or_name))


def summaries() -> tuple[Summary, ...]:
    """All scenarios that come with the lab, sorted by name. Raises LabError if one can't be loaded."""
    loaded = [load_scenario(scenario_dir() / f"{name}.yaml") for name in names()]
    controls = {one.scenario.control_of: one.name for one in loaded if one.scenario.control_of}
    return tuple(
        Summary(
            name=one.name,
            title=one.scenario.title,
            expected={str(name): str(outcome) for name, outcome in one.scenario.expect.outcomes.items()},
            control=controls.get(one.name),
            control_of=one.scenario.control_of,
        )
        for one in loaded
    )
