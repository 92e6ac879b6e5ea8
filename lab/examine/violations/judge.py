"""What is wrong in a trial's history: violations that the checker finds, errors, and calls that hang.

A cheap look at the events comes first; the checker runs only where it may find something. The look may
suspect what the checker clears; a test holds it to missing nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from checker.verdict import Finding, Severity
from lab.errors import LabError
from lab.examine.kinds import client_repeats, limits_its_tries, longest_wait_ns
from lab.examine.violations.own_leases import keeps_itself_away
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.delay import Delay
from lab.faults.down import DownFault
from lab.faults.drift import Drift
from lab.faults.failover import Failover
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.links import LinkFault
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.faults.promote import Promote
from lab.faults.stall_disk import StallDisk
from lab.scenario.tracks import Timed
from lab.search.actor import capacity_in
from lab.search.faults import client_of, every_fault, is_a
from lab.search.runner import ZERO_NS, Outcome, given_longer, is_unattended, run_trial
from lab.search.suspicion import named, suspected
from lab.search.trial import Trial
from lab.substrates.sim.clock import MONOTONIC_START_NS
from lab.substrates.sim.errors import SimulationError

ERROR: Final = "error"
"""The lock raised an exception that no lock may raise."""
HANG: Final = "hang"
"""An operation never came to an end."""
HANG_NS: Final = 1000 * 10**9
"""A call that has not ended after this never ends.

It is longer than a time-out that a client library has for a node (60 s of PHP and of Lettuce are the longest
among those that are driven here), and than Linux itself waits for an acknowledgement by default (924 s).
"""
RELEASE: Final = "release-without-effect"
"""A release left the key of its lease on the nodes, though no fault struck and the lease lasted yet."""
RENEWAL: Final = "renewal-stops"
"""A lease that renews itself was over while its holder lived and nodes answered."""
LATE_RETURN: Final = "late-return"
"""An acquire took far longer than the lock says that it waits, though no fault struck."""
_KNOWN: Final[OrderedDict[bytes, frozenset[tuple[str, str]]]] = OrderedDict()
"""Which calls have no end in the last trials in which that was asked: a trial is judged more than once."""
KNOWN_MAX: Final = 256
FOR_EVER_NS: Final = 1 << 62
LEASES: Final = 3
"""A call that takes longer than so many leases had time enough."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong: the finding's name, one sentence, and the events that show it."""

    finding: str
    headline: str
    evidence: tuple[str, ...] = ()
    witnesses: tuple[int, ...] = ()
    clients: tuple[str, ...] = ()


def violations(outcome: Outcome) -> dict[str, Violation]:
    """All that is wrong in this history, by the finding's name; the first of each; only inside ``trials``."""
    found: dict[str, Violation] = {}
    for failure in outcome.failures:
        headline = f"{failure.client}'s {failure.f} raised {failure.error}"
        evidence = (f"in {failure.where}",)
        found.setdefault(ERROR, Violation(ERROR, headline, evidence, clients=(failure.client,)))
    for event in unfinished(outcome):
        if not never_ends(outcome.trial, event.get("grant_id", ""), event["f"]):
            continue
        headline = f"{event['client']}'s {event['f']} never came to an end"
        called = f"it was called {_seconds(outcome, event['time_ns'])} after the start"
        evidence = (f"{called}, and had not ended {HANG_NS / 1e9:.0f} s later",)
        found.setdefault(HANG, Violation(HANG, headline, evidence, clients=(event["client"],)))
    for event, took_ns in outwaited(outcome):
        headline = f"{event['client']}'s acquire took longer than the lock says that it waits"
        seen = f"called {_seconds(outcome, event['time_ns'])} after the start; it took {took_ns / 1e9:.1f} s"
        found.setdefault(LATE_RETURN, Violation(LATE_RETURN, headline, (seen,), clients=(event["client"],)))
    if only := suspected(outcome):
        for finding in named(outcome, only):
            if finding.name == "false-validity" and _extends_for_less(outcome.trial):
                continue
            of_one = finding.name in ("overlap", "over-capacity") and len(set(finding.clients)) == 1
            # What a client may take that has the lock itself differs: some let a writer read, too.
            may_have_two = capacity_in(outcome.trial).read_write
            if finding.name in ("leak", "unavailable") and keeps_itself_away(outcome, finding.clients):
                continue
            if finding.severity is Severity.VIOLATION and not (of_one and may_have_two):
                found.setdefault(finding.name, _violation(finding))
    return found


def _extends_for_less(trial: Trial) -> bool:
    """Whether leases are extended for less time: a lock may keep the key, and the claim, as they were.

    The nodes tell how long the key will be there; see ``own_findings``.
    """
    rounds = (each for rounds in trial.clients.values() for each in rounds)
    return any(0 < each.extend_ttl_ns < (each.ttl_ns or trial.ttl_ns) for each in rounds)


def _violation(finding: Finding) -> Violation:
    headline = finding.headline or finding.why
    return Violation(finding.name, headline, finding.evidence, finding.witnesses, finding.clients)


def unfinished(outcome: Outcome) -> list[dict[str, Any]]:
    """The calls that had no end although their client was well, and they had some leases of time for it.

    Whether they have one later ``never_ends`` says.

    An acquire of a lock that takes no number of tries may wait for the lock, for as long as it likes; that is
    judged by who gets it. Any other may take so long for each node, since it may ask them one by one. Where
    faults struck, a client library that repeats what is not answered may take a time that nobody states. No
    acquire may wait for a lock that is free and that nobody else asks for, where no fault struck.
    """
    trial = outcome.trial
    may_wait = not limits_its_tries(trial.lock, trial.options)
    repeats = may_repeat(outcome)
    last_ns, end_ns = _last_ns(outcome), end_ns_of(outcome)
    still = _out_of_action(outcome)
    pending = _pending(outcome)
    in_vain = (
        len(pending) == 1
        and end_ns - last_ns > LEASES * trial.longest_ttl_ns
        and _is_free_for(outcome, *pending.values())
    )

    def may_take_ns(event: dict[str, Any]) -> int:
        if repeats:
            return FOR_EVER_NS
        if event["f"] != "acquire" or in_vain:
            return LEASES * trial.longest_ttl_ns
        return FOR_EVER_NS if may_wait else LEASES * trial.longest_ttl_ns * trial.nodes

    return [
        event
        for client, event in pending.items()
        if client not in still and end_ns - event["time_ns"] > may_take_ns(event)
    ]


def _last_ns(outcome: Outcome) -> int:
    return max((event["time_ns"] for event in outcome.events), default=0)


def end_ns_of(outcome: Outcome) -> int:
    """The end of a trial in which a call has no end: it was given all its time."""
    return max(_last_ns(outcome), MONOTONIC_START_NS + outcome.trial.horizon_ns)


def never_ends(trial: Trial, grant_id: str, f: str) -> bool:
    """Whether a call without an end in a trial has none if it gets ``HANG_NS`` more; only inside ``trials``.

    If that can't be run, nobody knows, and it counts as one that might have ended.
    """
    key = trial.key()
    if key not in _KNOWN:
        if len(_KNOWN) == KNOWN_MAX:
            _KNOWN.popitem(last=False)
        _KNOWN[key] = _never_ending(trial)
    return (grant_id, f) in _KNOWN[key]


def _never_ending(trial: Trial) -> frozenset[tuple[str, str]]:
    """The calls, by their grants and operations, that have no end after ``HANG_NS`` in a trial."""
    try:
        outcome = run_trial(given_longer(trial, HANG_NS))
    except (LabError, SimulationError):
        return frozenset()
    end_ns, gone = end_ns_of(outcome), _out_of_action(outcome)
    return frozenset(
        (event.get("grant_id", ""), event["f"])
        for client, event in _pending(outcome).items()
        if client not in gone and end_ns - event["time_ns"] > HANG_NS
    )


def _pending(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """The call that each client waits for at the end, if it waits for one."""
    pending: dict[str, dict[str, Any]] = {}
    for event in outcome.events:
        client = event.get("client")
        if client is not None and not is_unattended(event):
            if event["type"] == "invoke":
                pending[client] = event
            else:
                pending.pop(client, None)
    return pending


def outwaited(outcome: Outcome) -> Iterator[tuple[dict[str, Any], int]]:
    """The calls of acquires that took far longer than the lock says that it waits, and how long that was."""
    trial = outcome.trial
    limit_ns = None if outcome.struck else longest_wait_ns(trial.lock, trial.options)
    if limit_ns is None:
        return
    called: dict[str, dict[str, Any]] = {}
    for event in outcome.events:
        if event["f"] == "acquire" and not is_unattended(event):
            if event["type"] == "invoke":
                called[event["grant_id"]] = event
            elif event["grant_id"] in called:
                call = called.pop(event["grant_id"])
                if event["time_ns"] - call["time_ns"] > limit_ns:
                    yield call, event["time_ns"] - call["time_ns"]
    end_ns = MONOTONIC_START_NS + trial.horizon_ns
    yield from (
        (each, end_ns - each["time_ns"]) for each in called.values() if end_ns - each["time_ns"] > limit_ns
    )


def may_repeat(outcome: Outcome) -> bool:
    """Whether calls may take a time that nobody states: their client repeats what faults kept from it."""
    return bool(outcome.struck) and client_repeats(outcome.trial.lock)


def _is_free_for(outcome: Outcome, asked: dict[str, Any]) -> bool:
    """Whether those who can hold a lock at the end, some leases after the last event, leave room for a call.

    No fault struck, and the other grants were given back; what attempts of unknown outcome set has run out.
    """
    if outcome.struck:
        return False
    capacity, held = capacity_in(outcome.trial), dict[str, int]()
    for event in outcome.events:
        if event["f"] == "acquire" and event["type"] == "ok":
            held[event["grant_id"]] = capacity.weight(event.get("value"))
        elif event["f"] == "release" and event["type"] in ("ok", "fail"):
            held.pop(event["grant_id"], None)
    return sum(held.values()) + capacity.weight(asked.get("value")) <= capacity.room


def _out_of_action(outcome: Outcome) -> set[str]:
    """The clients that were killed, or paused for good."""
    return {
        client_of(fault)
        for fault in outcome.struck
        if is_a(fault, ClientCrash) or (is_a(fault, Pause) and not fault.lasts_ns)
    }


def _seconds(outcome: Outcome, time_ns: int) -> str:
    return f"{(time_ns - ZERO_NS) / 1e9:.2f} s"


DRIFT_BORNE_PPM: Final = 9_000
"""Up to this rate of drift a margin of 1 % of the TTL is enough."""


def labels(trial: Trial) -> frozenset[str]:
    """What of this trial leaves the assumptions that a lock may make, in words that limits are listed by."""
    found: set[str] = set()
    for fault in every_fault(trial):
        step = fault.step
        if isinstance(step, Jump):
            found.add("a client's clock jumps" if step.client else "a node's clock jumps")
        elif isinstance(step, Drift) and abs(step.ppm) > DRIFT_BORNE_PPM:
            found.add("a client's clock drifts" if step.client else "a node's clock drifts")
        elif is_a(fault, Pause):
            found.add("a client is paused")
        elif is_a(fault, Promote):
            found.add("a replica becomes the master")
        elif is_a(fault, ClientCrash):
            found.add("a client dies")
        elif _held_ns(fault) > min(trial.leases_ns) // 10:
            found.add("packets are held up for long")
        elif (is_a(fault, Crash) and trial.persistence in ("none", "rdb")) or (
            is_a(fault, PowerCut) and trial.persistence != "aof-always"
        ):
            found.add("a node forgets")
        if trial.sentinels and hits_servers(fault):
            found.add("a replica becomes the master")
    return frozenset(found)


def _held_ns(fault: Timed) -> int:
    """For how long one packet is held up: by a delay so long as it says, however long the network is slow."""
    if isinstance(fault.step, Delay):
        return fault.step.by_ns + fault.step.jitter_ns
    return (fault.lasts_ns or FOR_EVER_NS) if isinstance(fault.step, Hold) else 0


def hits_servers(fault: Timed) -> bool:
    """Whether Sentinels may promote a replica on account of it.

    A crash of a moment can be enough: a Sentinel tries to connect again once a second.
    """
    of_client = bool(client_of(fault))
    return is_a(fault, DownFault, Failover, StallDisk) or (not of_client and is_a(fault, Pause, LinkFault))
