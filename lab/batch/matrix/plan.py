"""From a file to the cells of a matrix: what is run, what cannot be, and which libraries are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from lab.batch.matrix.model import Cell, Matrix, Skipped
from lab.batch.suite.load import Entry, load_suite
from lab.batch.suite.run import only, repeated
from lab.drivers import PREFIX, is_driver
from lab.drivers.place import place_for
from lab.drivers.registry import row
from lab.errors import LabError
from lab.locks import lock_class, service_of
from lab.run.lock_properties import properties_of
from lab.scenario.actions import Action
from lab.scenario.load import load_scenario
from lab.scenario.model import Scenario
from lab.scenario.steps import Do, Start
from lab.substrates import choose

DEFAULT: Final = Path(__file__).resolve().parent / "default.yaml"
"""The matrix that comes with the lab: the survey of lock libraries, and their track record."""


def plan(
    file: Path | None,
    patterns: Sequence[str] = (),
    *,
    on: str | None = None,
    repeat: int = 1,
    tell: Callable[[str], None] = lambda line: None,
) -> Matrix:
    """The matrix in a file, with nothing run yet; ``tell`` is told what is skipped.

    Args:
        file: in the format of the suite; the matrix that comes with the lab if None.
        patterns: which entries, as for ``lab suite --only``; all if there are none.
        on: the substrate, in place of what the file says.
        repeat: how many times as often as the file says.

    Raises:
        LabError: the file or an argument is wrong (exit code 2).
    """
    suite = load_suite(file or DEFAULT)
    if on is not None:
        choose(on)
        suite = replace(suite, entries=_moved(suite.entries, on))
    entries = repeated(only(suite.entries, patterns), repeat)
    skipped = _skipped(entries)
    for one in skipped:
        tell(f"skipped: {one.row}: {one.reason}")
    left_out = {one.row for one in skipped}
    cells = tuple(_cell(entry) for entry in entries if entry.row not in left_out)
    return Matrix(suite.name, suite.title, cells, skipped)


def entries_of(cells: Iterable[Cell]) -> Iterator[Entry]:
    """What is still to be run of these cells."""
    for cell in cells:
        left = cell.wanted - len(cell.runs)
        if left > 0 and cell.state != "n/a":
            yield Entry(cell.id, cell.path, cell.lock, cell.on, cell.settings, left, cell.label, cell.own)


def _moved(entries: Sequence[Entry], on: str) -> tuple[Entry, ...]:
    """The entries on one substrate; those that differed in their substrate only are one."""
    moved = {entry.id.removesuffix(f"/{entry.on}"): entry for entry in entries}
    return tuple(replace(entry, id=f"{name}/{on}", on=on) for name, entry in moved.items())


def _skipped(entries: Sequence[Entry]) -> tuple[Skipped, ...]:
    """The rows whose library is not installed where one of their entries runs. Raises ``LabError``."""
    rows = {entry.row: entry.lock for entry in entries if entry.lock.startswith(PREFIX)}
    places = dict.fromkeys((entry.lock, entry.on) for entry in entries if entry.row in rows)
    reasons = {(lock, on): place_for(on, lock).why_not(lock) for lock, on in places}
    told = {lock: reason for (lock, _), reason in reasons.items() if reason is not None}
    return tuple(Skipped(one, told[lock]) for one, lock in rows.items() if lock in told)


def _cell(entry: Entry) -> Cell:
    loaded = entry.loaded or load_scenario(entry.scenario, entry.settings)
    story = loaded.scenario
    return Cell(
        id=entry.id,
        scenario=entry.name,
        path=entry.scenario,
        title=story.title,
        lock=entry.lock,
        on=entry.on,
        settings=entry.settings,
        label=entry.label,
        control_of=story.control_of or "",
        own=entry.own,
        wanted=entry.repeat,
        why_not=_why_not(story, entry.lock, entry.on),
    )


def _why_not(story: Scenario, lock: str, on: str) -> str:
    """Why a story can't be told with a lock, as far as both say so; the rest is found when it is run."""
    service, nodes = service_of(lock), story.cluster.nodes
    if service != story.cluster.service:
        return f"a lock on {service}, and the nodes of this story are {story.cluster.service}"
    used = _nodes_used(lock)
    if used is not None and used < nodes:
        return f"a lock on {_count(used)}, and this story has {_count(nodes)}"
    if is_driver(lock) and any(action.verb == "extends" for action in _actions(story)):
        try:
            place = place_for(on, lock)
            traits = properties_of(lock, story.lock.ttl_ns, story.lock.options, place)
        except LabError as error:
            return error.seen
        if not traits.extends:
            return "this library cannot extend a lease"
    return ""


def _nodes_used(lock: str) -> int | None:
    """How many nodes a lock asks at most; None: all, or nobody knows."""
    if lock.startswith(PREFIX):
        return row(lock.removeprefix(PREFIX)).nodes
    return None if is_driver(lock) else getattr(lock_class(lock), "nodes_used", None)


def _actions(story: Scenario) -> Iterator[Action]:
    for step in story.steps:
        if isinstance(step, Do):
            yield from step.actions
        elif isinstance(step, Start):
            yield step.action


def _count(nodes: int) -> str:
    return "one node" if nodes == 1 else f"{nodes} nodes"


def chosen(matrix: Matrix, patterns: Sequence[str], times: int) -> Matrix:
    """The cells of a matrix that is gone on with, each wanted so many times as often.

    Raises:
        LabError: a pattern matches nothing.
    """
    every = {
        cell.id: Entry(cell.id, cell.path, cell.lock, cell.on, cell.settings, cell.wanted, cell.label)
        for cell in matrix.cells
    }
    kept = {entry.id: entry for entry in repeated(only(tuple(every.values()), patterns), times)}
    cells = tuple(
        msgspec.structs.replace(cell, wanted=kept[cell.id].repeat) for cell in matrix.cells if cell.id in kept
    )
    return msgspec.structs.replace(matrix, cells=cells)
