"""From fault entries and a seed to a schedule: which fault is injected when, on what, for how long.

The same scenario and the same seed give the same schedule. Each entry has a random source of its own, so a
change to one entry does not change what is drawn for the others.

Two faults never last on the same part at the same time (a link, the process or the clock of a client or a
node; a node that is down includes its links), because the receipt of neither would prove anything. Nor is a
client paused while packets to or from it are kept (`Drawing.keeps`). The later fault is put off until the
earlier one is over; one that would then begin after the workload's end, or too late to meet what it waits
for (`Drawing.waits_ns`), is dropped. A fault that is to come
`during` another is drawn with it, and left out if another fault occupies its parts all the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from lab.durations import format_duration, parse_duration_ns
from lab.scenario.model import Scenario
from lab.scenario.step_base import StepModel
from lab.scenario.workload import FaultPlan, is_range

NS_PER_MS: Final = 1_000_000
GAP_NS: Final = 300_000_000
"""Time for injecting and ending a fault, with their receipts, before the next one on the same thing."""
LEAST_GAP, MOST_GAP = 0.1, 4.0
"""How far from the mean the time between two faults may be, as factors."""
HOLDER: Final = "holder"
STORE: Final = "store"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One fault of a schedule. `clients` is `("holder",)` for the client that holds the lock at its begin."""

    plan: FaultPlan
    at_ns: int
    """When it begins, counted from the start of the workload."""
    lasts_ns: int | None
    """How long it lasts; None: until the run is over."""
    clients: tuple[str, ...]
    nodes: tuple[str, ...]
    others: Mapping[str, Any]
    """The other fields of its step, with magnitudes drawn."""
    parts: frozenset[str]
    """Links, clients and nodes that no other fault may hit meanwhile."""
    followers: tuple[Drawn, ...] = ()
    """Faults that are injected as soon as this one has taken effect."""

    @property
    def wants_holder(self) -> bool:
        """Whether it hits the client that holds the lock when it begins."""
        return self.clients == (HOLDER,)

    def begin(self, clients: tuple[str, ...]) -> tuple[StepModel, ...]:
        """The steps that inject it on these clients."""
        return self.plan.begin(clients, self.nodes, self.others)

    def end(self, clients: tuple[str, ...]) -> tuple[StepModel, ...]:
        """The steps that end it."""
        return () if self.lasts_ns is None else self.plan.end(clients, self.nodes)

    def every_step(self) -> tuple[StepModel, ...]:
        """The steps that inject it and all that follow it."""
        return (*self.begin(self.clients), *(step for one in self.followers for step in one.every_step()))

    @property
    def words(self) -> str:
        """The fault on one line: its name, targets, magnitudes and duration, and what follows."""
        far = (STORE,) if self.plan.store else self.nodes
        target = " ⇎ ".join(",".join(part) for part in (self.clients, far) if part)
        others = "".join(f" {name} {value}" for name, value in self.others.items())
        lasts = f" for {format_duration(self.lasts_ns)}" if self.lasts_ns else ""
        then = "".join(f", meanwhile {one.words}" for one in self.followers)
        return f"{self.plan.fault} {target}{others}{lasts}{then}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as it is kept with the run."""
        return {
            "at_ms": self.at_ns / 1e6,
            "fault": self.plan.fault,
            "clients": list(self.clients),
            "nodes": [STORE] if self.plan.store else list(self.nodes),
            "lasts_ms": None if self.lasts_ns is None else self.lasts_ns / 1e6,
            **self.others,
            **({"meanwhile": [one.to_dict() for one in self.followers]} if self.followers else {}),
        }


def schedule(scenario: Scenario, seed: int) -> tuple[Drawn, ...]:
    """The faults of a workload, by the time at which they begin; empty without one."""
    if scenario.workload is None:
        return ()
    duration_ns = scenario.workload.duration_ns
    wanted = [
        drawn
        for number, plan in enumerate(scenario.faults)
        if plan.every_ns is not None
        for drawn in _drawn(plan, Random(f"{seed}/fault/{number}"), scenario, duration_ns)
    ]
    wanted.sort(key=lambda drawn: drawn.at_ns)
    free_ns: dict[str, int] = {}
    placed = []
    for drawn in wanted:
        at_ns = max([drawn.at_ns, *(free_ns.get(part, 0) for part in drawn.parts)])
        if at_ns >= duration_ns - drawn.plan.drawing.waits_ns:
            continue
        placed.append(replace(drawn, at_ns=at_ns))
        over_ns = at_ns + (drawn.lasts_ns or 0) + GAP_NS
        free_ns.update(dict.fromkeys(drawn.parts, over_ns))
    placed.sort(key=lambda drawn: drawn.at_ns)
    for number, plan in enumerate(scenario.faults):
        if plan.during is not None:
            random = Random(f"{seed}/fault/{number}")
            placed = [_followed(leader, plan, random, scenario) for leader in placed]
    return tuple(placed)


def _followed(leader: Drawn, plan: FaultPlan, random: Random, scenario: Scenario) -> Drawn:
    """The fault with a follower drawn from the plan, if it is of the kind that the plan follows."""
    if leader.plan.fault != plan.during:
        return leader
    follower = _one(plan, leader.at_ns, random, scenario)
    return replace(leader, followers=(*leader.followers, follower))


def _drawn(plan: FaultPlan, random: Random, scenario: Scenario, duration_ns: int) -> list[Drawn]:
    found: list[Drawn] = []
    at_ns = 0
    assert plan.every_ns is not None
    while True:
        factor = min(max(random.expovariate(1.0), LEAST_GAP), MOST_GAP)
        at_ns += max(1, _rounded(round(plan.every_ns * factor)))
        if at_ns >= duration_ns:
            return found
        found.append(_one(plan, at_ns, random, scenario))


def _one(plan: FaultPlan, at_ns: int, random: Random, scenario: Scenario) -> Drawn:
    lasts_ns = None if plan.lasts_ns is None else _within(plan.lasts_ns, random)
    clients = _clients(plan, random, tuple(scenario.clients))
    nodes = _nodes(plan, random, scenario.cluster.node_names)
    others = {name: _magnitude(value, random) for name, value in plan.others.items()}
    parts = _parts(plan, clients, nodes, tuple(scenario.clients))
    return Drawn(plan, at_ns, lasts_ns, clients, nodes, others, parts)


def _clients(plan: FaultPlan, random: Random, known: tuple[str, ...]) -> tuple[str, ...]:
    if not plan.hits_clients:
        return ()
    match plan.clients:
        case "all":
            return known
        case "holder":
            return (HOLDER,)
        case None | "one":
            return (random.choice(known),)
        case names:
            return names


def _nodes(plan: FaultPlan, random: Random, known: tuple[str, ...]) -> tuple[str, ...]:
    if not plan.hits_nodes:
        return ()
    majority = len(known) // 2 + 1
    match plan.nodes or ("minority" if plan.drawing.hits == "links" else "one"):
        case "one":
            count = 1
        case "minority":
            count = random.randint(1, max(1, len(known) - majority))
        case "majority":
            count = random.randint(majority, len(known))
        case "all":
            count = len(known)
        case names:
            return names
    return tuple(sorted(random.sample(known, count)))


def _magnitude(value: Any, random: Random) -> Any:
    """A value as it is, or one drawn from a range of durations."""
    if not is_range(value):
        return value
    least_ns, most_ns = sorted(parse_duration_ns(end) for end in value)
    signed = any(end.lstrip()[0] in "+-" for end in value)
    return format_duration(_within((least_ns, most_ns), random), signed=signed)


def _within(range_ns: tuple[int, int], random: Random) -> int:
    """A duration drawn evenly, in whole milliseconds unless that leaves the range."""
    drawn_ns = random.randint(*range_ns)
    return max(_rounded(drawn_ns), range_ns[0])


def _rounded(duration_ns: int) -> int:
    return duration_ns // NS_PER_MS * NS_PER_MS


def _parts(
    plan: FaultPlan, clients: tuple[str, ...], nodes: tuple[str, ...], known: tuple[str, ...]
) -> frozenset[str]:
    hit = known if clients == (HOLDER,) else clients
    if plan.drawing.hits == "links":
        ends = (STORE,) if plan.store else nodes
        links = {f"{client}~{end}" for client in hit for end in ends}
        return frozenset(links | set(hit) if plan.drawing.keeps else links)
    parts = {*hit, *nodes}
    if plan.drawing.stops:
        parts |= {f"{client}~{node}" for client in known for node in nodes}
    return frozenset(parts)
