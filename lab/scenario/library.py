"""The scenarios that come with the lab, as a library: their names, a line about each, the text of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.scenario.files import consensus_names, find, library_names, names, read, shipped
from lab.scenario.load import load_scenario

__all__ = ["Summary", "consensus_names", "find", "library_names", "names", "summaries", "text_of"]


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
    lock: str
    """The name of the lock under test."""


def text_of(path_or_name: str | Path) -> str:
    """The file of a scenario as it was written, for `lab list NAME`. Raises LabError if it can't be read."""
    return read(find(path_or_name))


def summaries(*, libraries: bool = False, consensus: bool = False) -> tuple[Summary, ...]:
    """All scenarios that come with the lab, or those about ``libraries`` or ``consensus``, sorted by name.

    Raises LabError if one can't be loaded.
    """
    chosen = library_names() if libraries else consensus_names() if consensus else names()
    loaded = [load_scenario(shipped(name)) for name in chosen]
    controls = {one.scenario.control_of: one.name for one in loaded if one.scenario.control_of}
    return tuple(
        Summary(
            name=one.name,
            title=one.scenario.title,
            expected={str(name): str(outcome) for name, outcome in one.scenario.expect.outcomes.items()},
            control=controls.get(one.name),
            control_of=one.scenario.control_of,
            lock=one.scenario.lock.name,
        )
        for one in loaded
    )
