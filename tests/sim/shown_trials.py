"""Small trials that violate, one for each kind of finding and of fault: written by hand, to be told."""

from __future__ import annotations

from typing import Final

from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.scenario.triggers import at_start, on
from lab.search.faults import timed_fault
from lab.search.trial import OptionValue, Round, Trial

MS_NS, S_NS = 10**6, 10**9
OPTIONS: Final[dict[str, OptionValue]] = {"node_timeout": "250ms", "retry_count": 1}
PATIENT: Final[dict[str, OptionValue]] = {"node_timeout": "30s", "retry_count": 1}
DEMAND_NS: Final = 20 * S_NS
HELD = Round(0, 3 * S_NS)
KEPT = Round(0, 0, ends="keep")
FREED = Round(0, 0)
ALL: Final = ("A", "B", "C", "D", "E")


def late(after_ns: int, hold_ns: int = 3 * S_NS, extends: int = 0) -> Round:
    """A round that begins so late."""
    return Round(after_ns, hold_ns, extends)


CASES: Final[dict[str, tuple[str, Trial]]] = {
    "a bare DEL after the lease": (
        "overlap",
        Trial(
            "mutant:bare-del",
            {"alice": (Round(0, 12 * S_NS), HELD), "bob": (late(11 * S_NS),)},
            options=OPTIONS,
        ),
    ),
    "nothing is released": (
        "unavailable",
        Trial("mutant:no-release", {"alice": (FREED,), "bob": ()}, demand_ns=DEMAND_NS, options=OPTIONS),
    ),
    "both leave keys when they are refused": (
        "leak",
        Trial(
            "mutant:retry-without-unlock",
            {
                "alice": (Round(300 * MS_NS, 15 * S_NS, extends=1),),
                "bob": (late(S_NS), late(2 * S_NS), late(2 * S_NS)),
            },
            (
                timed_fault(Hold, on("alice", "release invoke"), "bob", ("D", "E"), direction="replies"),
                timed_fault(Cut, at_start(), "alice", ("B",)),
            ),
            horizon_ns=78 * S_NS,
            demand_ns=34 * S_NS,
            options=OPTIONS,
        ),
    ),
    "an extension that prolongs nothing": (
        "overlap",
        Trial(
            "mutant:extends-locally",
            {"alice": (Round(0, 16 * S_NS, extends=1),), "bob": (late(11 * S_NS),)},
            options=OPTIONS,
        ),
    ),
    "an extension that adds up": (
        "false-validity",
        Trial("mutant:extension-adds-up", {"alice": (Round(0, 6 * S_NS, extends=1),)}, options=OPTIONS),
    ),
    "counted from slow replies": (
        "false-validity",
        Trial(
            "mutant:counts-from-replies",
            {"alice": (HELD,)},
            (timed_fault(Hold, at_start(), "alice", ALL, lasts_ns=500 * MS_NS, direction="replies"),),
            options=PATIENT,
        ),
    ),
    "a client's clock jumps back on the way": (
        "false-validity",
        Trial(
            "mutant:wall-clock",
            {"alice": (HELD,)},
            (
                timed_fault(Hold, at_start(), "alice", ALL, lasts_ns=500 * MS_NS, direction="replies"),
                timed_fault(Jump, at_start(200 * MS_NS), "alice", by_ns=-5 * S_NS),
            ),
            options=PATIENT,
        ),
    ),
    "an extension fails and releases": (
        "overlap",
        Trial(
            "mutant:failed-extension-releases",
            {"alice": (Round(0, 6 * S_NS, extends=1),), "bob": (late(4 * S_NS),)},
            (timed_fault(Cut, on("alice", "extend invoke"), "alice", ("C", "D", "E"), direction="replies"),),
            options=OPTIONS,
        ),
    ),
    "a key without an end is kept": (
        "leak",
        Trial(
            "mutant:set-without-expiry",
            {"alice": (KEPT,), "bob": ()},
            demand_ns=8 * S_NS,
            options=OPTIONS,
            ttl_ns=2 * S_NS,
        ),
    ),
    "the holder of a key without an end is killed": (
        "leak",
        Trial(
            "mutant:set-without-expiry",
            {"alice": (HELD,), "bob": (late(S_NS, 0),)},
            (timed_fault(ClientCrash, on("alice", "granted"), "alice"),),
            demand_ns=8 * S_NS,
            options=OPTIONS,
            ttl_ns=2 * S_NS,
        ),
    ),
    "killed before any reply": (
        "leak",
        Trial(
            "mutant:set-without-expiry",
            {"alice": (HELD,), "bob": (late(2 * S_NS, 0),)},
            (
                timed_fault(Cut, at_start(), "alice", ALL, direction="replies"),
                timed_fault(ClientCrash, on("alice", "acquire invoke", after_ns=S_NS), "alice"),
            ),
            demand_ns=8 * S_NS,
            options=PATIENT,
            ttl_ns=2 * S_NS,
        ),
    ),
    "a SET comes after its undo": (
        "unavailable",
        Trial(
            "mutant:late-set-not-undone",
            {"alice": (HELD,), "bob": (late(S_NS, 0),)},
            (
                timed_fault(
                    Hold, at_start(), "alice", ("C", "D", "E"), lasts_ns=400 * MS_NS, direction="requests"
                ),
            ),
            demand_ns=DEMAND_NS,
            options=OPTIONS,
        ),
    ),
    "a client stands still as it sends": (
        "unavailable",
        Trial(
            "mutant:late-set-not-undone",
            {"alice": (HELD,), "bob": (late(2 * S_NS, 0),)},
            (timed_fault(Pause, on("alice", "sends"), "alice", lasts_ns=S_NS),),
            demand_ns=DEMAND_NS,
            options=OPTIONS,
        ),
    ),
    "replies come when the lease is over": (
        "false-validity",
        Trial(
            "mutant:no-elapsed-check",
            {"alice": (HELD,)},
            (timed_fault(Hold, on("alice", "sends"), "alice", ALL, lasts_ns=11 * S_NS, direction="replies"),),
            options=PATIENT,
        ),
    ),
    "all nodes are needed and one is away": (
        "unavailable",
        Trial(
            "mutant:needs-all-nodes",
            {"alice": ()},
            (timed_fault(Cut, at_start(), "alice", ("A",)),),
            demand_ns=DEMAND_NS,
            options=OPTIONS,
        ),
    ),
    "an extension takes the lock again": (
        "continuity-loss",
        Trial(
            "mutant:extend-reacquires",
            {"alice": (Round(0, 24 * S_NS, extends=1),), "bob": (late(10_500 * MS_NS, 500 * MS_NS),)},
            options=OPTIONS,
        ),
    ),
    "one node's clock runs too fast": (
        "overlap",
        Trial(
            "redlock",
            {"alice": (Round(0, 9500 * MS_NS),), "bob": (late(8800 * MS_NS),)},
            tuple(timed_fault(Drift, at_start(), nodes=(node,), ppm=200_000) for node in "ABC"),
            options=OPTIONS,
        ),
    ),
    "a node's clock jumps": (
        "overlap",
        Trial(
            "redlock",
            {"alice": (HELD,), "bob": (late(300 * MS_NS),)},
            (
                timed_fault(Cut, at_start(), "alice", ("D", "E")),
                timed_fault(Jump, on("alice", "granted"), nodes=("C",), by_ns=11 * S_NS),
            ),
            options=OPTIONS,
        ),
    ),
    "the release is lost with its connections": (
        "unavailable",
        Trial(
            "tests.sim.campaign_locks:SaysReleased",
            {"alice": (FREED,), "bob": (late(300 * MS_NS),)},
            (timed_fault(Reset, on("alice", "release invoke"), "alice", ALL),),
            demand_ns=DEMAND_NS,
            options=OPTIONS,
        ),
    ),
    "a pause before the write": (
        "stale-write",
        Trial(
            "redlock",
            {"alice": (FREED,), "bob": (late(10_500 * MS_NS, 0),)},
            (timed_fault(Pause, on("alice", "write invoke"), "alice", lasts_ns=11 * S_NS),),
            options=OPTIONS,
        ),
    ),
    "a store that ignores fences": (
        "fence-breach",
        Trial(
            "mutant:store-ignores-fence",
            {"alice": (FREED,), "bob": (late(10_500 * MS_NS, 0),)},
            (timed_fault(Pause, on("alice", "write invoke"), "alice", lasts_ns=11 * S_NS),),
            options=OPTIONS,
            store_fences=True,
        ),
    ),
    "a client that believes in its wall clock": (
        "lost-update",
        Trial(
            "mutant:believes-by-wall-clock",
            {"alice": (Round(0, 11 * S_NS),), "bob": (late(10_500 * MS_NS, 0),)},
            (timed_fault(Jump, on("alice", "granted"), "alice", by_ns=-5 * S_NS),),
            options=OPTIONS,
        ),
    ),
    "both ask at once": (
        "overlap",
        Trial("mutant:get-then-set", {"alice": (), "bob": ()}, nodes=1, demand_ns=38 * S_NS, options=OPTIONS),
    ),
    "paused when its requests are on their way": (
        "false-validity",
        Trial(
            "mutant:no-elapsed-check",
            {"alice": (FREED,)},
            (timed_fault(Pause, on("alice", "acquire invoke"), "alice", lasts_ns=11 * S_NS),),
            nodes=3,
            options=PATIENT,
        ),
    ),
    "released before the write": (
        "overlap",
        Trial(
            "mutant:release-before-write",
            {"alice": (Round(0, 3 * S_NS, ends="keep"),)},
            nodes=3,
            demand_ns=38 * S_NS,
            horizon_ns=80 * S_NS,
            options=OPTIONS,
        ),
    ),
    "a crash without a file": (
        "overlap",
        Trial(
            "redlock",
            {"alice": (HELD,), "bob": (late(300 * MS_NS),)},
            (
                timed_fault(Cut, at_start(), "alice", ("D", "E")),
                timed_fault(Crash, on("alice", "granted"), nodes=("C",), lasts_ns=100 * MS_NS),
            ),
            options=OPTIONS,
            persistence="none",
        ),
    ),
}
"""By name: the finding, and the trial."""
