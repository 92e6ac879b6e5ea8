"""Rounds as tracks: the short form in which trials are drawn, in the language that is played.

A round is an acquire and what follows it, each fault a track of its own. Nothing is left out or guessed:
equal trials have equal tracks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace
from pydantic_core import PydanticCustomError

from lab.durations import UNITS_NS
from lab.locks.capacity import READ
from lab.run.tracks import PAUSE_NS
from lab.scenario.problems import Loc
from lab.scenario.steps import Acquire, Check, Extend, Operation, Read, Release, Write
from lab.scenario.tracks import Timed, misfits
from lab.scenario.triggers import Trigger, after
from lab.scenario.types import SENTINEL_NAMES
from lab.search.faults import in_machines
from lab.search.trial import Round, Track, Trial

FAULTS: Final = "faults"
"""How a track of the environment is called."""
DEMAND_HOLD_NS: Final = 20 * UNITS_NS["ms"]
"""How long it keeps the lock then: longer than stamps are uncertain."""
OTHER_TRIES: Final = 5
"""How often a client asks for the other lock: for longer than a free lock may be refused."""


def tracks_of(trial: Trial) -> dict[str, Track]:
    """The tracks of a trial: its own, and what its rounds and faults say."""
    found: dict[str, Track] = {f"fault-{at}": (fault,) for at, fault in enumerate(in_machines(trial.faults))}
    for client, rounds in trial.clients.items():
        actions: list[Timed] = []
        kept = client in trial.tracks
        for each in rounds:
            actions += _of_round(each, trial.other_key, kept)
            kept = kept or each.ends == "keep"
        actions += trial.tracks.get(client, ())
        if trial.demand_ns:
            actions += _of_demand(trial.demand_ns, kept)
        if actions:
            found[client] = tuple(actions)
    return found | {track: own for track, own in trial.tracks.items() if track not in trial.clients}


def in_tracks(trial: Trial) -> Trial:
    """The same trial, said in tracks alone: its faults are actions of one track of the environment."""
    tracks = tracks_of(trial)
    faults = [
        track for name, track in tracks.items() if name not in trial.tracks and name not in trial.clients
    ]
    told = {name: track for name, track in tracks.items() if track not in faults}
    if faults:
        own = told.get(FAULTS, ())
        told[FAULTS] = (*own, *chain.from_iterable(faults))
    return replace(trial, clients=dict.fromkeys(trial.clients, ()), faults=(), demand_ns=0, tracks=told)


def unfit(trial: Trial) -> Iterator[tuple[Loc, PydanticCustomError]]:
    """What the trial's own tracks name, or wait for, and is not there: where, and why not.

    A fault of the short form may wait for what does not come.
    """
    servers = (*trial.node_names, *SENTINEL_NAMES[: trial.sentinels])
    for loc, error, _ in misfits(tracks_of(trial), tuple(trial.clients), servers):
        if loc[0] in trial.tracks:
            yield loc, error


@functools.lru_cache(maxsize=4096)
def _of_round(each: Round, other_key: str, kept: bool) -> tuple[Timed, ...]:
    """The actions of a round; ``kept``: whether an older lease may be held still."""

    def of_lease(step: type[Operation], at: Trigger | None = None, **fields: Any) -> Timed:
        return action(step, at, if_granted=kept, **fields)

    part_ns = each.hold_ns // (each.extends + 1 + each.other)
    later = after(part_ns)
    found = [
        action(
            Acquire,
            after(each.think_ns),
            ttl_ns=each.ttl_ns or None,
            cancel=after(each.cancel_ns) if each.cancel_ns else None,
            mode=READ if each.reads else None,
        ),
        of_lease(Read),
    ]
    if each.other:
        insist_ns = (OTHER_TRIES - 1) * PAUSE_NS
        found += [
            action(Acquire, later, key=other_key, insist_ns=insist_ns, if_granted=True),
            action(Release, later, key=other_key),
        ]
    extend_ttl_ns = each.extend_ttl_ns or each.ttl_ns or None
    for at in range(each.extends):
        at_once = at == 0 and each.other
        found.append(of_lease(Extend, None if at_once else later, ttl_ns=extend_ttl_ns))
    at_once = each.other and not each.extends
    computed = None if at_once else later
    if each.checks:
        found.append(of_lease(Check, computed))
    if not each.reads:
        found.append(of_lease(Write, None if each.checks else computed, if_checked=each.checks))
    if each.ends != "keep":
        found.append(of_lease(Release))
    if each.ends == "twice":
        found.append(action(Release, again=True, if_granted=True))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _of_demand(demand_ns: int, kept: bool) -> tuple[Timed, ...]:
    """Ask for the lock until it was granted once; work for a moment, and give it back."""
    return (
        action(Acquire, insist_ns=demand_ns),
        action(Read, if_granted=kept),
        action(Check, after(DEMAND_HOLD_NS), if_granted=kept),
        action(Write, if_checked=True, if_granted=kept),
        action(Release, if_granted=kept),
    )


def action(step: type[Operation], at: Trigger | None = None, **fields: Any) -> Timed:
    """An operation with its trigger; its other fields are as by default."""
    usual = {name: info.default for name, info in step.model_fields.items()}
    return Timed.model_construct(step=step.model_construct(**usual | fields), at=at, until=None)
