"""Whether a lock may be taken again by the client that holds it, and schedules in which it is.

A lock is tried with that if it is seen to work without faults, or says that it may be taken again: its
holder is granted it again at once, and it is held until it was given back as often. One that grants it again
and gives all of it back at once may be none that was meant so: its acquire may be made to be repeated when a
reply was lost. Nobody can see that, so it is asked.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from lab.drivers.messages import ONE_OBJECT
from lab.drivers.shapes import shape_of
from lab.errors import UnknownOutcome
from lab.examine.profile.probes import Profile
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.examine.schedules.anchored import Course, explored
from lab.examine.schedules.boundaries import SHORT_NS
from lab.examine.schedules.building import hurt, write
from lab.faults.cut import Cut
from lab.locks import lock_class
from lab.scenario.steps import Acquire, Extend, Release
from lab.scenario.triggers import Trigger, after, on
from lab.search.as_tracks import action
from lab.search.faults import lasting, timed_fault
from lab.search.plainer_tracks import fits
from lab.search.runner import Event, run_trial
from lab.search.trial import Round, Trial

LONG_TTL_NS: Final = 60 * S_NS
AT_ONCE_NS: Final = 20 * MS_NS
"""By so much longer than Alice's may an acquire take that asked once."""
NAMED: Final = re.compile(r"re_?entrant|(?<![a-z])r_?lock|recursive", re.IGNORECASE)
"""What the name of a lock says that its holder may take again."""
NOT_NAMED: Final = re.compile(r"(non|not)_?re_?entrant", re.IGNORECASE)
ASKS: Final = (
    "its holder is granted it again, and one release gives all of it back: whether it is meant to be taken "
    "again it does not say (`reentrant = true`, or `false`, in its class or its settings)"
)
SHORT_TTLS_NS: Final = (1500 * MS_NS, 700 * MS_NS)
"""Leases with a part of a second, and of less than one."""
SHORTER: Final = 5
"""So many times shorter is one of two leases of which one is taken within the other."""
LOST_IN, CALLS = 2, 4
"""In how many courses answers are lost before anything else is tried, and in how many calls of each."""


@dataclass(frozen=True, slots=True)
class Reentrance:
    """What is known of a lock whose holder asks for it again.

    ``setting``: with which it is tried that its holder takes it again; None: it is not. ``doubt``: a schedule
    in which one release has given back what was taken twice, where nobody says whether that is right.
    """

    setting: Setting | None = None
    doubt: Trial | None = None


def reentrance(setting: Setting) -> Reentrance:
    """Ask the lock; only inside ``trials``. Raises ``SimulationError``: it reached out of the simulation."""
    says = says_reentrant(setting.lock)
    for each in [] if says is False or not setting.capacity.of_one else _of_one_object(setting):
        if is_reentrant(each):
            if says or gives_back_as_often(each):
                return Reentrance(each)
            return Reentrance(doubt=given_back_once(each))
    return Reentrance()


def says_reentrant(lock: str) -> bool | None:
    """What a lock says by its settings, its class, or its name; None: nothing."""
    shape = shape_of(lock)
    said = getattr(lock_class(lock), "reentrant", None) if shape is None else shape.settings.reentrant
    if said is not None:
        return bool(said)
    name = lock.rpartition(":")[2]
    if NOT_NAMED.search(name):
        return False
    return True if NAMED.search(name) else None


def _of_one_object(setting: Setting) -> Iterator[Setting]:
    """The setting in which a client has one object for all its leases of a key."""
    shape = shape_of(setting.lock)
    if shape is None or shape.made is None or "key" not in shape.made.roles():
        yield setting
    if "one-object" in setting.can or (shape is not None and (shape.is_scope or shape.style == "object")):
        yield dataclasses.replace(
            setting, options={**setting.options, ONE_OBJECT: True}, can=setting.can - {"tasks"}
        )


def is_reentrant(setting: Setting) -> bool:
    """Whether the holder is granted the lock again while another client is refused it.

    Raises:
        SimulationError: the lock reached out of the simulation.
    """
    ttl_ns = setting.ttl_ns
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns // 10, ends="keep"), Round(ttl_ns // 5, ttl_ns // 10)),
        BOB: (Round(ttl_ns * 15 // 100, 0),),
    }
    events = _events(setting.with_clients(clients, demand=False))
    acquires = [event for event in events if event["f"] == "acquire"]
    granted = [e for e in acquires if (e["client"], e["type"]) == (ALICE, "ok")]
    bobs = [event for event in acquires if event["client"] == BOB]
    if len(granted) != 2 or not bobs:
        return False
    # One that waits is refused nothing; it must not be granted while she has the lock.
    is_his = any(event["type"] == "ok" and event["time_ns"] < granted[1]["time_ns"] for event in bobs)
    return not is_his and bool(granted[1]["time_ns"] - granted[0]["time_ns"] < ttl_ns // 2)


def gives_back_as_often(setting: Setting) -> bool:
    """Whether a lock that was taken twice is held after one release, and free after the second.

    Bob asks just after the first, and again after the second: an acquire that asks again by itself may be
    granted it then. The lease is long, so that none of that waits for its end.

    Raises:
        SimulationError: the lock reached out of the simulation.
    """
    setting = setting.with_ttl(LONG_TTL_NS)
    ttl_ns = setting.ttl_ns
    soon, held = Trigger.model_validate("1ms"), after(ttl_ns // 4)
    hers = [action(Acquire), action(Acquire, soon), action(Release, soon), action(Release, held)]
    asks = on(ALICE, "release returns", 1, after_ns=MS_NS // 2)
    again = on(ALICE, "release returns", 2, after_ns=MS_NS)
    insists: dict[str, Any] = {"insist_ns": ttl_ns // 4, "pause_ns": ttl_ns // 100}
    his = [action(Acquire, asks), action(Release, if_granted=True), action(Acquire, again, **insists)]
    at_ns: dict[tuple[str, str, str], list[int]] = {}
    for event in _events(_taken_again(setting, {ALICE: hers, BOB: his})):
        at_ns.setdefault((event["client"], event["f"], event["type"]), []).append(event["time_ns"])
    released = at_ns.get((ALICE, "release", "invoke"), [])
    asked, granted = (at_ns.get((BOB, "acquire", kind), []) for kind in ("invoke", "ok"))
    if len(released) != 2 or not asked or not granted or asked[0] > released[1]:
        return False
    usual_ns = at_ns[ALICE, "acquire", "ok"][0] - at_ns[ALICE, "acquire", "invoke"][0]
    is_held = granted[0] >= released[1] or granted[0] - asked[0] > usual_ns + AT_ONCE_NS
    return is_held and granted[-1] > released[1] and granted[-1] < released[1] + ttl_ns // 2


def _events(trial: Trial) -> list[Event]:
    """What clients did in a trial; nothing if it came to no end."""
    try:
        return [event for event in run_trial(trial).events if "client" in event]
    except UnknownOutcome:
        return []


def given_back_once(setting: Setting) -> Trial:
    """Alice takes the lock twice and gives it back once; Bob asks while her first lease lasts."""
    ttl_ns = setting.ttl_ns
    hers = [action(Acquire), action(Acquire, after(ttl_ns // 10)), action(Release)]
    asks = on(ALICE, "released", after_ns=ttl_ns // 50)
    his = [action(Acquire, asks), action(Release, after(ttl_ns // 2))]
    return _taken_again(setting, {ALICE: [*hers, action(Release, after(ttl_ns * 7 // 10))], BOB: his})


def _taken_again(setting: Setting, tracks: Course) -> Trial:
    base = setting.with_clients({ALICE: (), BOB: ()}, demand=False)
    told = {name: tuple(track) for name, track in tracks.items()}
    return replace(base, tracks={**told, **base.tracks}, reentrant=True)


def nested(setting: Setting, profile: Profile, random: Random) -> Iterator[Trial]:
    """The holder takes the lock again: without faults, and with one at each sort of sending."""
    yield from explored(setting, nested_bases(setting, profile), random)


def nested_bases(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """Each course with what Bob may begin with, without faults; each also with short leases."""
    found = zip_longest(*(_with_bobs(setting, course) for course in courses(setting, profile)))
    yield from (trial for trial in chain.from_iterable(found) if trial is not None)
    for short in map(setting.with_ttl, SHORT_TTLS_NS):
        yield from (next(_with_bobs(short, course)) for course in courses(short, profile))


def taken_again(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """Each course once, and with the answer to one of its first calls lost."""
    first = [next(_with_bobs(setting, course)) for course in courses(setting, profile)]
    yield from first
    for base in first[:LOST_IN]:
        calls = Counter[str]()
        for step in (timed.step for timed in base.tracks[ALICE]):
            if isinstance(step, Acquire | Release) and calls.total() < CALLS:
                calls[step.KEY] += 1
                called = on(ALICE, f"{step.KEY} invoke", calls[step.KEY])
                lost = timed_fault(Cut, called, ALICE, setting.names, direction="replies")
                yield hurt(base, lasting(lost, SHORT_NS))


def _with_bobs(setting: Setting, hers: Course) -> Iterator[Trial]:
    """What she does, and Bob: all the time, when she gave something back, at the end of a lease, and soon."""
    ttl_ns = setting.ttl_ns
    often: dict[str, Any] = {"insist_ns": 4 * ttl_ns, "pause_ns": ttl_ns // 20}
    asks = (
        action(Acquire, on(ALICE, "granted", after_ns=ttl_ns // 10), **often),
        action(Acquire, on(ALICE, "released", after_ns=ttl_ns // 100), **often),
        action(Acquire, on(ALICE, "granted", after_ns=ttl_ns * 994 // 1000)),
        action(Acquire, on(ALICE, "lease over", after_ns=ttl_ns // 30)),
        action(Acquire, on(ALICE, "granted", 2, after_ns=ttl_ns // 100)),
    )
    for each in asks:
        trial = _taken_again(setting, {**hers, BOB: [each, *write(ttl_ns * 7 // 10), action(Release)]})
        if fits(trial):  # else he waits for what she does not do
            yield trial


def courses(setting: Setting, profile: Profile) -> Iterator[Course]:
    """What Alice does, the shortest first. What she has at the end she has given back."""
    ttl_ns = setting.ttl_ns

    def take(share: float = 0.0, **more: Any) -> Any:
        return action(Acquire, after(int(share * ttl_ns)) if share else None, **more)

    def give(share: float = 0.0) -> Any:
        return action(Release, after(int(share * ttl_ns)) if share else None)

    def use(share: float) -> list[Any]:
        return write(int(share * ttl_ns))

    over = on(ALICE, "lease over", after_ns=ttl_ns // 3)
    yield {ALICE: [take(), take(0.1), give(), *use(0.6), give()]}
    # After the end of what she took first, whoever has counted wrong has the lock still, or keeps it.
    twice = [take(0.6), give(0.1)]
    yield {ALICE: [take(), take(0.05), give(0.05), give(0.05), *twice, *twice]}
    yield {ALICE: [take(), take(0.1), *use(0.8), give(), give()]}
    # What she takes in between is shorter, or longer, than what she has: each lasts as long as it says.
    other_ns = ttl_ns // SHORTER
    if not other_ns % setting.ttl_step_ns:
        yield {ALICE: [take(), take(0.1, ttl_ns=other_ns), give(0.05), *use(0.7), give()]}
        yield {ALICE: [take(ttl_ns=other_ns), take(0.1), *use(0.6), give(), give()]}
    yield {ALICE: [take(), action(Acquire, over), *use(0.1), give(), give()]}
    yield {ALICE: [take(), take(0.1), action(Release, over), give(), *twice]}
    yield {ALICE: [take(), take(), take(), give(), give(), *use(0.6), give()]}
    if profile.extends:
        extend = action(Extend, after(int(0.3 * ttl_ns)))
        yield {ALICE: [take(), take(0.1), extend, give(), *use(0.8), give()]}
        yield {ALICE: [take(), extend, take(0.1), give(), *use(0.8), give()]}
        yield {ALICE: [take(), take(0.1), give(), extend, *use(0.8), give()]}
