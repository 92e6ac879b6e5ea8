"""Schedules in which a replica takes the place of the master, at each moment of a lock's calls.

The master crashes for good, comes back later and is still a master, or goes on beside the new one
while Bob cannot reach it. Before that the replicas have all that it acknowledged, or nothing since the call
at which it happens: replication is asynchronous. Bob asks as soon as there is a new master, and Alice, who
has known the old one, asks again at the end.

Where Sentinels watch the master they promote the replica: when the master has been down or paused for long
enough, when all but the clients are cut off from it, or when one of them is told to. Bob asks from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from msgspec.structs import replace

from lab.errors import LabError
from lab.examine.profile.probes import Profile
from lab.examine.programs import ALICE, BOB, MS_NS, Setting
from lab.examine.schedules.anchored import SENDINGS_MAX, courses
from lab.examine.schedules.boundaries import boundaries
from lab.examine.schedules.building import MOMENT_NS, told, use
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.failover import Failover
from lab.faults.pause import Pause
from lab.faults.promote import Promote
from lab.scenario.steps import Acquire
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger, after, at_start, on
from lab.scenario.types import SENTINEL_NAMES
from lab.search.as_tracks import FAULTS, action
from lab.search.faults import lasting, timed_fault
from lab.search.plainer_tracks import fits
from lab.search.trial import DOWN_AFTER_MS, PROMOTED_WITHIN_NS, Track, Trial

FAILOVERS: Final = "failovers"
"""What they are called as a part of an examination."""
NOTICED_NS: Final = 100 * MS_NS
"""How long after a crash the replica becomes the master."""
BACK_NS: Final = 300 * MS_NS
"""How long after its crash the old master comes back, where it does."""
AWAY_NS: Final = 4 * DOWN_AFTER_MS * MS_NS
"""How long a master is down or paused that Sentinels replace; then it is back, and still a master."""
NOW: Final = at_start()


def failovers(setting: Setting, profile: Profile) -> Iterator[Trial]:
    """All of them, by what Alice does; only inside ``trials``."""
    for course in courses(setting, profile):
        triggers = (trigger for track in course.values() for timed in track for trigger in timed.triggers)
        if any(trigger.track == BOB for trigger in triggers):
            continue
        base = told(setting, course, demand=not setting.reentrant)
        try:
            sent = [each.nth for each in boundaries(base, SENDINGS_MAX) if each.client == ALICE]
        except LabError:  # reported by the examination, which runs it as well
            continue
        # Without a delay clients would wait until a Sentinel that is told to has promoted a replica.
        soon_ns = 1 if setting.sentinels else 0
        moments = [on(ALICE, "sends", nth, after_ns) for nth in sent for after_ns in (soon_ns, 3 * MOMENT_NS)]
        for moment, way in product(moments, _watched(setting) if setting.sentinels else _ways(setting)):
            faults = _at(moment, way)
            last = way[-1].step.KEY
            begun = on(FAULTS, f"{last} ok", sum(last == timed.step.KEY for timed in way))
            trial = replace(base, tracks={**base.tracks, FAULTS: faults, BOB: _bob(setting, begun)})
            if fits(trial):
                yield trial


def _ways(setting: Setting) -> Iterator[Track]:
    """How the first replica takes the master's place."""
    master, heir, *others = setting.names
    promote = Timed.model_construct(step=Promote(node=heir), at=after(NOTICED_NS), until=None)
    crash = timed_fault(Crash, NOW, nodes=(master,))
    yield crash, promote
    yield lasting(crash, BACK_NS), promote
    yield timed_fault(Cut, NOW, BOB, (master,)), promote
    lost = [Timed.model_validate({Cut.KEY: {"node": each, "from": master}}) for each in (heir, *others)]
    yield *lost, crash.model_copy(update={"at": None}), promote


def _watched(setting: Setting) -> Iterator[Track]:
    """How Sentinels come to promote a replica."""
    master, *copies = setting.names
    sentinels = SENTINEL_NAMES[: setting.sentinels]
    crash = timed_fault(Crash, NOW, nodes=(master,))
    yield (crash,)
    yield (lasting(crash, AWAY_NS),)
    yield (timed_fault(Pause, NOW, nodes=(master,), lasts_ns=AWAY_NS),)
    apart = Timed.model_validate({Cut.KEY: {"node": master, "nodes": [*copies, *sentinels]}})
    yield timed_fault(Cut, NOW, BOB, (master,), refused=True), apart
    lost = [Timed.model_validate({Cut.KEY: {"node": each, "from": master}}) for each in copies]
    yield *lost, crash.model_copy(update={"at": None})
    yield (Timed.model_construct(step=Failover(by=sentinels[0]), at=NOW, until=None),)


def _at(moment: Trigger, faults: Track) -> Track:
    """What happens, beginning at this moment."""
    first, *rest = faults
    return first.model_copy(update={"at": moment}), *rest


def _bob(setting: Setting, begun: Trigger) -> Track:
    """He asks again and again from then on, and holds the lock for a part of its lease."""
    ttl_ns = setting.ttl_ns
    within_ns = 4 * ttl_ns + (PROMOTED_WITHIN_NS if setting.sentinels else 0)
    insists = action(Acquire, begun, insist_ns=within_ns, pause_ns=ttl_ns // 6)
    return tuple(use(insists, ttl_ns // 3))
