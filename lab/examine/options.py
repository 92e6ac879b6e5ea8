"""Options of a lock from the command line: ``--set key=value``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from yaml.error import Mark
from yaml.nodes import MappingNode

from lab.errors import LabError
from lab.locks import check_options
from lab.scenario.overrides import apply
from lab.scenario.yaml_data import plain
from lab.scenario.yaml_tree import TAG
from lab.search.space import must_run_in_virtual_time
from lab.search.trial import OptionValue

TTL_NS = 10_000_000_000
"""With which lease options are checked."""


def parse_options(lock: str, settings: Iterable[str]) -> tuple[tuple[str, OptionValue], ...]:
    """The options of a lock in ``key=value`` texts, typed as in a scenario, and checked by the lock.

    Raises:
        LabError: no ``key=value``, an option that the lock does not have, or a value that it does not take.
    """
    given = list(settings)
    if not given:
        return ()
    mark = Mark("--set", 0, 0, 0, None, 0)
    values: dict[str, Any] = plain(apply(MappingNode(f"{TAG}map", [], mark, mark), given))
    for name, value in values.items():
        if not isinstance(value, str | int | float | bool):
            raise LabError(
                f"--set {name}: no single value",
                where=f"--set {name}",
                expected="an option of the lock, like node_timeout=100ms",
                hint="TTLs and nodes are drawn; --nodes says how many nodes there are"
                if name in ("lock", "cluster")
                else None,
            )
    must_run_in_virtual_time(lock)
    check_options(lock, TTL_NS, values)
    return tuple(values.items())
