"""A survey: locks × scenarios, what cannot be run, and which libraries are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from lab.batch.item import Item, Plan
from lab.batch.suite_plan import without_missing
from lab.drivers import PREFIX, is_driver
from lab.drivers.place import place_for
from lab.drivers.registry import row
from lab.errors import LabError
from lab.locks import lacks_around, lock_class, service_of
from lab.run.lock_properties import properties_of
from lab.scenario.load import load_scenario
from lab.scenario.outcomes import actions

DEFAULT: Final = Path(__file__).resolve().parent / "matrix.yaml"
"""The survey that comes with the lab: locks and lock libraries, and scenarios about defects of libraries."""


def matrix_plan(plan: Plan) -> Plan:
    """A plan as a survey: without libraries that are not installed, and with reasons for impossible items."""
    plan = without_missing(plan)
    items = tuple(replace(item, why_not=_why_not(item)) for item in plan.items)
    return replace(plan, items=items, survey=True)


def _why_not(item: Item) -> str:
    """Why a scenario can't be run with a lock, if that is known before it is run."""
    lock, scenario = item.lock, load_scenario(item.scenario, item.settings).scenario
    service, nodes = service_of(lock), scenario.cluster.nodes
    if service != scenario.cluster.service:
        return f"a lock on {service}, and the nodes of this scenario are {scenario.cluster.service}"
    if (lack := lacks_around(lock, scenario.cluster.around)) is not None:
        return f"a lock that {lack[0]}"
    used = _nodes_used(lock)
    if used is not None and used < nodes:
        return f"a lock on {_count(used)}, and this scenario has {_count(nodes)}"
    if is_driver(lock) and any(action.verb == "extends" for action in actions(scenario.steps)):
        try:
            place = place_for(item.on, lock)
            properties = properties_of(lock, scenario.lock.ttl_ns, scenario.lock.options, place)
        except LabError as error:
            return error.seen
        if not properties.extends:
            return "this library cannot extend a lease"
    return ""


def _nodes_used(lock: str) -> int | None:
    """How many nodes a lock asks at most; None: all, or not known."""
    if lock.startswith(PREFIX):
        return row(lock.removeprefix(PREFIX)).nodes
    return None if is_driver(lock) else getattr(lock_class(lock), "nodes_used", None)


def _count(nodes: int) -> str:
    return "one node" if nodes == 1 else f"{nodes} nodes"
