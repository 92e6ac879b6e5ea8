"""Schedules of a read-write lock: each with two writers, and with a reader in the place of either of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import Final

from msgspec.structs import replace

from lab.examine.programs import ALICE, BOB
from lab.locks.capacity import READ, Capacity
from lab.scenario.steps import Acquire, Release, Write
from lab.scenario.tracks import Timed
from lab.scenario.triggers import after
from lab.search.as_tracks import action
from lab.search.plainer_tracks import fits
from lab.search.trial import Track, Trial

READER: Final = "reader"
"""The client that comes and goes as a further reader, where Alice or Bob is one and does things by the clock.

Where they wait for each other's events it would be in the way of what they are to do.
"""


def in_roles(capacity: Capacity, trials: Iterable[Trial]) -> Iterator[Trial]:
    """These trials; of a read-write lock each of them in all roles, one after the other."""
    return chain.from_iterable(map(roles, trials)) if capacity.read_write else iter(trials)


def roles(trial: Trial) -> Iterator[Trial]:
    """A trial with two writers, with Alice as a reader, and with Bob as one.

    Without faults also with Alice as the only reader: a further one may be what keeps Bob from the lock.

    A holder that takes the lock again stays a writer: what a reader's second lease is differs from lock to
    lock.
    """
    yield trial
    if not (trial.reentrant and any(map(_takes_again, trial.tracks.values()))):
        found = [with_reader(trial, name) for name in (ALICE, BOB) if name in trial.clients]
        if ALICE in trial.clients and not (trial.tracks or trial.faults):
            found.append(with_reader(trial, ALICE, alone=True))
        yield from filter(fits, found)


def with_reader(trial: Trial, name: str, *, alone: bool = False) -> Trial:
    """The trial with one of its clients as a reader, who writes nothing.

    See ``READER`` for a further one, which there is not if it is ``alone``.
    """
    clients = {**trial.clients, name: tuple(replace(each, reads=True) for each in trial.clients[name])}
    tracks = {
        track: _reading(own) if track.partition("/")[0] == name else own
        for track, own in trial.tracks.items()
    }
    if trial.tracks or alone:
        return replace(trial, clients=clients, tracks=tracks)
    return replace(trial, clients={**clients, READER: ()}, tracks={READER: _comes_and_goes(trial)})


def _takes_again(track: Track) -> bool:
    """Whether a client asks for the lock that it has."""
    own = [timed.step for timed in track if isinstance(timed.step, Acquire | Release)]
    takes = [isinstance(step, Acquire) for step in own if step.key is None]
    return any(one and other for one, other in pairwise(takes))


def _reading(track: Track) -> Track:
    """The same actions as a reader; the asks for another lock are those of a writer."""
    return tuple(
        timed.model_copy(update={"step": timed.step.model_copy(update={"mode": READ})})
        if isinstance(timed.step, Acquire) and timed.step.key is None
        else timed
        for timed in track
        if not isinstance(timed.step, Write)
    )


def _comes_and_goes(trial: Trial) -> Track:
    """A reader that keeps the lock for most of a lease, and away from it for long enough to let a writer in.

    It begins a moment after the others, and insists: so it takes the lock beside the first reader, takes it
    again while that one may have it still, and asks whenever a writer is about to give it back.
    """
    ttl_ns, insists = trial.ttl_ns, {"insist_ns": trial.horizon_ns, "mode": READ}

    def turn(away_ns: int) -> tuple[Timed, Timed]:
        asks = action(Acquire, after(away_ns), pause_ns=ttl_ns // 50, **insists)
        return asks, action(Release, after(ttl_ns * 17 // 20))

    turns = trial.horizon_ns // (ttl_ns * 29 // 20) + 1
    return (*turn(ttl_ns // 50), *turn(ttl_ns // 50), *chain.from_iterable([turn(ttl_ns * 3 // 5)] * turns))
