"""A suite for one lock: the scenarios that apply to its kind, and the results of the reference in them.

A scenario whose own lock is the reference has the expected outcome itself. For the others the outcome of the
reference is stored in ``references.yaml``; ``python -m tests.sim.references`` writes it, and a test simulates
each of them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args

import yaml

from lab.batch.item import Item, Plan, Skipped
from lab.drivers import is_driver
from lab.durations import format_duration
from lab.locks import lock_class, refused_options
from lab.scenario.fault_step import FaultStep
from lab.scenario.files import ordinary_names
from lab.scenario.load import LoadedScenario, load_scenario
from lab.scenario.model import PROPERTIES, Scenario
from lab.scenario.outcomes import actions, expected_words
from lab.scenario.steps import Extend

Reference = Literal["single", "redlock", "redlock-fenced"]
"""The lab's own lock of a kind: on one node, on a majority of several, on a majority and with fences."""
REFERENCES: Final[tuple[Reference, ...]] = get_args(Reference)
FILE: Final = Path(__file__).resolve().parent / "references.yaml"
LEFT_OUT: Final = "left_out"
"""In place of an outcome: why the reference has none."""
NOT_KNOWN: Final = {
    LEFT_OUT: "needs a capability that the reference lacks, so that there is no outcome to compare with"
}
TIMING: Final = ("node_timeout", "retry_count", "retry_delay", "retry_jitter", "acquire_timeout")
"""Options that a lock need not have: it may have other time-outs, or other retries."""
NODES: Final = "ABCDE"
"""The nodes of which a kind says which ones a lock asks."""
EXTENDS: Final = "needs a lock that can extend a lease"
POINTS: Final = ("between-setnx-and-expire", "before-announce")
"""Pause points that only some locks have."""


@dataclass(frozen=True)
class Kind:
    """The properties of a lock that decide which scenarios apply to it.

    ``nodes`` are those of five nodes that it asks; None: not known, assumed as for the reference.
    ``at_once``: it asks them all before one has answered. ``server``: what simulated nodes
    show, ``redis@8.4``. ``refuses``: by the names of scenarios, after how many nanoseconds it refuses a lock
    that another client holds, with the options of that scenario that it has; None: it waits for the lock. Of
    scenarios that are not among them it is not known.
    """

    reference: Reference
    fences: bool
    extends: bool = True
    nodes: tuple[str, ...] | None = None
    at_once: bool = True
    server: str = ""
    refuses: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The kind as text."""
        how = (
            "" if len(self.nodes or ()) < 2 else ", all at once" if self.at_once else ", one after the other"
        )
        asked = "" if self.nodes is None else f"asks node {', '.join(self.nodes)} of five{how}; "
        fences = "hands out fences" if self.fences else "hands out no fences"
        extends = "extends leases" if self.extends else "does not extend leases"
        return f"{asked}{fences}; {extends}; compared with {self.reference}"


def plan_for(lock: str, kind: Kind, on: str) -> Plan:
    """The scenarios that apply to a lock, with the outcome of its reference; the others with the reason.

    Raises:
        LabError: there is no such lock.
    """
    items: list[Item] = []
    left_out: defaultdict[str, list[str]] = defaultdict(list)
    loaded = {name: load_scenario(name) for name in ordinary_names()}
    for name, one in loaded.items():
        scenario = loaded[one.scenario.control_of or name]  # a control applies if its scenario does
        reason = why_not(scenario, lock, kind) or why_not(one, lock, kind)
        if reason:
            left_out[reason].append(name)
            continue
        settings = settings_for(one, lock, kind)
        about = one.scenario
        own = load_scenario(name, settings).scenario == about
        items.append(
            Item(
                f"{name}/{lock}/{on}",
                name,
                lock,
                on,
                settings,
                own=own,
                title=about.title,
                control_of=about.control_of or "",
            )
        )
    skipped = tuple(Skipped(", ".join(each), reason) for reason, each in left_out.items())
    title = f"The scenarios that apply to {lock}, which {kind.words}"
    return Plan(f"for-{lock}", title, tuple(items), skipped)


def why_not(loaded: LoadedScenario, lock: str, kind: Kind) -> str:
    """Why a scenario does not apply to a lock of this kind; empty: it does."""
    if reason := missing(loaded.scenario, lock, kind):
        return reason
    scenario = loaded.scenario
    if reason := presupposed(loaded, kind):
        return reason
    if scenario.lock.name == kind.reference:
        return ""
    if scenario.workload is not None:
        return f"is a drawn workload, whose outcome is known with {scenario.lock.name} only"
    return str(outcome_of(kind.reference, loaded.name).get(LEFT_OUT, ""))


def presupposed(loaded: LoadedScenario, kind: Kind) -> str:
    """What a scenario presupposes that a lock of this kind was seen not to do; empty: nothing."""
    wants = loaded.scenario.presupposes
    if wants.asks_at_once and not kind.at_once:
        return "needs a lock that asks all nodes at once"
    if wants.refuses_within_ns is not None and loaded.name in kind.refuses:
        refused_ns = kind.refuses[loaded.name]
        within = f"within {format_duration(wants.refuses_within_ns)}"
        if refused_ns is None:
            return f"needs a lock that refuses a held lock {within}, and this one waits for it"
        if refused_ns > wants.refuses_within_ns:
            after = format_duration(round(refused_ns, -6))
            return f"needs a lock that refuses a held lock {within}, and this one does after {after}"
    return ""


def missing(scenario: Scenario, lock: str, kind: Kind) -> str:
    """What a scenario needs that a lock of this kind does not have; empty: nothing."""
    return next(iter((*_of_the_nodes(scenario, kind), *_of_the_lock(scenario, lock, kind), "")))


def _of_the_nodes(scenario: Scenario, kind: Kind) -> Iterator[str]:
    if scenario.cluster.service != "redis":
        yield f"needs a lock on {scenario.cluster.service}"
    if scenario.cluster.replicas:
        yield "needs a lock on a master with a replica, which follows a failover"
    if scenario.cluster.nodes > 1 and kind.reference == "single" and kind.nodes not in (None, ("A",)):
        yield f"is for a lock on node A, and this one asks node {', '.join(kind.nodes or ())}"
    if scenario.cluster.nodes == len(NODES) and kind.nodes is not None and len(kind.nodes) > 1:
        faults = (step for step in scenario.every_step if isinstance(step, FaultStep))
        struck = {node for fault in faults for node in fault.nodes_named}
        own = struck.intersection(kind.nodes)
        if len(own) > len(kind.nodes) // 2 and len(struck) <= scenario.cluster.nodes // 2:
            yield (
                f"strikes {' and '.join(sorted(own))}, a minority of five nodes, "
                f"and the majority of those that this lock asks for this key ({', '.join(kind.nodes)})"
            )


def _of_the_lock(scenario: Scenario, lock: str, kind: Kind) -> Iterator[str]:
    own = lock_class(scenario.lock.name)
    if getattr(own, "announces_token", False) and not _announces(lock):
        yield "needs a lock that announces its token to the store"
    if (own.hands_out_fences or scenario.store.fencing) and not kind.fences:
        yield "needs a lock that hands out fences"
    for action in actions(scenario.steps):
        if action.until in POINTS and not (_announces(lock) and action.until == POINTS[-1]):
            yield f"needs a lock that can be stopped at the point {action.until}"
        if action.verb == "extends" and not kind.extends:
            yield EXTENDS
    if not kind.extends and any(isinstance(step, Extend) for step in scenario.every_step):
        yield EXTENDS
    for option in refused_options(lock, scenario.lock.ttl_ns, scenario.lock.options):
        if option not in TIMING:
            yield f"needs a lock with the option {option}"


def _announces(lock: str) -> bool:
    return not is_driver(lock) and bool(getattr(lock_class(lock), "announces_token", False))


@cache
def references() -> Mapping[str, Any]:
    """The outcomes of each reference in scenarios that have another lock, by its name."""
    data: Mapping[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return data


def outcome_of(reference: Reference, name: str) -> Mapping[str, Any]:
    """The outcome of a reference in a scenario, in the form of its ``expect``; or why there is none."""
    known: Mapping[str, Any] = references()[reference].get(name, NOT_KNOWN)
    return known


def settings_for(loaded: LoadedScenario, lock: str, kind: Kind) -> tuple[str, ...]:
    """The overrides that run a scenario with this lock, and expect no worse than of the reference."""
    nodes = (f"cluster.server={kind.server}",) if kind.server else ()
    return (*_lock_settings(loaded.scenario, lock), *nodes, *_expected(loaded, lock, kind))


def _lock_settings(scenario: Scenario, lock: str) -> tuple[str, ...]:
    """The lock in place of the scenario's own, with those of its options that this lock has."""
    refused = refused_options(lock, scenario.lock.ttl_ns, scenario.lock.options)
    kept = {name: value for name, value in scenario.lock.options.items() if name not in refused}
    return (f"lock.name={lock}", *([f"lock.options={_flow(kept)}"] if refused else ()))


def _expected(loaded: LoadedScenario, lock: str, kind: Kind) -> tuple[str, ...]:
    """The expected outcome: no property is violated that the reference keeps.

    What the reference does not keep either may be kept: a lock that answers differently may not come into
    the decisive situation. For the same reason single operations must end as those of the reference only
    where no fault strikes; why they are refused each lock says in its own words.
    """
    if lock == kind.reference == loaded.scenario.lock.name:
        return ()
    expect = loaded.scenario.expect
    of_reference: dict[str, Any] = (
        expect.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        if loaded.scenario.lock.name == kind.reference
        else dict(outcome_of(kind.reference, loaded.name))
    )
    wordless = {action: _wordless(ended) for action, ended in of_reference.pop("operations", {}).items()}
    sure = {action: ended for action, ended in wordless.items() if "unknown" not in ended}
    violated = [name for name, outcome in of_reference.items() if outcome == "violated"]
    kept = {name: outcome for name, outcome in of_reference.items() if name not in (*violated, "findings")}
    either = sorted({*kept.pop("either", ()), *violated}, key=PROPERTIES.index)
    struck = any(isinstance(step, FaultStep) for step in loaded.scenario.every_step)
    return (
        "expect="
        + _flow(
            {
                **kept,
                **({"either": either} if either else {}),
                **({"operations": sure} if sure and not struck else {}),
            }
        ),
    )


def _wordless(expected: Any) -> Any:
    """The outcome of an operation, or of each time that it happens, without its reason."""
    if isinstance(expected, list | tuple):
        return [expected_words(one)[0] for one in expected]
    return expected_words(expected)[0]


def _flow(data: Mapping[str, Any]) -> str:
    dumped = yaml.safe_dump(
        dict(data), default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9
    )
    return str(dumped).strip()
