"""From a trial to a scenario: its own tracks, which every substrate plays.

What the finding does not need is left out first. What waits for a time, or for what only a simulation hears,
then waits for an event (``in_events``), and the scenario is the trial that was played so. Where that does not
show the finding, the tracks stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace
from pydantic import ValidationError

from lab.durations import UNITS_NS, format_duration
from lab.errors import LabError
from lab.scenario.load import dump
from lab.scenario.model import PROPERTIES, Scenario
from lab.scenario.steps import Acquire, Check, Operation, Read, Write
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS
from lab.search.as_tracks import in_tracks
from lab.search.in_events import Writing
from lab.search.minimise import descend, once
from lab.search.plainer_tracks import fits
from lab.search.runner import WIRES, Wire, run_trial
from lab.search.suspicion import named
from lab.search.trial import KEY, PROMOTED_WITHIN_NS, Track, Trial

MARGIN_NS: Final = 2 * UNITS_NS["s"]
SEEDS: Final = (1, -1)
"""Other latencies with which what is left must show the finding, where all of it does."""
LEAK: Final = "leak"
"""The finding that a lock stays taken when all leases are over."""
OF_RESOURCE: Final = (Read, Check, Write)

Shows = Callable[[Trial], bool]


class NotExpressible(ValueError):
    """A trial that is no scenario; its text says why. The trial itself can be kept."""


def scenarios_of(trial: Trial, finding: str, *, command: str) -> tuple[Scenario, ...]:
    """The scenarios in which this trial happens, the one to be preferred first. Call it inside ``trials``.

    Args:
        trial: what was found, as small as it is.
        finding: what it is meant to show.
        command: how it was found, for the reader.

    Raises:
        NotExpressible: its history alone does not show the finding, or shows it as an observation only.
    """
    whole = in_tracks(trial)
    seen = {wire: _violated(whole, finding, wire) for wire in WIRES}
    violated = seen["resp"] or seen["direct"]
    if violated is None:
        raise NotExpressible(f"its history alone does not show {finding}")
    sooner: Wire = "direct" if seen["direct"] else "resp"
    seeds = [seed for seed in SEEDS if _violated(replace(whole, seed=seed), finding, sooner)]

    def shows(changed: Trial) -> bool:
        variants = (replace(changed, seed=seed) for seed in (trial.seed, *seeds))
        return all(_violated(variant, finding, sooner) for variant in variants)

    told: list[tuple[Mapping[str, Sequence[Timed]], list[str]]] = []
    if _waits_for_events(trial):
        told.append((whole.tracks, []))
    smaller = _shortest(whole, once(shows), _enough_ns(whole, finding))
    # As in every scenario clients have connections: after a fault on a link they are made anew.
    wire: Wire = "resp" if seen["resp"] else "direct"
    told += [_in_events(smaller, wire), (smaller.tracks, []), _in_events(whole, wire)]
    found, why = list[Scenario](), ""
    for tracks, sentences in told:
        try:
            found.append(_scenario(smaller, finding, violated, tracks, sentences, command))
        except ValidationError as error:
            why = "; ".join(str(each["msg"]) for each in error.errors())
    if not found:
        raise NotExpressible(why)
    return tuple(found)


def _waits_for_events(trial: Trial) -> bool:
    """Whether a trial is said in tracks, and in no event that only a simulation hears."""
    triggers = (each for track in trial.tracks.values() for timed in track for each in timed.triggers)
    short_form = trial.faults or any(trial.clients.values())
    return bool(trial.tracks) and not short_form and all(each.operation != SENDS for each in triggers)


def _in_events(trial: Trial, wire: Wire) -> tuple[dict[str, list[Timed]], list[str]]:
    """The tracks of a trial in events, and what happens in it in words."""
    writing = Writing(run_trial(trial, wire, watch=True))
    writing.write()
    return writing.tracks, writing.sentences


def _violated(trial: Trial, finding: str, wire: Wire) -> str | None:
    """The property that is violated with this finding, in the checker's words; None: it is not found."""
    try:
        findings = named(run_trial(trial, wire))
    except LabError:  # what is left out was needed: then it is left in
        return None
    hits = (each for each in findings if each.name == finding and each.severity == "violation")
    return next((str(each.property) for each in hits), None)


def _enough_ns(trial: Trial, finding: str) -> int:
    """For how long a client has to ask in vain: operations do not always last as long as in the trial.

    Where Sentinels promote a replica it counts from then on, which may come late on a busy machine.
    """
    late_ns = MARGIN_NS + (PROMOTED_WITHIN_NS if trial.sentinels else 0)
    return trial.unavailable_ns + late_ns + (2 * trial.longest_ttl_ns if finding == LEAK else 0)


def _shortest(trial: Trial, shows: Shows, enough_ns: int) -> Trial:
    """The trial without what comes after the finding, and without what clients do beside it."""
    for name, track in trial.tracks.items():
        low, high = 0, len(track) if isinstance(track[0].step, Operation) else 0
        while low < high:
            middle = (low + high) // 2
            shorter = _with_track(trial, name, track[:middle])
            if shorter is not None and shows(shorter):
                high = middle
            else:
                low = middle + 1
        if high and (shorter := _with_track(trial, name, track[:high])) is not None:
            trial = shorter
        elif isinstance(track[0].step, Operation) and (without := _with_track(trial, name, ())) is not None:
            trial = without
    trial = _without_many(trial, shows)
    return descend(trial, lambda changed: _fewer(changed, enough_ns), shows)


def _without_many(trial: Trial, shows: Shows) -> Trial:
    """Leave out operations on the resource: all of them, halves, quarters (Zeller's delta debugging)."""
    size = len(_of_resource(trial))
    while size:
        at = 0
        while at < len(places := _of_resource(trial)):
            changed: Trial | None = trial
            for name, place in reversed(places[at : at + size]):
                if changed is not None:
                    changed = _with_track(changed, name, _without(changed.tracks[name], place))
            if changed is not None and shows(changed):
                trial = changed
            else:
                at += size
        size //= 2
    return trial


def _of_resource(trial: Trial) -> list[tuple[str, int]]:
    """Where operations on the resource stand: their tracks and places."""
    return [
        (name, at)
        for name, track in trial.tracks.items()
        for at, timed in enumerate(track)
        if isinstance(timed.step, OF_RESOURCE)
    ]


def _fewer(trial: Trial, enough_ns: int) -> Iterator[Trial]:
    """The trial without a grant, or a refusal, and what belongs to it; or with fewer tries."""
    for name, track in trial.tracks.items():
        for at, timed in enumerate(track):
            step = timed.step
            if not isinstance(step, Acquire):
                continue
            end = at + 1
            while end < len(track) and not isinstance(track[end].step, Acquire):
                end += 1
            rest = (*track[:at], *_without((timed, *track[end:]), 0))
            if (without := _with_track(trial, name, rest)) is not None:
                yield without
            if (step.insist_ns or 0) > enough_ns:
                less = timed.model_copy(update={"step": step.model_copy(update={"insist_ns": enough_ns})})
                shorter = _with_track(trial, name, (*track[:at], less, *track[at + 1 :]))
                if shorter is not None:
                    yield shorter


def _without(track: Track, at: int) -> Track:
    """The track without an action; the next one waits as long as both did."""
    waits, rest = track[at].at, track[at + 1 :]
    if rest and waits is not None:
        following = rest[0].at
        if following is None:
            rest = (rest[0].model_copy(update={"at": waits}), *rest[1:])
        elif following.default:
            later = waits.model_copy(update={"after_ns": waits.after_ns + following.after_ns})
            rest = (rest[0].model_copy(update={"at": later}), *rest[1:])
    return (*track[:at], *rest)


def _with_track(trial: Trial, name: str, track: Track) -> Trial | None:
    """The trial with another track of this name, or without it; None: something waits for what is gone."""
    tracks = {other: track if other == name else own for other, own in trial.tracks.items()}
    changed = replace(trial, tracks={other: own for other, own in tracks.items() if own})
    return changed if changed.tracks and fits(changed) else None


def _scenario(
    trial: Trial,
    finding: str,
    violated: str,
    tracks: Mapping[str, Sequence[Timed]],
    sentences: list[str],
    command: str,
) -> Scenario:
    """Raises ``ValidationError``: something in it waits for what never comes."""
    told = {
        name: [timed.model_dump(mode="json", exclude_none=True) for timed in track]
        for name, track in tracks.items()
    }
    data: dict[str, Any] = {
        "title": f"Found by search: {finding} in {trial.lock}",
        "source": f"found by `{command}` (trial seed {trial.seed})",
        "why": " ".join(["A search came upon this by itself, and made it as small as it could.", *sentences]),
        "cluster": {
            "nodes": trial.nodes,
            "persistence": trial.persistence,
            **({"server": trial.server} if trial.server else {}),
            **({"replicas": trial.replicas} if trial.replicated else {}),
            **_sentinels(trial),
            **({"config": dict(trial.config)} if trial.config else {}),
        },
        "lock": {
            "name": trial.lock,
            "ttl": format_duration(trial.ttl_ns),
            "options": dict(trial.options),
            **({"key": trial.keys} if trial.keys else {}),
        },
        "warm_up": False,  # as in the trial: what it is about may be how a client comes to its connections
        "store": {"fencing": trial.store_fences},
        "clients": [name for name in trial.clients if name in str(told)],
        **({"key": trial.key_name} if trial.key_name != KEY else {}),
        "tracks": told,
        "expect": {
            violated: "violated",
            "findings": [finding],
            "either": [other for other in PROPERTIES if other != violated],
        },
    }
    if trial.asks_for_long and violated == "fault_tolerance":
        data["unavailable_after"] = format_duration(trial.unavailable_ns)
    return Scenario.model_validate(data)


def _sentinels(trial: Trial) -> dict[str, Any]:
    """What the scenario says of them."""
    plan = trial.watched_by
    if plan is None:
        return {}
    return {
        "sentinels": len(plan.names),
        "quorum": plan.quorum,
        "down_after": f"{plan.down_after_ms}ms",
        "failover_timeout": f"{plan.failover_timeout_ms}ms",
    }


def text_of(scenario: Scenario) -> str:
    """The scenario's file."""
    return dump(scenario)
