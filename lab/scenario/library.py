"""The scenarios that come with the lab: loading many, and a line about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from lab.scenario.files import (
    cluster_names,
    consensus_names,
    library_names,
    ordinary_names,
    sentinel_names,
    shipped,
)
from lab.scenario.load import LoadedScenario, load_scenario

ABOUT: Final[Mapping[str, Callable[[], tuple[str, ...]]]] = {
    "libraries": library_names,
    "consensus": consensus_names,
    "sentinel": sentinel_names,
    "cluster": cluster_names,
}
"""What lists the scenarios about something that is not there everywhere."""


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
    """The name of its control, the same steps without the decisive fault; None: it has none, or is one."""
    control_of: str | None
    """The name of the scenario whose control it is."""
    lock: str
    """The name of the lock under test."""


def load_shipped(names: Iterable[str]) -> tuple[list[LoadedScenario], dict[str, str]]:
    """The scenarios of these names, and by name the controls among them. Raises LabError."""
    loaded = [load_scenario(shipped(name)) for name in names]
    return loaded, {one.scenario.control_of: one.name for one in loaded if one.scenario.control_of}


def summaries(about: str | None = None) -> tuple[Summary, ...]:
    """The scenarios that need nothing installed, or those about something of ``ABOUT``, by name.

    Raises LabError if one can't be loaded.
    """
    chosen = ordinary_names() if about is None else ABOUT[about]()
    loaded, controls = load_shipped(chosen)
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
