"""Smaller and plainer tracks: an action less, a node of a fault less, no time-out, no delay.

Each change leaves out something that an action says, or the action itself, so a series of them ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from lab.faults.base import Fault as FaultStep
from lab.scenario.steps import Acquire, Operation
from lab.scenario.tracks import Timed, misfits
from lab.scenario.triggers import Trigger
from lab.search.trial import Track, Trial


def fits(trial: Trial) -> bool:
    """Whether all that tracks name, and wait for, is there."""
    return next(misfits(trial.tracks, tuple(trial.clients), trial.node_names), None) is None


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


def plainer_tracks(trial: Trial) -> Iterator[Trial]:
    """The trial with one action said more plainly."""
    for name, track in trial.tracks.items():
        for at, timed in enumerate(track):
            for plainer in _plainer(timed):
                yield from _with_action(trial, name, at, plainer)


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
