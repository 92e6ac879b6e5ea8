"""What schedules are built of: what clients do, when it begins, and the faults that strike meanwhile.

An action waits for an event of another client's, or for the end of the one before. Nothing is computed from a
run of the lock: one that is slow, asks again, or gives up early meets the same schedule at its own pace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from lab.examine.programs import ALICE, BOB, Setting
from lab.scenario.steps import Check, Read, Release, Write
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger, after
from lab.search.as_tracks import FAULTS, action
from lab.search.trial import CLIENTS, Trial

CAROL: Final = CLIENTS[2]
MOMENT_NS: Final = 200_000
"""As long as a packet is on its way: after it, what was called is on the nodes."""


def told(
    setting: Setting,
    tracks: Mapping[str, Iterable[Timed]],
    *faults: Timed,
    demand: bool = False,
) -> Trial:
    """The trial in which clients do this, and these faults strike.

    ``demand``: whether somebody asks for the lock afterwards.
    """
    clients = dict.fromkeys((*(name for name in tracks if name in CLIENTS), ALICE, BOB), ())
    base = setting.with_clients(clients, demand=demand)
    own = {name: tuple(track) for name, track in tracks.items()}
    return hurt(replace(base, tracks={**own, **base.tracks}), *faults)


def hurt(base: Trial, *faults: Timed) -> Trial:
    """A schedule with these faults, each in a track of its own: none waits for another."""
    tracks = dict(base.tracks)
    for fault in faults:
        number = 1 + sum(name.startswith(FAULTS) for name in tracks)
        tracks[f"{FAULTS}-{number}" if number > 1 else FAULTS] = (fault,)
    return replace(base, tracks=tracks)


def write(held: int | Trigger) -> list[Timed]:
    """Compute for so long under the lease, or until an event, and write if it is held still."""
    end = after(held) if isinstance(held, int) else held
    return [action(Read), action(Check, end), action(Write, if_checked=True)]


def use(asks: Timed, held: int | Trigger) -> list[Timed]:
    """Ask for the lock, work under its lease for so long, and give it back."""
    return [asks, *write(held), action(Release)]


def later(event: Trigger, after_ns: int) -> Trigger:
    """So long after an event."""
    return event.model_copy(update={"after_ns": after_ns})


def lasting_until(fault: Timed, end: Trigger) -> Timed:
    """The fault, which lasts until an event."""
    return fault.model_copy(update={"until": end})
