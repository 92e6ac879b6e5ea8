"""Drawing trials: from any source of choices, or a random one after the other for a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Literal, Protocol, TypeVar, get_args

import msgspec

from lab.durations import UNITS_NS
from lab.faults.client_crash import ClientCrash
from lab.faults.clock import ClockFault
from lab.faults.delay import Delay
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.links import ConnectionsFault, LinkFault
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.redis_model.persistence import Persistence
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS, START, Trigger, at_start, on
from lab.search.faults import FOR_GOOD, KINDS, Kind, timed_fault
from lab.search.trial import CLIENTS, HORIZON_NS, Ending, OptionValue, Round, Trial

T = TypeVar("T")
MS_NS: Final = UNITS_NS["ms"]
S_NS: Final = UNITS_NS["s"]

Strategy = Literal["guided", "random"]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)
PERSISTENCES: Final[tuple[Persistence, ...]] = ("none", "aof-everysec", "aof-always")
"""What is drawn; in a trial, which takes seconds, snapshots at save points would keep nothing."""
ENABLED: Final = 0.6
"""The chance of each kind of fault to be enabled in a guided trial."""
MUTATED: Final = 0.7
"""How many guided trials are made of one that is kept, as soon as there is one."""
KEPT_MAX: Final = 24
"""How many of those that are kept are used."""
FAULTS_MAX: Final = 8
ROUNDS_MAX: Final = 4
DRIFTS_PPM: Final = (8_000, -8_000, 200_000, -200_000)
"""How much too fast a clock may run: within what a margin of 1 % bears, and far beyond it."""
LATER_NS: Final = (0, 0, 200_000, 20 * MS_NS, S_NS, 4 * S_NS)
"""How long after its event an anchored fault may come."""
EVENTS_OF_LINKS: Final = (START, START, "acquire invoke", "granted", "release invoke")
EVENTS_OF_OTHERS: Final = (
    "granted",
    "granted",
    "write invoke",
    "acquire invoke",
    "release invoke",
    START,
)
"""What a fault waits for: links matter before they are used, anything else once somebody holds."""
FURTHER_EVENTS: Final = (SENDS, "extend invoke")
"""What any fault may wait for as well, where clients do all that they can."""


class Draw(Protocol):
    """Where choices come from."""

    def integer(self, least: int, most: int) -> int:
        """A whole number from ``least`` to ``most``."""
        ...


class RandomDraw:
    """Choices from a source of randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def integer(self, least: int, most: int) -> int:
        """Uniform."""
        return self._random.randint(least, most)


def choice(draw: Draw, among: Sequence[T]) -> T:
    """One of these; the first is the simplest."""
    return among[draw.integer(0, len(among) - 1)]


@dataclass(frozen=True)
class Space:
    """What may be drawn: everything that trials of one search have in common, and the kinds of faults.

    ``persistence`` None means that it is drawn. With ``all_operations`` clients also extend leases, keep
    locks until they expire, release twice, cancel an acquire if ``cancels``, and ask again at the end, for
    ``demand_ns``; faults may wait for what they send, and clocks of clients jump too.
    ``server`` is the product and version that nodes show; the newest that is modelled if it is empty.
    """

    lock: str
    options: dict[str, OptionValue] = field(default_factory=dict)
    ttl_ns: int = 10 * S_NS
    nodes: int = 5
    clients: int = 2
    persistence: Persistence | None = "aof-always"
    kinds: tuple[Kind, ...] = KINDS
    store_fences: bool = False
    horizon_ns: int = HORIZON_NS
    all_operations: bool = False
    cancels: bool = True
    demand_ns: int = 0
    server: str = ""

    def only(self, kinds: Sequence[Kind]) -> Space:
        """The part of it with these kinds of faults."""
        return replace(self, kinds=tuple(kinds))


def drawn(
    space: Space, random: Random, kept: Sequence[Trial], strategy: Strategy = "guided"
) -> Iterator[Trial]:
    """Trials without end. ``guided``: each with some kinds of faults, and most of them like one ``kept``.

    ``kept`` may change meanwhile; its last ones count.
    """
    draw = RandomDraw(random)
    if strategy == "random":
        while True:
            yield draw_trial(draw, space, strategy)
    while True:
        swarm = space.only([kind for kind in space.kinds if random.random() < ENABLED] or space.kinds)
        if kept and random.random() < MUTATED:
            yield mutated(draw, swarm, random.choice(kept[-KEPT_MAX:]))
        else:
            yield draw_trial(draw, swarm, strategy)


def draw_trial(draw: Draw, space: Space, strategy: Strategy) -> Trial:
    """A trial from this space: ``random`` is uniform over times, places and magnitudes, ``guided`` is not."""
    names = CLIENTS[: space.clients]
    clients = {
        name: tuple(_round(draw, space, strategy) for _ in range(draw.integer(1, ROUNDS_MAX)))
        for name in names
    }
    blank = Trial(
        space.lock,
        clients,
        nodes=space.nodes,
        persistence=choice(draw, PERSISTENCES) if space.persistence is None else space.persistence,
        ttl_ns=space.ttl_ns,
        options=space.options,
        store_fences=space.store_fences,
        seed=draw.integer(0, 999),
        horizon_ns=space.horizon_ns,
        demand_ns=space.demand_ns,
        server=space.server,
    )
    faults = tuple(draw_fault(draw, space, blank, strategy) for _ in range(draw.integer(2, FAULTS_MAX)))
    return msgspec.structs.replace(blank, faults=faults)


def _round(draw: Draw, space: Space, strategy: Strategy) -> Round:
    if strategy == "random":
        return Round(draw.integer(0, 5000) * MS_NS, draw.integer(0, 1500) * space.ttl_ns // 1000)
    ttl_ns = space.ttl_ns
    think = choice(draw, (0, 20 * MS_NS, 300 * MS_NS, 300 * MS_NS, 2 * S_NS))
    hold = choice(draw, (ttl_ns * 3 // 10, ttl_ns * 3 // 10, ttl_ns * 9 // 10, ttl_ns * 12 // 10, 50 * MS_NS))
    if not space.all_operations:
        return Round(think, hold)
    extends = choice(draw, (0, 0, 0, 1, 2))
    if extends:
        hold = choice(draw, (hold, ttl_ns * 15 // 10, ttl_ns * 24 // 10))
    ends: Ending = choice(draw, ("release", "release", "release", "release", "keep", "twice"))
    cancel_ns = choice(draw, (0, 0, 0, 0, 0, 300_000, 2 * MS_NS, 100 * MS_NS))
    return Round(think, hold, extends, ends, cancel_ns if space.cancels else 0)


def draw_fault(draw: Draw, space: Space, trial: Trial, strategy: Strategy) -> Timed:
    """One fault of an enabled kind, at places that the trial has."""
    kind = choice(draw, space.kinds)
    guided = strategy == "guided"
    names = tuple(trial.clients)
    when = (
        _anchored(draw, space, names, kind)
        if guided
        else at_start(draw.integer(0, 30_000) * trial.horizon_ns // 30_000)
    )
    if issubclass(kind, Pause):
        return timed_fault(kind, when, client=choice(draw, names), lasts_ns=_length(draw, trial, guided))
    if issubclass(kind, ClientCrash):
        return timed_fault(kind, when, client=choice(draw, names))
    if issubclass(kind, ConnectionsFault):
        return _link_fault(draw, trial, kind, when, guided)
    node = (choice(draw, trial.node_names),)
    if issubclass(kind, ClockFault):
        client = choice(draw, ("", "", *names)) if space.all_operations or issubclass(kind, Drift) else ""
        nodes = () if client else node
        if issubclass(kind, Drift):
            return timed_fault(kind, when, client, nodes, ppm=choice(draw, DRIFTS_PPM))
        return timed_fault(kind, when, client, nodes, by_ns=_jump(draw, trial, guided))
    return timed_fault(kind, when, nodes=node, lasts_ns=_length(draw, trial, guided))


def _link_fault(draw: Draw, trial: Trial, kind: Kind, when: Trigger, guided: bool) -> Timed:
    mask = draw.integer(1, (1 << trial.nodes) - 1)
    if guided and draw.integer(0, 3):
        # A minority of links, as they cross from one majority to another; sometimes all but one node.
        first = draw.integer(0, trial.nodes - 1)
        minority = max(1, (trial.nodes - 1) // 2)
        width = choice(draw, (minority, minority, 1, max(1, trial.nodes - 1)))
        mask = sum(1 << (first + step) % trial.nodes for step in range(width))
    nodes = tuple(name for place, name in enumerate(trial.node_names) if mask >> place & 1)
    client = choice(draw, tuple(trial.clients))
    lasts_ns = FOR_GOOD if guided and draw.integer(0, 1) == 0 else _length(draw, trial, guided)
    by_ns = choice(draw, (20 * MS_NS, 200 * MS_NS, S_NS)) if issubclass(kind, Delay) else 0
    if issubclass(kind, Reset):
        return timed_fault(kind, when, client, nodes)
    if issubclass(kind, Hold):
        return timed_fault(kind, when, client, nodes, 0, lasts_ns, choice(draw, ("replies", "requests")))
    return timed_fault(kind, when, client, nodes, by_ns, lasts_ns)


def _anchored(draw: Draw, space: Space, names: tuple[str, ...], kind: Kind) -> Trigger:
    events = EVENTS_OF_LINKS if issubclass(kind, LinkFault) else EVENTS_OF_OTHERS
    event = choice(draw, events + FURTHER_EVENTS if space.all_operations else events)
    after_ns = choice(draw, LATER_NS)
    if event == START:
        return at_start(after_ns if draw.integer(0, 2) == 2 else 0)
    return on(choice(draw, names), event, choice(draw, (1, 1, 2, 3)), after_ns)


def _length(draw: Draw, trial: Trial, guided: bool) -> int:
    if not guided:
        return draw.integer(1, 20_000) * MS_NS
    return choice(draw, (100 * MS_NS, S_NS, trial.ttl_ns // 2, trial.ttl_ns + S_NS))


def _jump(draw: Draw, trial: Trial, guided: bool) -> int:
    if not guided:
        return (draw.integer(-30_000, 30_000) or 1) * MS_NS
    past_ns = trial.ttl_ns + S_NS
    return choice(draw, (past_ns, past_ns, 2 * trial.ttl_ns, trial.ttl_ns // 2, -trial.ttl_ns))


def mutated(draw: Draw, space: Space, trial: Trial) -> Trial:
    """A trial like this one: a fault more, a fault less, another one in the place of one, or other rounds."""
    faults = list(trial.faults)
    change = draw.integer(0, 3)
    if change == 0 and len(faults) < FAULTS_MAX:
        faults.insert(draw.integer(0, len(faults)), draw_fault(draw, space, trial, "guided"))
    elif change == 1 and faults:
        faults.pop(draw.integer(0, len(faults) - 1))
    elif change == 2 and faults:
        faults[draw.integer(0, len(faults) - 1)] = draw_fault(draw, space, trial, "guided")
    else:
        name = choice(draw, tuple(trial.clients))
        rounds = tuple(_round(draw, space, "guided") for _ in range(draw.integer(1, ROUNDS_MAX)))
        return msgspec.structs.replace(trial, clients={**trial.clients, name: rounds})
    return msgspec.structs.replace(trial, faults=tuple(faults))
