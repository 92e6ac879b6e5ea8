"""What the reference locks come to in scenarios that have another lock: ``python -m tests.sim.references``.

Kept is what three seeds agree in: the outcome of each property, and the operations that end well.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import yaml

from lab.analysis.outcomes import outcomes
from lab.batch.for_lock import FILE, LEFT_OUT, REFERENCES, Kind, Reference, missing
from lab.batch.scenario_task import simulated
from lab.locks import lock_class
from lab.scenario.files import ordinary_names
from lab.scenario.load import LoadedScenario, load_scenario
from lab.substrates.sim.patches import simulating

SEEDS: Final = (1, 2, 3)
SEQUENTIAL: Final = "redlock-sequential"
HEAD: Final = """\
# What each reference lock comes to in scenarios that have another lock of their own, for `lab suite --for`.
# Written by `python -m tests.sim.references`: what three seeds agree in.
"""


def recorded(reference: str, name: str, seeds: tuple[int, ...] = SEEDS) -> dict[str, Any]:
    """What a reference comes to in a scenario; only inside ``simulating``."""
    loaded = load_scenario(name, [f"lock.name={reference}"])
    seen = [_one(loaded, seed) for seed in seeds]
    first = seen[0]
    if any(other != first for other in seen):
        return {LEFT_OUT: f"chance decides what {reference} comes to in it"}
    return first


def _one(loaded: LoadedScenario, seed: int) -> dict[str, Any]:
    verdict, aborted, _, history = simulated(loaded, seed)
    if aborted or verdict.unknown_reasons:
        why = aborted or verdict.unknown_reasons[0]
        words = (
            why.removeprefix("an anchor never came: ").partition(": not within")[0].partition(" (event")[0]
        )
        return {LEFT_OUT: f"waits for what a lock of this kind does not show: {words}"}
    ended: defaultdict[str, list[str]] = defaultdict(list)
    for action, outcome in outcomes(history, loaded.scenario.steps):
        ended[action].append(outcome)
    well = {action: "ok" for action, each in ended.items() if set(each) == {"ok"}}
    properties = {
        str(name): str(one.outcome)
        for name, one in verdict.properties.items()
        if str(one.outcome) != "unknown"
    }
    return {**properties, **({"operations": well} if well else {})}


def wanted(reference: Reference) -> list[str]:
    """The scenarios of which the outcome of a reference is to be recorded: those of other locks."""
    return [name for name in possible(reference) if load_scenario(name).scenario.lock.name != reference]


def possible(reference: Reference) -> list[str]:
    """The scenarios that say what each client does, and that a reference has what they need for."""
    kind = Kind(reference, lock_class(reference).hands_out_fences)
    scenarios = {name: load_scenario(name).scenario for name in ordinary_names()}
    return [name for name, one in scenarios.items() if one.every_step and not missing(one, reference, kind)]


def needs_at_once(name: str) -> bool:
    """Whether a Redlock that asks one node after the other comes to something else in a scenario."""
    at_once = recorded("redlock", name, (1,))
    return LEFT_OUT not in at_once and recorded(SEQUENTIAL, name, (1,)) != at_once


def main() -> None:
    """Write the file."""
    with simulating():
        found = {
            reference: {name: recorded(reference, name) for name in wanted(reference)}
            for reference in REFERENCES
        }
    lines = [HEAD]
    for reference, scenarios in found.items():
        lines.append(f"{reference}:\n")
        for name, what in scenarios.items():
            flow = yaml.safe_dump(
                what, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
            ).strip()
            lines.append(f"  {name}: {flow}\n")
    FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
