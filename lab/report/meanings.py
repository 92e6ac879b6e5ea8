"""The meanings of properties and findings, for pages and documents.

How each finding is decided, and why that is sound, is in the checker's modules (`home`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from checker.verdict import Outcome, Property, Verdict
from checker.words import listed


@dataclass(frozen=True, slots=True)
class Promise:
    """A property: its name in tables, what it promises, and what happened if it was violated.

    ``letter`` is its column in the grid of a survey, which has the properties that every lock promises.
    """

    short: str
    promise: str
    broken: str
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A finding in a few words and in full, what it counts as, and the module that decides it."""

    short: str
    text: str
    counts: str
    home: str


PROMISES: Final[Mapping[Property, Promise]] = {
    Property.MUTUAL_EXCLUSION: Promise(
        "exclusion", "No two clients hold the lock at once", "two clients held the lock at once", "M"
    ),
    Property.LEASE_HONESTY: Promise(
        "honesty",
        "The lock reports no validity that the nodes do not grant",
        "the lock reported a validity that the nodes did not grant",
        "H",
    ),
    Property.FENCING: Promise(
        "fencing",
        "A late write of an earlier holder is stopped",
        "a late write of an earlier holder was accepted",
        "F",
    ),
    Property.RESOURCE: Promise(
        "resource", "No update of the resource is lost", "an update of the resource was lost", "R"
    ),
    Property.DEADLOCK_FREEDOM: Promise(
        "deadlock freedom",
        "A lock that no client holds can be acquired again",
        "no client held the lock and none could acquire it",
        "D",
    ),
    Property.FAULT_TOLERANCE: Promise(
        "fault tolerance",
        "The lock is granted while a majority of nodes is up",
        "no grant was made while a majority was up",
        "T",
    ),
    Property.FAIRNESS: Promise(
        "fairness",
        "The lock is granted in the order of the requests",
        "a later request was granted before an earlier one",
    ),
    Property.TIMELINESS: Promise(
        "timeliness",
        "A try with a time-out returns in time",
        "a try returned after its time-out was over",
    ),
}

_OF_THE_LOCK: Final = (Property.MUTUAL_EXCLUSION, Property.LEASE_HONESTY)
_OF_THE_RESOURCE: Final = (Property.FENCING, Property.RESOURCE)
_OF_FENCES: Final = ("fence-order", "fence-breach")


def headline(verdict: Verdict) -> str:
    """What happened, in one sentence that follows from the outcomes of the properties alone.

    A lock without fences does not promise to stop late writes: if only fencing or the resource is violated,
    and no fence was in the wrong order or wrongly accepted, the lock kept its promise.
    """
    seen = {name: verdict.properties[name].outcome for name in Property if name in verdict.properties}
    violated = [name for name, outcome in seen.items() if outcome is Outcome.VIOLATED]
    unknown = [_name(name) for name, outcome in seen.items() if outcome is Outcome.UNKNOWN]
    harmed = [name for name in violated if name in _OF_THE_RESOURCE]
    fenced = any(f.name in _OF_FENCES for name in harmed for f in verdict.properties[name].findings)
    named = [name for name in violated if name not in harmed or (fenced and name is Property.FENCING)]
    if not violated:
        but = f"; not decided: {listed(unknown)}" if unknown else ""
        return f"No violation was found{but}."
    words = ""
    if named:
        were = "was" if len(named) == 1 else "were"
        words = f"{listed([_name(name) for name in named]).capitalize()} {were} violated"
    elif all(seen.get(name) is Outcome.OK for name in _OF_THE_LOCK):
        words = "The lock kept its promise"
    if harmed:
        joint = ", and the" if named else "; the" if words else "The"
        words += f"{joint} resource was not protected"
    return f"{words}: {listed([PROMISES[name].broken for name in violated])}."


def _name(name: Property) -> str:
    return str(name).replace("_", " ")


FINDINGS: Final[Mapping[str, Meaning]] = {
    "overlap": Meaning(
        "two clients certainly held the lock at once",
        "Two clients held the same lock at once, and no execution in which the nodes keep keys for their TTL "
        "explains it: their guaranteed windows intersect, however clocks drifted within their bound.",
        "violates mutual exclusion",
        "checker.properties.mutual_exclusion",
    ),
    "belief-overlap": Meaning(
        "two clients believed at once that they held it",
        "Two clients believed at once that they held the lock, although their guaranteed windows did not "
        "overlap. The lock kept its promise; one of the clients did not check its lease.",
        "a warning about the clients",
        "checker.properties.mutual_exclusion",
    ),
    "possible-overlap": Meaning(
        "two clients may have held it at once",
        "The windows in which two grants may have been in force intersect, as in many correct runs.",
        "information, never a failure",
        "checker.properties.mutual_exclusion",
    ),
    "continuity-loss": Meaning(
        "a lease was extended after another client had held the lock",
        "An extension succeeded although another client had been granted the lock in between: the holder "
        "assumes that it held the lock without interruption, and it did not.",
        "violates mutual exclusion",
        "checker.properties.mutual_exclusion",
    ),
    "not-linearizable": Meaning(
        "no order of the operations explains their answers",
        "In no order of the operations, each taking effect between its call and its return, could a lock of "
        "this kind have given these answers.",
        "violates mutual exclusion",
        "checker.properties.linearizable",
    ),
    "over-capacity": Meaning(
        "more was held at one time than the lock has",
        "The grants of a semaphore that were certainly held at one time add up to more permits than it has; "
        "or a writer of a read-write lock held it while a reader, or another writer, did.",
        "violates mutual exclusion",
        "checker.properties.counting",
    ),
    "refused-with-room": Meaning(
        "a try was refused although there was room",
        "A try was refused, because the lock was taken according to the answer, although all grants that may "
        "have been held during the try left room for it.",
        "violates mutual exclusion",
        "checker.properties.counting",
    ),
    "shared-term": Meaning(
        "two leaders were elected for one term",
        "Two clients were both elected leader for the same term of the same group.",
        "violates mutual exclusion",
        "checker.properties.elections",
    ),
    "term-order": Meaning(
        "a later election has no later term",
        "An election that was called after another one had returned has a term that is not greater.",
        "violates mutual exclusion",
        "checker.properties.elections",
    ),
    "false-validity": Meaning(
        "the lock reported a validity that its lease did not have",
        "The lock reported a lease that ends later than the nodes can keep it, or reported success when the "
        "lease was over already.",
        "violates lease honesty",
        "checker.properties.lease_honesty",
    ),
    "stale-use": Meaning(
        "a client used the resource after its lease",
        "A client began to read or write the resource after its lease had certainly ended. No lock can "
        "prevent that; a fence at the resource makes it harmless.",
        "a warning about the client",
        "checker.properties.fencing",
    ),
    "unfenced-write": Meaning(
        "an earlier holder’s write was accepted after a later holder’s",
        "The store accepted a write under an earlier grant after it had accepted one under a later grant, "
        "which a fencing token would have stopped.",
        "violates fencing",
        "checker.properties.fencing",
    ),
    "stale-write": Meaning(
        "a write after the lease overtook a later holder’s",
        "A client wrote after its lease had ended, and after a later holder had written, and the store "
        "accepted it: the harm of a pause, or of a delay, of which the critique warns.",
        "violates fencing",
        "checker.properties.fencing",
    ),
    "fence-order": Meaning(
        "a later grant came with a smaller fence",
        "A grant that was requested after another one had been granted has a fence that is not larger.",
        "violates fencing",
        "checker.properties.fencing",
    ),
    "fence-breach": Meaning(
        "a store that checks fences accepted a smaller one",
        "A store that claims to check fences accepted a write with a smaller fence after one with a larger.",
        "violates fencing",
        "checker.properties.fencing",
    ),
    "lost-update": Meaning(
        "two writes were based on one version",
        "Two clients read the same version, changed it and wrote it back, and both writes were accepted: the "
        "second one overwrote the first without having read it.",
        "violates the integrity of the resource",
        "checker.properties.resource",
    ),
    "cycle": Meaning(
        "no order explains what was read and written",
        "The order of the versions, what was read from what, and real time contradict each other: the "
        "smallest cycle is shown, edge by edge.",
        "violates the integrity of the resource",
        "checker.properties.resource",
    ),
    "deadlock": Meaning(
        "clients waited for each other in a circle",
        "Each of several clients held a lock and waited for one that the next of them held. Clients that "
        "take locks in different orders do this with any lock; one that promises to break deadlocks must.",
        "a warning about the clients; violates deadlock freedom if the lock promises to break deadlocks",
        "checker.properties.waits",
    ),
    "leak": Meaning(
        "no client held the lock and none could acquire it",
        "No client held the lock, a majority of nodes was up and reachable, and yet it could not be acquired "
        "for longer than its TTL and the grace of the scenario.",
        "violates deadlock freedom",
        "checker.properties.deadlock_freedom",
    ),
    "unavailable": Meaning(
        "a majority was up and the lock was not granted",
        "A majority was up and reachable, a client requested the lock, and for longer than the scenario "
        "allows none was granted it.",
        "violates fault tolerance",
        "checker.properties.deadlock_freedom",
    ),
    "overtaken": Meaning(
        "a later request was granted before an earlier one",
        "A lock that promises to be granted in the order of the requests was granted to a later request, by "
        "more than the time in which a request is queued, before an earlier one.",
        "violates fairness",
        "checker.properties.fairness",
    ),
    "late-return": Meaning(
        "a try returned after its time-out",
        "A try to acquire that may wait for a stated time returned later than that, by more than the slack "
        "that the record allows, and neither its client nor the lab was paused.",
        "violates timeliness; a warning if it never returned, for the client may have been killed",
        "checker.properties.timeliness",
    ),
}
