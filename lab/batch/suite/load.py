"""From a suite file to the list of runs in it; what is wrong comes out as one LabError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import yaml
from pydantic import ValidationError
from yaml.nodes import MappingNode, Node

from lab.batch.suite.model import ALL, Case, Suite
from lab.errors import LabError
from lab.locks import margin_ns
from lab.scenario.explain import explain
from lab.scenario.files import displayed, names, read
from lab.scenario.library import summaries
from lab.scenario.load import LoadedScenario, load_scenario
from lab.scenario.locate import locate
from lab.scenario.problems import nearest, shown
from lab.scenario.yaml_data import plain
from lab.scenario.yaml_tree import compose, position
from lab.substrates import AUTO, SUBSTRATES

DEFAULT: Final = Path(__file__).resolve().parent / "default.yaml"
"""The suite that comes with the lab."""
_EXPECTED: Final = "a mapping with title and cases"
_HINT: Final = f"`lab suite --show` prints {DEFAULT.name}, to start from"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a suite: a scenario with a lock on a substrate, run ``repeat`` times.

    ``settings`` are overrides as for ``--set``; what is expected, and the lock, are among them. ``label``
    tells its lock from the same one in another case. ``own``: it is run as it stands, with its own lock.
    ``loaded`` is the scenario with the overrides in it.
    """

    id: str
    scenario: str
    lock: str
    on: str
    settings: tuple[str, ...]
    repeat: int = 1
    label: str = ""
    own: bool = False
    loaded: LoadedScenario | None = field(default=None, compare=False, repr=False)

    @property
    def row(self) -> str:
        """The lock, with its label behind it."""
        return labelled(self.lock, self.label)

    @property
    def name(self) -> str:
        """The name of the scenario, without its directory."""
        return self.id.partition("/")[0]


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A suite, its name, and its entries in the order of the file."""

    name: str
    title: str
    entries: tuple[Entry, ...]


def labelled(lock: str, label: str) -> str:
    """A lock's name, with the label that tells it from the same lock with other settings."""
    return f"{lock} {label}" if label else lock


def load_suite(path: Path | None = None) -> LoadedSuite:
    """The suite in a file, or the one that comes with the lab, with each of its scenarios loaded once.

    Raises LabError, exit code 2, for whatever is wrong: its `where` names file, line, column and key.
    """
    file = DEFAULT if path is None else path
    root = compose(read(file), displayed(file))
    if root is None:
        raise LabError("the suite is empty", where=displayed(file), expected=_EXPECTED, hint=_HINT)
    if not isinstance(root, MappingNode):
        raise LabError("the suite is no mapping", where=position(root), expected=_EXPECTED, hint=_HINT)
    data = plain(root)
    try:
        suite = Suite.model_validate(data)
    except ValidationError as error:
        raise explain(error, root, Suite) from error
    entries: dict[str, Entry] = {}
    as_it_stands = cache(load_scenario)
    for at, case in enumerate(suite.cases):
        for entry in _entries(case, at, root, file.parent, as_it_stands):
            entries[_unused(entry.id, entries)] = entry
    named = tuple(replace(entry, id=name) for name, entry in entries.items())
    return LoadedSuite(file.stem, suite.title, named)


def _unused(name: str, taken: Mapping[str, object]) -> str:
    """The name, or with a number behind it where the file has the same line twice."""
    return next(
        candidate
        for candidate in (name, *(f"{name}#{number}" for number in range(2, len(taken) + 3)))
        if candidate not in taken
    )


def _entries(
    case: Case, at: int, root: Node, home: Path, as_it_stands: Callable[[str], LoadedScenario]
) -> Iterator[Entry]:
    if case.controls and case.expect is not None:
        where = locate(root, ("cases", at, "controls")).where()
        raise LabError(
            "a control has an expectation of its own", where=where, expected="either controls or expect"
        )
    for on in case.on:
        if on != AUTO and on not in SUBSTRATES:
            known = (AUTO, *SUBSTRATES)
            raise LabError(
                f"the substrate {shown(on)}",
                where=locate(root, ("cases", at, "on")).where(),
                expected=f"one of {', '.join(known)}",
                hint=nearest(on, known),
            )
    for scenario in _scenarios(case, home):
        for lock in case.locks or ("",):
            settings = (*case.set, *_expectation(case), *((f"lock.name={lock}",) if lock else ()))
            try:
                alone = as_it_stands(scenario)
                loaded = load_scenario(scenario, settings) if settings else alone
                under_test = loaded.scenario.lock
                margin_ns(under_test.name, under_test.ttl_ns, under_test.options)  # is there such a lock?
            except LabError as error:
                where = locate(root, ("cases", at)).where()
                told = f"{where} ({error.where})" if error.where else where
                raise LabError(error.seen, where=told, expected=error.expected, hint=error.hint) from error
            for on in case.on:
                label = case.label or ""
                name = f"{loaded.name}/{labelled(under_test.name, label)}/{on}"
                own = loaded.scenario == alone.scenario
                yield Entry(name, scenario, under_test.name, on, settings, case.repeat, label, own, loaded)


def _scenarios(case: Case, home: Path) -> tuple[str, ...]:
    """The scenarios of a case: names, or paths that can be used from here."""
    controls = _controls() if case.controls else {}
    wanted: list[str] = []
    for word in case.scenarios:
        for name in names() if word == ALL else (word,):
            beside = home / name
            is_file = name not in names() and ("/" in name or beside.suffix in (".yaml", ".yml"))
            wanted.append(str(beside) if is_file else name)
            if control := controls.get(name):
                wanted.append(control)
    return tuple(dict.fromkeys(wanted))


def _controls() -> dict[str, str | None]:
    """The control of each scenario that comes with the lab."""
    known = (*summaries(), *summaries(libraries=True), *summaries(consensus=True))
    return {each.name: each.control for each in known}


def _expectation(case: Case) -> tuple[str, ...]:
    """What a case expects, as an override."""
    if case.expect is None:
        return ()
    data = case.expect.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    text = yaml.safe_dump(data, default_flow_style=True, width=10**9).strip()
    return (f"expect={text}",)
