"""A trial in words: its schedule, and what happened when it was run, up to the violation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from checker.words import listed
from lab.durations import short_duration
from lab.examine.ledger.finders import OTHERS_KEY, all_violations
from lab.examine.violations.evidence import MS_NS, NEVER, Evidence, Operation
from lab.examine.violations.judge import RELEASE, RENEWAL
from lab.locks.capacity import READ
from lab.search.actor import OTHER_GRANTS
from lab.search.faults import fault_of
from lab.search.runner import Outcome, run_trial
from lab.search.sentences import fault_words
from lab.search.trial import Round, Track, Trial

LINES_MAX: Final = 15
"""How many lines there are at most."""
SAME_MIN: Final = 4
"""So many lines in a row that differ only in their times are shortened."""
LONG_NS: Final = 20 * MS_NS
"""An operation that took longer is shown with its end."""
OF_THE_RESOURCE: Final = ("read", "held", "write")
WITHOUT_RESOURCE: Final = (
    "overlap",
    "over-capacity",
    "fence-order",
    "false-validity",
    "continuity-loss",
    "leak",
    "unavailable",
    OTHERS_KEY,
    RELEASE,
    RENEWAL,
)
"""Findings that need no reads and writes."""
OUTCOMES: Final = {
    ("acquire", "ok"): "acquires: granted",
    ("acquire", "fail"): "acquires: refused",
    ("acquire", "info"): "acquires: outcome unknown",
    ("extend", "ok"): "extends: the lease is longer now",
    ("extend", "fail"): "extends: refused",
    ("extend", "info"): "extends: outcome unknown",
    ("release", "ok"): "releases",
    ("release", "fail"): "releases: it did not hold the lock any more",
    ("release", "info"): "releases: outcome unknown",
    ("write", "ok"): "writes",
    ("write", "fail"): "writes: rejected",
    ("write", "info"): "writes: outcome unknown",
}


def narrate(trial: Trial, finding: str) -> tuple[str, ...]:
    """Run a trial once more and tell what happens up to its finding; only inside ``trials``.

    Raises:
        UnknownOutcome: a client ended with an exception.
    """
    found = all_violations(run_trial(trial)).get(finding)
    outcome = run_trial(trial, watch=True)
    evidence = Evidence(outcome)
    last_ns = NEVER
    if found is not None and found.witnesses:
        last_ns = max(outcome.events[at]["time_ns"] for at in found.witnesses)
    without = OF_THE_RESOURCE if finding in WITHOUT_RESOURCE else ()
    lines = _faults(evidence, outcome)  # ahead of the call that they strike at
    lines += [
        (each.called_ns, _stamp(evidence, each), _operation(each))
        for each in evidence.operations
        if each.f not in without
    ]
    lines.sort(key=lambda line: line[0])
    return cut(shortened([(stamp, words) for at_ns, stamp, words in lines if at_ns <= last_ns]))


def cut(lines: Sequence[str]) -> tuple[str, ...]:
    """At most ``LINES_MAX`` lines: the beginning, and the end, at which the violation is."""
    if len(lines) <= LINES_MAX:
        return tuple(lines)
    half = LINES_MAX // 2
    return (*lines[:half], f"… {len(lines) - 2 * half} more lines …", *lines[-half:])


def shortened(lines: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of a stamp and words, where of many in a row with the same words the first and last are left."""
    found: list[str] = []
    for _, group in groupby(lines, key=itemgetter(1)):
        same = [f"{stamp}: {words}" for stamp, words in group]
        if len(same) >= SAME_MIN:
            same[1:-1] = [f"… the same {len(same) - 2} times more"]
        found += same
    return found


def _stamp(evidence: Evidence, operation: Operation) -> str:
    called = evidence.at(operation.called_ns)
    if operation.ended_ns == NEVER or operation.ended_ns - operation.called_ns <= LONG_NS:
        return called
    return f"{called} to {evidence.at(operation.ended_ns)}"


def _operation(operation: Operation) -> str:
    who, f, how, event = operation.client.capitalize(), operation.f, operation.how, operation.event
    if how == "open":
        return f"{who} calls {f}, which never returns"
    if f == "read":
        return f"{who} reads version {event.get('version_read')}"
    if f == "held":
        still = event.get("value") == "yes"
        return f"{who} {'still believes in the lease' if still else 'sees that the lease is over'}"
    of_another = f" '{event['key']}'" if _is_of_other_lock(event) else ""
    verb, colon, outcome = OUTCOMES.get((f, how), f"{f} ({how})").partition(":")
    reads = " as a reader" if f == "acquire" and event.get("value") == READ else ""
    words = f"{who} {verb}{of_another}{reads}{colon}{outcome}"
    if (f, how) == ("acquire", "ok") and not of_another:
        words += _where(event.get("_nodes") or [], event.get("_others") or [])
        words += f" with fence {event['fence']}" if event.get("fence") is not None else ""
    elif (f, how) == ("write", "ok"):
        words += f" version {event.get('version_written')}"
    return words


def _is_of_other_lock(event: Mapping[str, Any]) -> bool:
    """Whether an operation is about the second lock of its client, whose grants have numbers of their own."""
    number = str(event.get("grant_id") or "").rpartition("-")[2]
    return number.isdigit() and int(number) > OTHER_GRANTS


def _where(nodes: list[str], others: list[str]) -> str:
    """On which nodes a grant's key is; or, where its token was found on none, what was."""
    if nodes:
        return f" (its key is on {listed(nodes)})"
    return f" (the key is on {listed(others)}, without its token)" if others else " (the key is on no node)"


def _faults(evidence: Evidence, outcome: Outcome) -> list[tuple[int, str, str]]:
    """When each fault began and ended."""
    of = {f"f{at}": fault for at, fault in enumerate(outcome.struck, 1)}
    lines = []
    for event in outcome.events:
        if event["process"] == "nemesis" and event["type"] == "invoke":
            begun = event.get("heals")
            fault = of.get(begun or event["fault_id"])
            if fault is None:
                words = f"the Sentinels promote {listed(event['targets'])}"
            else:
                words = f"{'end of the fault' if begun else 'fault'}: {fault_of(fault).clause}"
            lines.append((event["time_ns"], evidence.at(event["time_ns"]), words))
    return lines


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
