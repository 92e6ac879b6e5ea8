"""A lease that renews itself, and is over though its holder lives and the nodes answer.

Only of a lock that says that it renews its leases. It may miss one renewal: what a fault kept it from is not
held against it, as long as half of the lease is left when the fault is over. What was sent for the lease
after that shows that the renewal goes on; how it ends then is judged by other rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lab.examine.violations.evidence import MS_NS, Evidence, Operation, watched
from lab.examine.violations.judge import RENEWAL, Violation, labels
from lab.faults.client_crash import ClientCrash
from lab.faults.pause import Pause
from lab.scenario.steps import Close
from lab.search.faults import client_of, is_a
from lab.search.runner import Outcome
from lab.search.trial import Trial

RENEWS: Final = "/renewal of "
"""How the process is named that says of a grant that it is renewed."""
LOOKS: Final = 50
"""So often in a lease it is looked at whether its key is there."""


@dataclass(frozen=True, slots=True)
class Lapse:
    """A lease that was over while it was held.

    ``quiet_ns`` is from when on nothing was in the way: the end of the last fault, or the grant.
    """

    granted: Operation
    quiet_ns: int
    over_ns: int
    held_until_ns: int

    @property
    def after_a_fault(self) -> bool:
        """Whether something had been in the way before."""
        return self.quiet_ns > self.granted.ended_ns


def lapsed_renewals(outcome: Outcome) -> Iterator[Violation]:
    """The first lease of a history whose renewal has stopped. Only inside ``trials``."""
    if not may_lapse(outcome.trial) or not _are_held_long(outcome):
        return
    if (evidence := watched(outcome)) is None:
        return
    for lapse in lapses(evidence):
        client = lapse.granted.client
        seconds = (lapse.held_until_ns - lapse.granted.ended_ns) / 1e9
        held = f"{client}'s lease ended by itself, though {client} held it for {seconds:.1f} s"
        yield Violation(RENEWAL, held, (words(lapse),), clients=(client,))
        return


def may_lapse(trial: Trial) -> bool:
    """Whether it is looked at: not where an assumption is broken, or a client closes its lock."""
    closes = any(isinstance(timed.step, Close) for track in trial.tracks.values() for timed in track)
    return not closes and not labels(trial)


def words(lapse: Lapse) -> str:
    """What was seen: from when on nothing was sent."""
    since = "the last fault was over" if lapse.after_a_fault else "it was granted"
    silent_s = (lapse.over_ns - lapse.quiet_ns) / 1e9
    gone = f"{silent_s:.2f} s later it was on no majority of the nodes"
    return f"nothing was sent for it after {since}, and {gone}"


def _are_held_long(outcome: Outcome) -> bool:
    """Whether some lease that is renewed is released when it would be over without that."""
    renewed = _renewed(outcome)
    granted: dict[str, int] = {}
    for event in outcome.events:
        grant = event.get("grant_id") or ""
        if event["f"] == "acquire" and event["type"] == "ok" and grant in renewed:
            granted[grant] = event["time_ns"] + event.get("ttl_ns", outcome.trial.ttl_ns)
        elif event["f"] == "release" and event["time_ns"] > granted.get(grant, event["time_ns"]):
            return True
    return False


def _renewed(outcome: Outcome) -> set[str]:
    """The grants that are renewed, as their lock says."""
    return {
        process.partition(RENEWS)[2] for event in outcome.events if RENEWS in (process := event["process"])
    }


def lapses(evidence: Evidence) -> Iterator[Lapse]:
    """Every such lease of a watched history."""
    outcome = evidence.outcome
    majority = outcome.trial.majority
    renewed, ends_ns = _renewed(outcome), evidence.fault_ends()
    lost = {event["client"] for event in outcome.events if event["f"] == "lost"}
    for grant in evidence.grants():
        client, ttl_ns = grant.client, int(grant.event.get("ttl_ns", outcome.trial.ttl_ns))
        next_call = next(
            (
                each
                for each in evidence.operations
                if each.client == client
                and each.called_ns >= grant.ended_ns
                and each.f in ("acquire", "extend", "release")
            ),
            None,
        )
        if grant.grant_id not in renewed or client in lost or next_call is None or next_call.f != "release":
            continue
        held_until_ns = next_call.called_ns
        quiet_ns = _quiet_from_ns(outcome, client, grant.ended_ns, held_until_ns, ends_ns)
        if quiet_ns is None:
            continue
        least_left_ms = ttl_ns / 2 / MS_NS if quiet_ns > grant.ended_ns else 0
        if len(evidence.holding(client, quiet_ns, least_left_ms)) < majority:
            continue
        over_ns = next(
            (
                at_ns
                for at_ns in range(quiet_ns, held_until_ns, max(1, ttl_ns // LOOKS))
                if len(evidence.holding(client, at_ns)) < majority
            ),
            None,
        )
        if over_ns is not None and not _sent_anything(outcome, client, quiet_ns, over_ns):
            yield Lapse(grant, quiet_ns, over_ns, held_until_ns)


def _quiet_from_ns(
    outcome: Outcome, client: str, since_ns: int, until_ns: int, ends_ns: dict[str, int]
) -> int | None:
    """From when on no fault was in a client's way; None: one was all the time, or it stood still, or died."""
    quiet_ns = since_ns
    begins_ns = {
        event["fault_id"]: event["time_ns"]
        for event in reversed(outcome.events)
        if event["process"] == "nemesis" and not event.get("heals")
    }
    for number, fault in enumerate(outcome.struck, 1):
        fault_id = f"f{number}"
        if client_of(fault) not in ("", client) or begins_ns.get(fault_id, until_ns) >= until_ns:
            continue
        if is_a(fault, Pause, ClientCrash):
            return None
        over_ns = begins_ns[fault_id] if fault.ending is None else ends_ns.get(fault_id, until_ns)
        if over_ns >= until_ns:
            return None
        quiet_ns = max(quiet_ns, over_ns)
    return quiet_ns


def _sent_anything(outcome: Outcome, client: str, since_ns: int, until_ns: int) -> bool:
    """Whether nodes executed something for a client in between, other than about its connection."""
    return any(
        each.client == client and since_ns < each.time_ns < until_ns and len(each.words) > 1
        for each in outcome.commands
    )
