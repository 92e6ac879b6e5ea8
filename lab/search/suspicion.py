"""Is a finding there? A cheap look at the events first, and the checker only where it may say yes.

The look at windows uses the checker's own definition of how long a lease lasts for certain. The others may
suspect what the checker clears; none misses what the checker finds.

The checker alone would do, and cost a search nearly a third of its trials: side by side in one run, the look
took 0.02 of the processor time of a trial, the checker 0.42, a third of that to make its history; and 64 of
400 drawn trials were suspected (``python -m benchmarks.first_look``). So this is no second checker: what it
suspects, the checker decides, and a test has both look at the same trials.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import msgspec

from checker.verdict import Property
from lab.analysis.assumptions import EPSILON_NS, RHO
from lab.drivers import is_driver
from lab.locks import margin_ns
from lab.locks.base import usual_margin_ns
from lab.search.actor import capacity_in, params_of
from lab.search.runner import ZERO_NS, Outcome
from lab.search.trial import OptionValue

if TYPE_CHECKING:
    from checker.history.history import History

NEVER: Final = 1 << 62
SLACK_NS: Final = 1_000_000
"""How much a claim may be off: stamps are exact here, clocks count milliseconds."""


@dataclass(slots=True)
class Grant:
    """A grant as its client saw it."""

    key: str
    called_ns: int
    acquired_ns: int
    fence: int | None
    mode: str | None = None
    released_ns: int = NEVER
    since_ns: int = 0
    """When the call was made from which its lease counts: the acquire, or the last extension that worked."""


@dataclass(slots=True)
class Write:
    """A write that may have been accepted."""

    grant: str
    called_ns: int
    done_ns: int
    version_read: int | None
    version: int | None


Events = list[dict[str, Any]]


def grants_in(events: Events) -> dict[str, Grant]:
    """The grants that clients were told of."""
    called: dict[str, int] = {}
    grants: dict[str, Grant] = {}
    for event in events:
        f = event["f"]
        if f == "acquire":
            if event["type"] == "invoke":
                called[event["grant_id"]] = event["time_ns"]
            elif event["type"] == "ok":
                grant_id = event["grant_id"]
                asked_ns = called[grant_id]
                fence = event.get("fence")
                mode = event.get("value")
                grants[grant_id] = Grant(
                    event["key"], asked_ns, event["time_ns"], fence, mode, since_ns=asked_ns
                )
        elif f == "extend":
            if event["type"] == "invoke":
                called[event["grant_id"]] = event["time_ns"]
            elif event["type"] == "ok":
                grants[event["grant_id"]].since_ns = called[event["grant_id"]]
        elif f == "release" and event["type"] == "invoke":
            grants[event["grant_id"]].released_ns = event["time_ns"]
    return grants


def writes_in(events: Events) -> list[Write]:
    """The writes that were not surely rejected."""
    writes: dict[str, Write] = {}
    for event in events:
        if event["f"] != "write":
            continue
        if event["type"] == "invoke":
            writes[event["value"]] = Write(
                event["grant_id"], event["time_ns"], NEVER, event.get("version_read"), None
            )
        elif event["type"] == "fail":
            del writes[event["value"]]
        elif event["type"] == "ok":
            write = writes[event["value"]]
            write.done_ns, write.version = event["time_ns"], event["version_written"]
    return list(writes.values())


@functools.lru_cache(maxsize=16)
def _lease_ns(lock: str, ttl_ns: int, options: tuple[tuple[str, OptionValue], ...]) -> int:
    """How long a lease lasts for certain after its call, as ``checker.history.windows`` has it."""
    import numpy as np

    from checker.history.arrays import shorter

    return int(shorter(np.array([ttl_ns]), RHO)[0]) - margin_ns(lock, ttl_ns, dict(options))


def _overlap(outcome: Outcome) -> bool:
    trial = outcome.trial
    lease_ns = _lease_ns(trial.lock, trial.longest_ttl_ns, tuple(trial.options.items()))
    capacity, ends_ns = capacity_in(trial), dict[str, list[tuple[int, int]]]()
    for grant in sorted(grants_in(outcome.events).values(), key=lambda grant: grant.acquired_ns):
        start_ns = grant.acquired_ns + EPSILON_NS
        end_ns = min(grant.released_ns, grant.since_ns + lease_ns) - EPSILON_NS
        if start_ns < end_ns:
            held = [each for each in ends_ns.get(grant.key, ()) if each[0] > start_ns]
            weight = capacity.weight(grant.mode)
            if sum(each for _, each in held) + weight > capacity.room:
                return True
            ends_ns[grant.key] = [*held, (end_ns, weight)]
    return False


def _fence_order(outcome: Outcome) -> bool:
    fenced = [grant for grant in grants_in(outcome.events).values() if grant.fence is not None]
    return any(
        one.fence == other.fence or _backwards(one, other) or _backwards(other, one)
        for one, other in combinations(fenced, 2)
        if one.key == other.key
    )


def _backwards(earlier: Grant, later: Grant) -> bool:
    return earlier.acquired_ns < later.called_ns and (earlier.fence or 0) >= (later.fence or 0)


def _lost_update(outcome: Outcome) -> bool:
    based_on = [write.version_read for write in writes_in(outcome.events)]
    return len(set(based_on)) < len(based_on)


def _late_write(outcome: Outcome) -> bool:
    grants = grants_in(outcome.events)
    writes = writes_in(outcome.events)
    for late in writes:
        for newer in writes:
            before = newer.done_ns < late.called_ns or (newer.version or 0) < (late.version or NEVER)
            if before and grants[newer.grant].called_ns > grants[late.grant].acquired_ns:
                return True
    return False


def _in_vain(outcome: Outcome) -> bool:
    """Whether clients asked in vain for longer than a free lock may be refused."""
    trial = outcome.trial
    if not (trial.asks_for_long and outcome.events):
        return False
    end_ns = outcome.events[0]["time_ns"] + trial.horizon_ns
    of_keys: dict[str, Events] = {}
    for event in outcome.events:
        if event["f"] in ("acquire", "extend", "release"):
            of_keys.setdefault(event["key"], []).append(event)
    # Nobody is said to wait for a lock that some reader holds: another one may have to let a writer in.
    bound_ns, permits = trial.unavailable_ns, capacity_in(trial).permits
    return any(_longest_wait_ns(events, end_ns, permits) > bound_ns for events in of_keys.values())


def _longest_wait_ns(events: Events, end_ns: int, permits: int) -> int:
    """For how long clients waited for a key at most while a permit of it was held by none for certain.

    A grant ends here when its release is called, or its TTL after the last success: never later than the
    checker has it.
    """
    since_ns: int | None = None
    longest_ns = 0
    waiting: set[str] = set()
    held_until_ns: dict[str, int] = {}

    def full_until_ns() -> int:
        return sorted(held_until_ns.values())[-permits] if len(held_until_ns) >= permits else 0

    for event in events:
        f, kind, now_ns = event["f"], event["type"], event["time_ns"]
        granted = kind == "ok" and f == "acquire"
        released = kind == "invoke" and f == "release"
        if f == "acquire":
            if kind == "invoke":
                waiting.add(event["client"])
                since_ns = now_ns if since_ns is None else since_ns
            else:
                waiting.discard(event["client"])
        if (granted or released) and since_ns is not None:
            longest_ns = max(longest_ns, now_ns - max(since_ns, full_until_ns()))
            since_ns = now_ns if waiting else None
        if released:
            held_until_ns.pop(event["grant_id"], None)
        elif kind == "ok" and f != "release":
            held_until_ns[event["grant_id"]] = now_ns + event["ttl_ns"]
    if since_ns is None:
        return longest_ns
    return max(longest_ns, end_ns - max(since_ns, full_until_ns()))


def _dishonest(outcome: Outcome) -> bool:
    """Whether a lease was claimed for too long, or extended after another client's grant."""
    called: dict[tuple[str, str], int] = {}
    latest: str | None = None
    fences: list[int] = []
    for event in outcome.events:
        f, kind = event["f"], event["type"]
        if f in ("acquire", "extend"):
            if kind == "invoke":
                called[event["client"], f] = event["time_ns"]
            elif kind == "ok":
                if _claims_too_much(event, called[event["client"], f]):
                    return True
                if f == "extend" and event["grant_id"] != latest:
                    return True
                latest = event["grant_id"]
        elif f == "held" and event.get("claimed_ns") is not None:
            return True
        elif f == "write" and kind == "ok" and event.get("fence") is not None:
            fences.append(event["fence"])
    return fences != sorted(fences)


def _claims_too_much(event: dict[str, Any], called_ns: int) -> bool:
    claimed_ns = event.get("claimed_ns")
    if claimed_ns is None:
        return False
    since_ns = called_ns
    if event.get("attempt_ns") is not None:
        since_ns = max(since_ns, event["attempt_ns"])
    ends_ns = max(event["time_ns"] + claimed_ns, event.get("deadline_ns") or 0)
    return bool(ends_ns > since_ns + event["ttl_ns"] + SLACK_NS or claimed_ns <= 0)


LOOKS: Final[dict[str, Callable[[Outcome], bool]]] = {
    "overlap": _overlap,
    "over-capacity": _overlap,
    "fence-order": _fence_order,
    "lost-update": _lost_update,
    "stale-write": _late_write,
    "unfenced-write": _late_write,
    "false-validity": _dishonest,
    "continuity-loss": _dishonest,
    "fence-breach": _dishonest,
    "leak": _in_vain,
    "unavailable": _in_vain,
}
"""What can be searched for, and how to look for it."""
_AT_SAFETY: Final = tuple(dict.fromkeys(look for look in LOOKS.values() if look is not _in_vain))


def suspect(outcome: Outcome, finding: str) -> bool:
    """Whether the checker may find this in the trial's history."""
    return LOOKS[finding](outcome)


LIVENESS: Final = frozenset({Property.DEADLOCK_FREEDOM, Property.FAULT_TOLERANCE})
SAFETY: Final = frozenset(Property) - LIVENESS


def suspected(outcome: Outcome) -> frozenset[Property]:
    """The properties that the checker may find violated: those of liveness, those of safety, both or none."""
    found = LIVENESS if _in_vain(outcome) else frozenset()
    return found | SAFETY if any(look(outcome) for look in _AT_SAFETY) else found


def named(outcome: Outcome, only: Collection[Property] | None = None) -> tuple[Any, ...]:
    """All findings of the checker in the trial's history, or those of some properties."""
    if only is not None and not only:
        return ()
    from checker import check

    return check(history_of(outcome), only=only).findings


def history_of(outcome: Outcome) -> History:
    """The history of a trial, as the checker reads it; an event at its end tells its time zero."""
    from checker.history.events import LAB, Event, Params
    from checker.history.history import PHASE, STEPS, History

    events = msgspec.convert(outcome.events, list[Event])
    events.append(Event(time_ns=ZERO_NS, process=LAB, type="info", f=PHASE, value=STEPS))
    about = params_of(outcome.trial)
    if is_driver(outcome.trial.lock):
        # What a library claims has its margin; one that claims nothing leaves that to its client.
        claims = "validity" in outcome.abilities
        about["delta_ns"] = 0 if claims else max(map(usual_margin_ns, outcome.trial.leases_ns))
    return History.from_events(events, msgspec.convert(about, Params))


def found(outcome: Outcome, finding: str) -> bool:
    """Whether the checker finds this in the trial's history; asked only if the first look suspects it."""
    return suspect(outcome, finding) and _is_among(finding, named(outcome))


def _is_among(finding: str, findings: Iterable[Any]) -> bool:
    return any(each.name == finding for each in findings)
