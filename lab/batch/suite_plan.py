"""From a suite file, or a choice of scenarios, to a plan; all mistakes are reported in one LabError."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

import yaml
from msgspec.structs import replace
from pydantic import ValidationError
from yaml.nodes import MappingNode, Node

from lab.batch.item import Item, Plan, Skipped, labelled
from lab.batch.suite_file import ALL, Case, Suite
from lab.drivers import PREFIX
from lab.drivers.place import place_for
from lab.errors import LabError
from lab.locks import check_options
from lab.scenario.claims import claim_rows
from lab.scenario.explain import explain
from lab.scenario.files import displayed, library_names, ordinary_names, read
from lab.scenario.library import ABOUT, summaries
from lab.scenario.load import LoadedScenario, load_scenario
from lab.scenario.locate import locate
from lab.scenario.problems import nearest, shown
from lab.scenario.yaml_data import plain
from lab.scenario.yaml_tree import compose, position
from lab.substrates import AUTO, SUBSTRATES, choose

DEFAULT: Final = Path(__file__).resolve().parent / "suite.yaml"
"""The suite that comes with the lab."""
Choice = Literal["library", "claims", "libraries"]
"""All scenarios; those that test a claim; those about libraries."""
TITLES: Final[Mapping[Choice, str]] = {
    "library": "The scenarios that come with the lab, and their controls",
    "claims": "The scenarios that test a claim, and their controls",
    "libraries": "The scenarios about libraries, and their controls",
}
_EXPECTED: Final = "a mapping with title and cases"
_HINT: Final = f"`lab suite --show` prints {DEFAULT.name}, to start from"


def load_suite(path: Path | None = None) -> Plan:
    """The suite in a file, or the one that comes with the lab, with each of its scenarios loaded once.

    Raises:
        LabError: a mistake in the file (exit code 2); ``where`` names file, line, column and key.
    """
    file = DEFAULT if path is None else path
    root = compose(read(file), displayed(file))
    if root is None:
        raise LabError("the suite is empty", where=displayed(file), expected=_EXPECTED, hint=_HINT)
    if not isinstance(root, MappingNode):
        raise LabError("the suite is no mapping", where=position(root), expected=_EXPECTED, hint=_HINT)
    try:
        suite = Suite.model_validate(plain(root))
    except ValidationError as error:
        raise explain(error, root, Suite) from error
    return _plan(file.stem, suite, file.parent, root)


def is_suite(path: Path) -> bool:
    """Whether a file is a suite, and not a scenario; a file that cannot be read is no suite."""
    try:
        root = compose(read(path), displayed(path))
    except LabError:
        return False
    return isinstance(root, MappingNode) and any(key.value == "cases" for key, _ in root.value)


def scenarios_plan(wanted: tuple[str, ...], on: str = AUTO) -> Plan:
    """These scenarios, by name or file, each with its control, without which it proves little.

    Raises:
        LabError: there is no such scenario, or no such substrate.
    """
    title = "Scenarios and their controls"
    if not all(wanted):
        raise LabError(
            "an empty name of a scenario", expected="a name (lab list) or a file", hint="lab list shows all"
        )
    case = Case(scenarios=wanted, controls=True, on=(chosen(on),))
    return _plan("scenarios", Suite(title=title, cases=(case,)), Path())


def library_plan(choice: Choice, on: str = AUTO) -> Plan:
    """Scenarios that come with the lab and their controls; of libraries those that can be used there.

    Raises:
        LabError: no such substrate, or nothing can run there.
    """
    if choice == "libraries":
        wanted: tuple[str, ...] = library_names()
    elif choice == "claims":
        wanted = tuple(dict.fromkeys(one.scenario for row in claim_rows() for one in row.tested))
    else:
        wanted = tuple(name for name in ordinary_names() if load_scenario(name).scenario.control_of is None)
    plan = scenarios_plan(wanted, on)
    return without_missing(replace(plan, name=choice, title=TITLES[choice]))


def without_missing(plan: Plan) -> Plan:
    """The plan without the locks whose library is not installed where one of their items runs.

    Raises:
        LabError: nothing can run there.
    """
    locks = {item.lock_label: item.lock for item in plan.items if item.lock.startswith(PREFIX)}
    places = dict.fromkeys((item.lock, item.on) for item in plan.items if item.lock_label in locks)
    missing = {lock: reason for lock, on in places if (reason := place_for(on, lock).why_not(lock))}
    skipped = tuple(Skipped(label, missing[lock]) for label, lock in locks.items() if lock in missing)
    left_out = {one.lock for one in skipped}
    items = tuple(item for item in plan.items if item.lock_label not in left_out)
    return replace(plan, items=items, skipped=skipped)


def chosen(on: str) -> str:
    """The substrate, if there is one of that name. Raises ``LabError``."""
    if on != AUTO:
        choose(on)
    return on


def _plan(name: str, suite: Suite, home: Path, root: Node | None = None) -> Plan:
    items: dict[str, Item] = {}
    wrong: list[LabError] = []
    unchanged = cache(load_scenario)
    for at, case in enumerate(suite.cases):
        for item in _items(case, at, root, home, unchanged):
            if isinstance(item, LabError):
                wrong.append(item)
            else:
                items[_unused(item.id, items)] = item
    if wrong:
        raise LabError.of_all(wrong)
    return Plan(name, suite.title, tuple(replace(item, id=id_) for id_, item in items.items()))


def _unused(name: str, taken: Mapping[str, object]) -> str:
    """The name; where the file has the same line twice, with a number appended."""
    numbered = (f"{name}#{number}" for number in range(2, len(taken) + 3))
    return next(candidate for candidate in (name, *numbered) if candidate not in taken)


def _items(
    case: Case, at: int, root: Node | None, home: Path, unchanged: Callable[[str], LoadedScenario]
) -> Iterator[Item | LabError]:
    """The items of a case, and its mistakes; ``unchanged`` loads a scenario without overrides."""
    yield from _wrong(case, at, root)
    reported: set[str] = set()
    for scenario in _scenarios(case, home):
        for lock in case.locks or ("",):
            settings = (*case.set, *_expectation(case), *((f"lock.name={lock}",) if lock else ()))
            try:
                own = unchanged(scenario)
                loaded = load_scenario(scenario, settings) if settings else own
                ready = loaded.scenario
                check_options(ready.lock.name, ready.lock.ttl_ns, ready.lock.options)  # is there such a lock?
            except LabError as error:
                if error.render() not in reported:
                    reported.add(error.render())
                    yield _at_case(error, _where(root, at))
                continue
            label = case.label or ""
            for on in case.on:
                yield Item(
                    f"{loaded.name}/{labelled(ready.lock.name, label)}/{on}",
                    scenario,
                    ready.lock.name,
                    on,
                    settings,
                    case.repeat,
                    label,
                    ready == own.scenario,
                    ready.title,
                    ready.control_of or "",
                )


def _wrong(case: Case, at: int, root: Node | None) -> Iterator[LabError]:
    """The mistakes of a case that do not depend on its scenarios and locks."""
    if case.controls and case.expect is not None:
        yield LabError(
            "expect is given, but a control has its own expectation",
            where=_where(root, at, "controls"),
            expected="either controls or expect",
        )
    known = (AUTO, *SUBSTRATES)
    for on in case.on:
        if on not in known:
            yield LabError(
                f"unknown substrate {shown(on)}",
                where=_where(root, at, "on"),
                expected=f"one of {', '.join(known)}",
                hint=nearest(on, known),
            )


def _at_case(error: LabError, case: str | None) -> LabError:
    """An error of a scenario or a lock, and those with it, with the place of the case that names it."""
    where = " ".join(filter(None, (case, error.where and f"({error.where})"))) or None
    others = [_at_case(other, case) for other in error.others]
    return LabError(error.seen, where=where, expected=error.expected, hint=error.hint, others=others)


def _where(root: Node | None, at: int, *key: str) -> str | None:
    """The place of a case in its file; None without a file."""
    return None if root is None else locate(root, ("cases", at, *key)).where()


def _scenarios(case: Case, home: Path) -> tuple[str, ...]:
    """The scenarios of a case: names, or paths that can be used from here."""
    controls = _controls() if case.controls else {}
    wanted: list[str] = []
    for word in case.scenarios:
        for name in ordinary_names() if word == ALL else (word,):
            beside = home / name
            is_file = name not in ordinary_names() and ("/" in name or beside.suffix in (".yaml", ".yml"))
            wanted.append(str(beside) if is_file else name)
            if control := controls.get(name):
                wanted.append(control)
    return tuple(dict.fromkeys(wanted))


@cache
def _controls() -> dict[str, str | None]:
    """The control of each scenario that comes with the lab."""
    known = (summaries(about) for about in (None, *ABOUT))
    return {each.name: each.control for some in known for each in some}


def _expectation(case: Case) -> tuple[str, ...]:
    """What a case expects, as an override."""
    if case.expect is None:
        return ()
    data = case.expect.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    text = yaml.safe_dump(data, default_flow_style=True, width=10**9).strip()
    return (f"expect={text}",)
