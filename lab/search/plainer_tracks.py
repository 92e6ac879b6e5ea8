"""Smaller and plainer tracks: an action less, a node of a fault less, no time-out, no delay.

Each change leaves out something that an action says, or the action itself, so a series of them ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from lab.durations import UNITS_NS
from lab.faults.base import Fault as FaultStep
from lab.scenario.steps import Acquire, Extend, Operation, Release
from lab.scenario.tracks import Timed
from lab.scenario.triggers import RETURNS, SENDS, Trigger
from lab.search.as_tracks import tracks_of, unfit
from lab.search.trial import Track, Trial

MS_NS: Final = UNITS_NS["ms"]
SOON_NS: Final = 300_000
"""When what was called at once is on its way to nodes, or on its way back."""


def fits(trial: Trial) -> bool:
    """Whether all that tracks name, and wait for, is there."""
    return next(unfit(trial), None) is None


def fewer_actions(trial: Trial) -> Iterator[Trial]:
    """The trial without one track, one action, or one node of a fault."""
    for name, track in trial.tracks.items():
        yield from _with_track(trial, name, ())
        for at, timed in enumerate(track):
            if len(track) > 1:
                yield from _with_track(trial, name, track[:at] + track[at + 1 :])
            nodes = getattr(timed.step, "nodes", None)
            if isinstance(timed.step, FaultStep) and nodes not in (None, "all") and len(nodes) > 1:
                for node in nodes:
                    rest = tuple(other for other in nodes if other != node)
                    step = timed.step.model_copy(update={"nodes": rest})
                    yield from _with_action(trial, name, at, timed.model_copy(update={"step": step}))


def without_extensions(trial: Trial) -> Trial:
    """The trial in which nobody extends a lease."""
    clients = {
        name: tuple(replace(each, extends=0) for each in rounds) for name, rounds in trial.clients.items()
    }
    tracks = {
        name: tuple(timed for timed in track if not isinstance(timed.step, Extend))
        for name, track in trial.tracks.items()
    }
    return replace(trial, clients=clients, tracks=tracks)


def plainer_tracks(trial: Trial) -> Iterator[Trial]:
    """The trial with one action said more plainly."""
    for name, track in trial.tracks.items():
        for at, timed in enumerate(track):
            for plainer in (*_plainer(timed), *_heard_everywhere(timed, tracks_of(trial)), *_rounded(timed)):
                yield from _with_action(trial, name, at, plainer)


def _rounded(timed: Timed) -> Iterator[Timed]:
    """The action with times to the millisecond, where they are longer than a few."""
    for field in ("at", "until"):
        trigger = getattr(timed, field)
        if trigger is not None and trigger.after_ns > 10 * MS_NS and trigger.after_ns % MS_NS:
            rounded = trigger.model_copy(update={"after_ns": round(trigger.after_ns / MS_NS) * MS_NS})
            yield timed.model_copy(update={field: rounded})


def _heard_everywhere(timed: Timed, tracks: Mapping[str, Track]) -> Iterator[Timed]:
    """The action with a call in the place of a sending: that is heard on real servers, too."""
    for field in ("at", "until"):
        trigger = getattr(timed, field)
        if trigger is not None and trigger.operation == SENDS:
            yield from (timed.model_copy(update={field: call}) for call in _calls(trigger, tracks))
    own = timed.step.cancel if isinstance(timed.step, Operation) else None
    if own is not None and own.operation == SENDS:
        times = {"track": None, "operation": "", "outcome": RETURNS, "nth": 1}
        for after_ns in dict.fromkeys((own.after_ns or SOON_NS, SOON_NS)):
            plain = own.model_copy(update={**times, "after_ns": after_ns})
            yield timed.model_copy(update={"step": timed.step.model_copy(update={"cancel": plain})})


def _calls(trigger: Trigger, tracks: Mapping[str, Track]) -> Iterator[Trigger]:
    """Every call of the client whose sending is waited for."""
    calls: Counter[str] = Counter()
    for timed in tracks.get(trigger.track or "", ()):
        if timed.step.KEY in (Acquire.KEY, Extend.KEY, Release.KEY):
            calls[timed.step.KEY] += 1
            call = {"operation": timed.step.KEY, "outcome": "invoke", "nth": calls[timed.step.KEY]}
            yield trigger.model_copy(update=call)


def _plainer(timed: Timed) -> Iterator[Timed]:
    step = timed.step
    if timed.until is not None:
        yield timed.model_copy(update={"until": None})
        if timed.until.after_ns and not timed.until.default:
            yield timed.model_copy(update={"until": _at_once(timed.until)})
    if isinstance(step, Operation):
        usual = {"cancel": None, "key": None, "ttl_ns": None, "insist_ns": None, "again": False}
        for field, value in usual.items():
            if getattr(step, field, value) != value and not (field == "insist_ns" and _pauses(step)):
                yield timed.model_copy(update={"step": step.model_copy(update={field: value})})
    if timed.at is not None:
        yield timed.model_copy(update={"at": None})
        if timed.at.after_ns and not timed.at.default:
            yield timed.model_copy(update={"at": _at_once(timed.at)})
        for nth in {1, timed.at.nth - 1} - {0, timed.at.nth}:
            if nth < timed.at.nth:
                yield timed.model_copy(update={"at": timed.at.model_copy(update={"nth": nth})})


def _pauses(step: Operation) -> bool:
    return isinstance(step, Acquire) and step.pause_ns is not None


def _at_once(trigger: Trigger) -> Trigger:
    return trigger.model_copy(update={"after_ns": 0})


def _with_action(trial: Trial, name: str, at: int, timed: Timed) -> Iterator[Trial]:
    track = trial.tracks[name]
    yield from _with_track(trial, name, (*track[:at], timed, *track[at + 1 :]))


def _with_track(trial: Trial, name: str, track: Track) -> Iterator[Trial]:
    tracks = {other: own for other, own in trial.tracks.items() if other != name or track}
    if track:
        tracks[name] = track
    changed = replace(trial, tracks=tracks)
    if fits(changed):
        yield changed
