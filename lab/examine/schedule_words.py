"""A trial in words: the cluster, what each client does, and what the nemesis does, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lab.durations import short_duration
from lab.search.sentences import fault_words
from lab.search.trial import Round, Track, Trial

ENDS: Final = {
    "release": "releases",
    "keep": "does not release",
    "twice": "releases twice",
}


def schedule_words(trial: Trial) -> tuple[str, ...]:
    """The whole schedule, a sentence a line: the cluster, the clients, the faults in their order."""
    nodes = "1 node" if trial.nodes == 1 else f"{trial.nodes} nodes"
    kept = "" if trial.persistence == "aof-always" else f", persistence {trial.persistence}"
    options = "".join(f", {name} {value}" for name, value in trial.options.items())
    lines = [f"{nodes}{kept}, TTL {short_duration(trial.ttl_ns)}{options}"]
    told = {track.partition("/")[0] for track in trial.tracks}
    acts = {
        name: rounds
        for name, rounds in trial.clients.items()
        if rounds or not (trial.demand_ns or name in told)
    }
    lines += [f"{name.capitalize()} {_rounds(rounds)}." for name, rounds in acts.items()]
    lines += [f"Fault: {fault_words(fault)}." for fault in trial.faults]
    lines += track_words(trial.tracks)
    if trial.demand_ns:
        each = "Each client" if len(trial.clients) > 1 else next(iter(trial.clients)).capitalize()
        asks = f"{each} then asks again" if acts else f"{each} asks again and again"
        lines.append(f"{asks} until it is granted, for {short_duration(trial.demand_ns)} at most.")
    return tuple(lines)


def track_words(tracks: Mapping[str, Track]) -> list[str]:
    """The tracks of a trial: each action as its file says it, a line each for what waits for an event."""
    lines = []
    for name, track in tracks.items():
        actions = [timed.model_dump(mode="json", exclude_none=True) for timed in track]
        told = "; ".join(_flow(action) for action in actions)
        lines.append(f"{name.capitalize()}: {told}.")
    return lines


def _flow(value: object) -> str:
    """Data as YAML on one line, as people write it."""
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value.values())) == {}:
            return str(next(iter(value)))
        return ", ".join(f"{key}: {_braced(each)}" for key, each in value.items())
    return str(value)


def _braced(value: object) -> str:
    if isinstance(value, dict):
        return "{" + _flow(value) + "}" if value else "{}"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def _rounds(rounds: tuple[Round, ...]) -> str:
    if not rounds:
        return "does nothing"
    return "; then ".join(_round(each) for each in rounds)


def _round(each: Round) -> str:
    waits = f"waits {short_duration(each.think_ns)}, " if each.think_ns else ""
    lease = f" it for {short_duration(each.ttl_ns)}" if each.ttl_ns else ""
    lease += " as a reader" if each.reads else ""
    if each.cancel_ns:
        lease += f", which is cancelled after {short_duration(each.cancel_ns)} if it is not over by then"
    extends = {0: "", 1: ", extends once meanwhile"}.get(
        each.extends, f", extends {each.extends} times meanwhile"
    )
    if each.extends and each.extend_ttl_ns:
        extends += f" for {short_duration(each.extend_ttl_ns)}{' each' if each.extends > 1 else ''}"
    if each.other:
        extends += ", takes another lock as well meanwhile"
    writes = ", writes" if each.checks else ", writes without asking whether it still holds it"
    writes = "" if each.reads else writes
    holds = f"holds it for {short_duration(each.hold_ns)}{extends}"
    return f"{waits}acquires{lease}, {holds}{writes}, {ENDS[each.ends]}"
