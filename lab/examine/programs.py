"""What clients do while a lock is examined: small programs that hold what locks do, by two clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lab.drivers import is_driver
from lab.drivers.shapes import shape_of
from lab.faults.cut import Cut
from lab.locks.capacity import ONE_HOLDER, Capacity
from lab.scenario.steps import Acquire, Release
from lab.scenario.tracks import Timed
from lab.scenario.triggers import after, at_start
from lab.scenario.types import NODE_NAMES
from lab.search.as_tracks import action
from lab.search.faults import timed_fault
from lab.search.trial import START_NS, Ending, OptionValue, Round, Track, Trial

MS_NS: Final = 1_000_000
S_NS: Final = 1_000_000_000
TTL_NS: Final = 5 * S_NS
ALICE, BOB = "alice", "bob"


@dataclass(frozen=True, slots=True)
class Program:
    """What two clients do: a name, what it is about, and their rounds for a lease of ``ttl_ns``.

    With ``other`` each of them also takes a lock on another key, while it holds the first one.
    """

    name: str
    about: str
    alice: tuple[tuple[float, float, int, Ending], ...]
    """Rounds: pause and hold in TTLs, extensions, how it ends."""
    bob: tuple[tuple[float, float, int, Ending], ...]
    extends: bool = False
    """Whether it says something only of locks that can extend a lease."""
    other: bool = False

    @property
    def takes_it_again(self) -> bool:
        """Whether a client takes the lock while it may hold it still, or releases it twice."""
        return any(ends != "release" for _, _, _, ends in (*self.alice, *self.bob))

    def clients(self, ttl_ns: int) -> dict[str, tuple[Round, ...]]:
        """The rounds of each client."""
        return {ALICE: self._rounds(self.alice, ttl_ns), BOB: self._rounds(self.bob, ttl_ns)}

    def _rounds(self, parts: tuple[tuple[float, float, int, Ending], ...], ttl_ns: int) -> tuple[Round, ...]:
        return tuple(
            Round(int(pause * ttl_ns), int(hold * ttl_ns), extends, ends, other=self.other)
            for pause, hold, extends, ends in parts
        )


_QUICK: Final[tuple[float, float, int, Ending]] = (0.0, 0.1, 0, "release")
_TURN: Final[tuple[float, float, int, Ending]] = (0.15, 0.1, 0, "release")
PROGRAMS: Final[tuple[Program, ...]] = (
    Program(
        "contend",
        "Both ask for the lock; one holds it for a third of its lease.",
        ((0.0, 0.3, 0, "release"),),
        ((0.1, 0.1, 0, "release"),),
    ),
    Program("at once", "Both ask at the same time, twice.", (_QUICK, _QUICK), (_QUICK, _QUICK)),
    Program(
        "late",
        "Alice is late: her lease is over when she checks and releases; Bob holds the lock by then.",
        ((0.0, 1.3, 0, "release"), _QUICK),
        ((1.05, 0.7, 0, "release"),),
    ),
    Program(
        "whole lease",
        "Alice holds the lock to the end of her lease; Bob asks all the time.",
        ((0.0, 0.985, 0, "release"),),
        ((0.4, 0.1, 0, "release"),),
    ),
    Program(
        "handed over",
        "Alice releases at the end of her lease; Bob takes the lock soon after that.",
        ((0.0, 0.9, 0, "release"), _QUICK),
        ((1.02, 0.7, 0, "release"),),
    ),
    Program(
        "two keys",
        "Each client takes another key as well, while it holds the first.",
        ((0.0, 0.1, 0, "release"), (1.5, 1.3, 0, "release")),
        ((0.15, 0.1, 0, "release"), (0.25, 0.8, 0, "release")),
        other=True,
    ),
    Program(
        "kept",
        "Alice lets her lease run out; Bob asks until he gets the lock.",
        ((0.0, 0.1, 0, "keep"),),
        ((0.5, 0.1, 0, "release"),),
    ),
    Program(
        "in turns",
        "They take turns.",
        (_QUICK, (0.2, 0.1, 0, "release")),
        (_TURN, _TURN),
    ),
    Program(
        "released twice",
        "Alice releases twice, around a grant of Bob's.",
        ((0.0, 0.05, 0, "twice"), (0.0, 0.05, 0, "release")),
        ((0.05, 0.5, 0, "release"),),
    ),
    Program(
        "extended",
        "Alice extends in time, past the first end of her lease; Bob asks when that would have been.",
        ((0.0, 1.8, 2, "release"),),
        ((1.05, 0.1, 0, "release"),),
        extends=True,
    ),
    Program(
        "extended early",
        "Alice extends at once; Bob asks after the first lease and after the second.",
        ((0.0, 1.0, 3, "release"),),
        ((0.9, 0.1, 0, "release"), (0.2, 0.2, 0, "release")),
        extends=True,
    ),
    Program(
        "extended late",
        "Alice extends when her lease is over and Bob holds the lock.",
        ((0.0, 2.4, 1, "release"), _QUICK),
        ((1.05, 0.8, 0, "release"),),
        extends=True,
    ),
    Program(
        "extended by two",
        "Both extend, one after the other.",
        ((0.0, 0.6, 1, "release"), (0.1, 0.6, 1, "release")),
        ((0.3, 1.3, 2, "release"),),
        extends=True,
    ),
)
"""All of them, the plainest first."""
AFTER_ANOTHER: Final = Program(
    "extended after another",
    "Alice extends when her lease is over, and Bob has had the lock and given it back meanwhile.",
    ((0.0, 2.6, 1, "release"),),
    ((1.05, 0.1, 0, "release"),),
    extends=True,
)
"""One that is tried without faults only, as a situation."""


@dataclass(frozen=True)
class Setting:
    """What all trials of one examination have in common: the lock, its options, its nodes, its lease."""

    lock: str
    options: Mapping[str, OptionValue]
    nodes: int = 5
    ttl_ns: int = TTL_NS
    fences: bool = False
    server: str = ""
    keys: str = ""
    """The pattern of keys, in place of the lock's own."""
    ttl_step_ns: int = 1
    """Leases are multiples of this."""
    uses: int = 0
    """How many of the nodes the lock uses for one key, where that depends on the key; 0: all."""
    observed: bool = False
    """Whether no node knows the end of a lease: who wants the lock watches its record."""
    replicated: bool = False
    """Whether the first node is a master, and all others are its replicas."""
    sentinels: int = 0
    """How many Sentinels watch that master."""
    capacity: Capacity = ONE_HOLDER
    """How many may hold the lock at once."""
    reentrant: bool = False
    """Whether its holder is granted the lock again."""
    can: frozenset[str] = frozenset(("cancel", "tasks", "close"))
    """What a client can do beside acquire, extend and release; a driver says it, and has no ``close``."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its nodes."""
        return NODE_NAMES[: self.nodes]

    @property
    def extends_for_any_ttl(self) -> bool:
        """Whether an extension may ask for another lease than its acquire: not if it takes no TTL."""
        shape = shape_of(self.lock)
        return shape is None or shape.extend is None or shape.extend_takes_ttl

    def with_ttl(self, ttl_ns: int) -> Setting:
        """The same setting with another lease, the next longer one that the lock can have."""
        return replace(self, ttl_ns=-(-ttl_ns // self.ttl_step_ns) * self.ttl_step_ns)

    def with_nodes(self, nodes: int) -> Setting:
        """The same setting with so many nodes."""
        return replace(self, nodes=nodes)

    def trial(
        self, program: Program, faults: tuple[Timed, ...] = (), *, seed: int = 0, demand: bool = True
    ) -> Trial:
        """A program of this setting, with these faults."""
        return self.with_clients(program.clients(self.ttl_ns), faults, seed=seed, demand=demand)

    def with_clients(
        self,
        clients: Mapping[str, tuple[Round, ...]],
        faults: tuple[Timed, ...] = (),
        *,
        seed: int = 0,
        demand: bool = True,
    ) -> Trial:
        """A trial of this setting with these clients, beside those that hold all permits but one."""
        holders = self.holders()
        return Trial(
            self.lock,
            {**clients, **dict.fromkeys(holders, ())},
            faults,
            nodes=self.nodes,
            ttl_ns=self.ttl_ns,
            options=dict(self.options),
            store_fences=self.fences,
            server=self.server,
            uses=self.uses,
            observed=self.observed,
            reentrant=self.reentrant,
            replicated=self.replicated,
            sentinels=self.sentinels,
            seed=seed,
            horizon_ns=self._horizon_ns,
            demand_ns=3 * self.ttl_ns + 4 * S_NS if demand else 0,
            keys=self.keys,
            tracks=holders,
            **self.said_of_driver,
        )

    @property
    def said_of_driver(self) -> dict[str, Any]:
        """What a trial says of how many may hold a driver's lock, where it is not one."""
        if not is_driver(self.lock) or self.capacity.of_one:
            return {}
        permits = self.capacity.permits
        return {"permits": permits if permits > 1 else 0, "read_write": self.capacity.read_write}

    def holders(self) -> dict[str, Track]:
        """Clients that hold all permits but one of a semaphore, over and over again, to the end of any trial.

        Each gives its permit back in its lease and insists on another one at once: what is tried of two
        clients of a lock is tried of a semaphore so, and the last permit changes hands between all of them.
        """
        ttl_ns = self.ttl_ns
        turn = (
            action(Acquire, insist_ns=self._horizon_ns, pause_ns=ttl_ns // 50),
            action(Release, after(ttl_ns * 17 // 20)),
        )
        turns = self._horizon_ns // (ttl_ns * 17 // 20) + 1
        return {f"holder-{number}": turn * turns for number in range(1, self.capacity.permits)}

    @property
    def _horizon_ns(self) -> int:
        return 7 * self.ttl_ns + 8 * S_NS


def split(
    setting: Setting, of_alice: int, of_bob: int, *, at_open: bool = False, refused: bool = False
) -> Trial:
    """Alice reaches the first nodes only, Bob the last ones only, from the start and for good.

    With ``at_open`` also while they open their locks; with ``refused`` connections to the others are refused.
    """
    when = at_start(-START_NS if at_open else 0)
    names = setting.names
    cuts = tuple(
        timed_fault(Cut, when, client, lost, refused=refused)
        for client, lost in ((ALICE, names[of_alice:]), (BOB, names[: setting.nodes - of_bob]))
        if lost
    )
    held = setting.ttl_ns * 6 // 10
    clients = {
        ALICE: (Round(0, held),),
        BOB: (Round(setting.ttl_ns // 10, held),),
    }
    return setting.with_clients(clients, cuts, demand=False)
