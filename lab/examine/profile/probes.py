"""Asking a lock what it is: the trials that a profile is made from, and what a profile holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine.kinds import Kind
from lab.examine.programs import ALICE, BOB, MS_NS, Setting
from lab.examine.violations.evidence import NEVER, Evidence, Operation
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.jump import Jump
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.faults import timed_fault
from lab.search.guard import Failure
from lab.search.runner import run_trial
from lab.search.trial import OptionValue, Round

SHORT_NS: Final = 100 * MS_NS
"""How long a lease is used where that does not matter."""
SLOW_NS: Final = 10 * MS_NS
"""By how much each direction is slower where replies are slow: less than any time-out."""
EXTENSIONS: Final = 15
"""How often one lease is extended to see whether there is a limit."""
LONG_TTL_NS: Final = 60_000 * MS_NS
NOT_SHOWN: Final = "not shown"


@dataclass
class Profile:
    """What was learned of a lock; None where it was not shown.

    ``facts`` are sentences, by what they are about. The other fields are what programs decide by:

    - ``nodes_used``: every node that it sent something to, also when others are silent; ``nodes_asked``: how
      many of them an acquire asks.
    - ``blocking``: an acquire waits while another client holds the lock. ``tries``: how often it asks.
    - ``watchdog``: it renews leases unasked.
    - ``gives_up_ns``: after how long an acquire ends if no node answers. ``waits_ns``: by how much longer one
      takes that is granted though a node is silent.
    - ``ttl_step_ns``: leases are multiples of this.
    - ``can``: what a client can do, see ``Setting``.
    - ``nested``: the setting in which its holder takes it again; None: that is not tried.
    """

    kind: Kind
    extends: bool = False
    nested: Setting | None = None
    facts: dict[str, str] = field(default_factory=dict)
    not_tried: list[str] = field(default_factory=list)
    trials: int = 0
    nodes_used: tuple[str, ...] = ()
    nodes_asked: int = 0
    blocking: bool | None = None
    tries: int | None = None
    gives_up_ns: int | None = None
    waits_ns: int = 0
    watchdog: bool | None = None
    ttl_step_ns: int = 1
    uses: int = 0
    can: frozenset[str] = frozenset()

    def must_use_nodes(self) -> tuple[str, ...]:
        """The nodes that the lock uses. Raises ``NotShown`` if it was not seen to use one."""
        if not self.nodes_used:
            raise NotShown("no node was asked for anything")
        return self.nodes_used


class NotShown(Exception):
    """A probe did not show what it was to show, and why."""


class Probes:
    """The trials of one lock, each of them run when it is asked for first; only inside ``trials``."""

    def __init__(self, setting: Setting, check: Callable[[], None] = lambda: None) -> None:
        self.setting, self._check = setting, check
        self.trials = 0
        """How many were run to an end."""
        self.broken: list[UnknownOutcome] = []
        """Why others were not: a client ended with an error outside of its lock's operations."""
        self.looked = 0
        """In how many trials a client's code read its wall clock."""
        self.failures: list[Failure] = []
        """Exceptions that a lock must not raise."""
        self._known: dict[bytes, Evidence | str] = {}

    def see(
        self,
        clients: Mapping[str, tuple[Round, ...]],
        faults: tuple[Timed, ...] = (),
        *,
        nodes: int | None = None,
        ttl_ns: int | None = None,
        options: Mapping[str, OptionValue] | None = None,
        longer: int = 1,
    ) -> Evidence:
        """Run a trial, ``longer`` times as long as others. Raises ``NotShown`` if it could not be run."""
        setting = dataclasses.replace(
            self.setting,
            options=self.setting.options if options is None else options,
            nodes=nodes or self.setting.nodes,
        ).with_ttl(ttl_ns or self.setting.ttl_ns)
        trial = setting.with_clients(dict(clients), faults, demand=False)
        trial = replace(trial, horizon_ns=trial.horizon_ns * longer)
        key = trial.key()
        if key not in self._known:
            self._check()
            try:
                outcome = run_trial(trial, watch=True)
            except UnknownOutcome as error:
                self._known[key] = error.seen
                self.broken.append(error)
            else:
                self.trials += 1
                self.looked += bool(outcome.wall_clock)
                self.failures += outcome.failures
                self._known[key] = Evidence(outcome)
        known = self._known[key]
        if isinstance(known, str):
            raise NotShown(known)
        return known

    # The programs.

    def alone(self) -> Evidence:
        """Alice holds the lock for a moment, twice."""
        return self.see({ALICE: (Round(0, SHORT_NS), Round(4 * SHORT_NS, SHORT_NS))})

    def asked_for(self, key_name: str) -> frozenset[str]:
        """The nodes that an acquire of a free lock under this name sends something to."""
        clients = {ALICE: (Round(0, SHORT_NS),)}
        self._check()
        trial = replace(self.setting.with_clients(clients, demand=False), key_name=key_name)
        try:
            seen = Evidence(run_trial(trial, watch=True))
        except UnknownOutcome as error:
            raise NotShown(error.seen) from error
        return frozenset(request.node for request in seen.during(seen.of(ALICE, "acquire")[0]))

    def in_turns(self) -> Evidence:
        """Alice, Bob and Alice again hold the lock for a moment, one after the other."""
        again = Round(4 * SHORT_NS, SHORT_NS)
        return self.see({ALICE: (Round(0, SHORT_NS), again), BOB: (Round(5 * SHORT_NS // 2, SHORT_NS),)})

    def held(self, options: Mapping[str, OptionValue] | None = None) -> Evidence:
        """Alice holds the lock for most of its lease; Bob asks for it early."""
        ttl_ns = self.setting.ttl_ns
        clients = {ALICE: (Round(0, ttl_ns * 6 // 10),), BOB: (Round(ttl_ns // 10, SHORT_NS),)}
        return self.see(clients, options=options)

    def shared(self) -> Evidence:
        """The same, both as readers."""
        ttl_ns = self.setting.ttl_ns
        alice = Round(0, ttl_ns * 6 // 10, reads=True)
        return self.see({ALICE: (alice,), BOB: (Round(ttl_ns // 10, SHORT_NS, reads=True),)})

    def held_by_default(self) -> Evidence | None:
        """The same with the lock's default options; None if it cannot be made, or used, without others."""
        try:
            seen = self.held(options={})
            granted(seen)
        except NotShown:
            return None
        return seen

    def held_for_long(self) -> Evidence:
        """The same with a long lease."""
        clients = {ALICE: (Round(0, LONG_TTL_NS * 9 // 10),), BOB: (Round(LONG_TTL_NS // 10, SHORT_NS),)}
        return self.see(clients, ttl_ns=LONG_TTL_NS)

    def cut(self, names: tuple[str, ...], nodes: int | None = None, ttl_ns: int | None = None) -> Evidence:
        """Alice asks for the lock, and cannot reach these nodes from the start."""
        faults = (timed_fault(Cut, at_start(), ALICE, names),) if names else ()
        return self.see({ALICE: (Round(0, SHORT_NS),)}, faults, nodes=nodes, ttl_ns=ttl_ns, longer=4)

    def late_release(self) -> Evidence:
        """Alice releases when her lease is over and Bob holds the lock."""
        ttl_ns = self.setting.ttl_ns
        return self.see(
            {ALICE: (Round(0, ttl_ns * 13 // 10),), BOB: (Round(ttl_ns * 105 // 100, ttl_ns * 7 // 10),)}
        )

    def extended(self) -> Evidence:
        """Alice extends one lease many times."""
        hold_ns = (EXTENSIONS + 1) * self.setting.ttl_ns * 3 // 10
        return self.see({ALICE: (Round(0, hold_ns, EXTENSIONS),)})

    def extended_cut(self, names: tuple[str, ...]) -> Evidence:
        """Alice extends her lease once, and cannot reach these nodes from then on."""
        faults = (timed_fault(Cut, on(ALICE, "extend invoke"), ALICE, names),) if names else ()
        return self.see({ALICE: (Round(0, self.setting.ttl_ns * 6 // 10, 1),)}, faults, longer=4)

    def extended_late(self, *, taken: bool) -> Evidence:
        """Alice extends when her lease is over; Bob holds the lock by then, or nobody."""
        ttl_ns = self.setting.ttl_ns
        clients = {ALICE: (Round(0, ttl_ns * 24 // 10, 1),)}
        if taken:
            clients[BOB] = (Round(ttl_ns * 105 // 100, ttl_ns * 8 // 10),)
        return self.see(clients)

    def idle(self) -> Evidence:
        """Alice computes for two and a half leases and never extends; Bob asks long after that."""
        ttl_ns = self.setting.ttl_ns
        clients = {ALICE: (Round(0, ttl_ns * 5 // 2),), BOB: (Round(ttl_ns * 7 // 2, SHORT_NS),)}
        return self.see(clients)

    def short(self, ttl_ns: int) -> Evidence:
        """Alice holds the lock for a moment, with another lease."""
        return self.see({ALICE: (Round(0, SHORT_NS),)}, ttl_ns=ttl_ns)

    def slow(self) -> Evidence:
        """Alice takes the lock, and extends her lease, over links that are slower by `SLOW_NS` each way."""
        slower = timed_fault(Delay, at_start(), ALICE, self.setting.names, by_ns=SLOW_NS)
        return self.see({ALICE: (Round(0, 2 * SHORT_NS, 1),)}, (slower,))

    def restarted(self) -> Evidence:
        """All nodes restart with their data, between two leases of Alice's; the second is extended."""
        when = at_start(10 * SHORT_NS)
        faults = tuple(
            timed_fault(Crash, when, nodes=(name,), lasts_ns=SHORT_NS) for name in self.setting.names
        )
        use = Round(0, 5 * SHORT_NS, 1)
        return self.see({ALICE: (use, replace(use, think_ns=15 * SHORT_NS))}, faults)

    def clock_jumps(self, by_ns: int, event: str, after_ns: int = 0) -> Evidence:
        """Alice's wall clock jumps."""
        fault = timed_fault(Jump, on(ALICE, event, after_ns=after_ns), ALICE, by_ns=by_ns)
        return self.see({ALICE: (Round(0, SHORT_NS),)}, (fault,))


Ask = Callable[[Probes, Profile], str]
"""A question about a lock: what its probes show of it, in a sentence."""


def first(seen: Evidence, client: str, f: str) -> Operation:
    """The first operation of a client of one sort. Raises ``NotShown``."""
    found = seen.of(client, f)
    if not found:
        raise NotShown(f"{client} came to no {f}")
    return found[0]


def granted(seen: Evidence, client: str = ALICE) -> Operation:
    """The first acquire of a client, which was granted. Raises ``NotShown``."""
    acquire = first(seen, client, "acquire")
    if acquire.how != "ok":
        raise NotShown(f"{client}'s acquire {ending(acquire)}")
    return acquire


def ending(operation: Operation) -> str:
    """How an operation ended, in words."""
    error = operation.event.get("error")
    why = f": {str(error).rstrip('.')}" if error else ""
    return {
        "ok": "succeeded",
        "fail": f"was refused{why}",
        "info": f"ended with an unknown outcome{why}",
    }.get(operation.how, "did not end")


def took_ns(operation: Operation) -> int | None:
    """How long an operation took; None if it did not end."""
    return None if operation.ended_ns == NEVER else operation.ended_ns - operation.called_ns


def lock_key(seen: Evidence) -> str:
    """The key that Alice's first acquire wrote: the one that holds its token, or else that will expire."""
    acquire = granted(seen)
    token = acquire.event.get("token")
    written: dict[str, str] = {}
    for request in seen.during(acquire):
        written |= request.wrote()
    if not written:
        raise NotShown("the acquire wrote no text and no hash on any node")
    held = [key for key, value in written.items() if token and token in value]
    return (held or [key for key, value in written.items() if not value.isdigit()] or [*written])[0]
