"""Changes to a plan: items by name, a shard, what failed last time, another substrate, more repetitions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from lab.batch.item import Item, Plan
from lab.batch.journal import read_plan
from lab.batch.result import Result
from lab.errors import LabError
from lab.scenario.load import load_scenario
from lab.scenario.problems import nearest, shown
from lab.substrates import choose

JOURNAL: Final = "runs.jsonl"
"""The journal of a batch, in its directory."""
DIRECTORIES: Final = "suite-"
"""The prefix of the directories of batches."""
_SHARD: Final = re.compile(r"([0-9]{1,5})/([0-9]{1,5})")


def shard(plan: Plan, text: str) -> Plan:
    """Every n-th item: ``2/5`` is the second of five disjoint parts.

    Raises:
        LabError: there is no such part.
    """
    match = _SHARD.fullmatch(text.strip())
    part, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= part <= parts:
        raise LabError(f"the shard {shown(text)}", where="--shard", expected="PART/PARTS, like 2/5")
    return replace(plan, items=plan.items[part - 1 :: parts])


def only(plan: Plan, patterns: Sequence[str]) -> Plan:
    """The items whose id, scenario or lock matches one of these patterns (``*`` and ``?``).

    Raises:
        LabError: a pattern matches nothing.
    """
    for pattern in patterns:
        if not any(_matches(item, pattern) for item in plan.items):
            words = (word for item in plan.items for word in (item.id, *item.id.split("/"), item.label))
            raise LabError(
                f"nothing in this suite is called {shown(pattern)}",
                where="--only",
                expected="a scenario, lock, label, substrate or id: healthy/redlock/sim; * and ? are wild",
                hint=nearest(pattern, [word for word in words if word]),
            )
    if not patterns:
        return plan
    chosen = (item for item in plan.items if any(_matches(item, pattern) for pattern in patterns))
    return replace(plan, items=tuple(chosen))


def _matches(item: Item, pattern: str) -> bool:
    words = (item.id, item.name, item.lock, item.lock_label, item.label, item.on)
    return any(fnmatch.fnmatchcase(word, pattern) for word in words)


def repeated(plan: Plan, times: int) -> Plan:
    """The plan with the repetitions of each item multiplied."""
    return replace(plan, items=tuple(replace(item, repeat=item.repeat * times) for item in plan.items))


def moved(plan: Plan, on: str) -> Plan:
    """The plan on one substrate; items that differ only in the substrate become one. Raises ``LabError``."""
    choose(on)
    items = {item.id.removesuffix(f"/{item.on}"): item for item in plan.items}
    return replace(plan, items=tuple(replace(item, id=f"{name}/{on}", on=on) for name, item in items.items()))


def served(plan: Plan, server: str) -> Plan:
    """The plan with nodes of this server, where they are Redis's. Raises ``LabError``: there is none."""
    settings = (f"cluster.server={server}",)
    items = tuple(
        replace(item, settings=(*item.settings, *settings))
        if load_scenario(item.scenario, item.settings).scenario.cluster.service == "redis"
        else item
        for item in plan.items
    )
    return replace(plan, items=items)


def since_failure(plan: Plan, out: Path) -> Plan:
    """The items whose last result was not as expected, or that have none; all, if there are no such items."""
    last = last_codes(out, plan.name)
    failed = tuple(item for item in plan.items if last.get(item.id, -1) != 0)
    return replace(plan, items=failed) if failed else plan


def last_codes(out: Path, name: str) -> dict[str, int]:
    """Item → its last exit code, from the journals of the batches of that name."""
    codes: dict[str, int] = {}
    found = out.glob(f"{DIRECTORIES}*/{JOURNAL}")
    for file in sorted(found, key=lambda path: (path.stat().st_mtime_ns, path)):
        kept = read_plan(file)
        if kept is not None and kept[0].name == name:
            cells = Result.of(*kept).cells
            codes |= {cell.item.id: int(cell.exit_code) for cell in cells if not cell.missing}
    return codes
