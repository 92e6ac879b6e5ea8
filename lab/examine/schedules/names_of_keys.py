"""Locks with different names must not be in each other's way, however alike the names are."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine.programs import ALICE, BOB, Setting
from lab.examine.schedules.building import use
from lab.run.tracks import PAUSE_NS
from lab.scenario.steps import Acquire, Release
from lab.scenario.triggers import after, on
from lab.search.as_tracks import OTHER_TRIES, action
from lab.search.runner import run_trial
from lab.search.trial import KEY, Round, Track, Trial

PLAIN: Final = (f"{KEY}s", f"{KEY}-1", KEY[:-1], KEY[::-1])
"""Names that are one for a lock that cuts off, or mixes the letters up."""
UNUSUAL: Final = (
    KEY.upper(),
    f"{KEY}:1",
    f"{KEY}/1",
    f"tenant:{KEY}",
    f"tenant/{KEY}",
    f"{KEY}{'-and-a-long-name' * 16}",
)
"""Names that are one for a lock that folds case, drops a prefix, or cuts off; not every lock takes them."""
NUMBERED: Final = 30
"""So many more: of eight buckets, that of the first name is hit by one of them in 98 of 100 cases."""


def other_names(setting: Setting) -> list[Trial]:
    """Alice takes a lock with another name while she holds the first; when she has given it back Bob asks."""
    ttl_ns = setting.ttl_ns
    trial = setting.with_clients({ALICE: (), BOB: ()})
    unusual = (name for name in UNUSUAL if _takes(setting, name))
    names = (*PLAIN, *unusual, *(f"order-{number}" for number in range(1, NUMBERED + 1)))
    asks = action(Acquire, on(ALICE, "released", after_ns=ttl_ns // 50), insist_ns=2 * ttl_ns)
    bob = tuple(use(asks, ttl_ns // 2))

    def alice(name: str) -> Track:
        part, insist_ns = after(ttl_ns // 20), (OTHER_TRIES - 1) * PAUSE_NS
        other = action(Acquire, part, key=name, insist_ns=insist_ns, if_granted=True)
        return (action(Acquire), other, action(Release, part, key=name), *bob[1:])

    return [
        replace(trial, other_key=name, tracks={**trial.tracks, ALICE: alice(name), BOB: bob})
        for name in names
    ]


def _takes(setting: Setting, name: str) -> bool:
    """Whether a lock takes a name at all: it may have rules for names, and refuse or raise otherwise."""
    trial = setting.with_clients({ALICE: (Round(0, setting.ttl_ns // 20),)}, demand=False)
    try:
        events = run_trial(replace(trial, key_name=name)).events
    except UnknownOutcome:
        return False
    return any(event["f"] == "acquire" and event["type"] == "ok" for event in events)
