"""Keys that keep the lock from everybody though nobody can hold it, where only the nodes tell whose they are.

A release or an extension of unknown outcome may explain a refusal: the checker knows no better, so it waits
until what might have been is over. The nodes know whether a release left out those that would have answered,
and who prolonged a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lab.examine.violations.evidence import NEVER, TOKEN_MIN, Evidence, Operation, watched
from lab.examine.violations.judge import Violation, labels
from lab.faults.down import DownFault
from lab.search.faults import is_a, nodes_of
from lab.search.runner import Outcome
from lab.search.watch import parts_of

LEAK: Final = "leak"
UNAVAILABLE: Final = "unavailable"


def keys_that_stay(outcome: Outcome) -> Iterator[Violation]:
    """Refusals for longer than a free lock may be refused, and whose keys are the reason."""
    if not _is_refused_for_long(outcome):
        return
    if (evidence := watched(outcome)) is None:
        return
    for release, refused, nodes in left_at_release(evidence):
        waited_s = (refused.called_ns - release.ended_ns) / 1e9
        headline = f"{refused.client} is refused {waited_s:.1f} s after {release.client}'s release"
        seen = f"its key still lies on {', '.join(nodes)}, which nothing kept from answering"
        yield Violation(UNAVAILABLE, headline, (seen,), clients=(refused.client, release.client))
        return
    for grant, refused, by in prolonged_by_others(evidence):
        late_s = (refused.called_ns - evidence.until_ns(grant)) / 1e9
        headline = f"{refused.client} is refused {late_s:.1f} s after {grant.client}'s lease was over"
        seen = f"{by} had prolonged the key of {grant.client}, and nobody was granted the lock since"
        yield Violation(LEAK, headline, (seen,), clients=(refused.client, grant.client))
        return


def left_at_release(evidence: Evidence) -> Iterator[tuple[Operation, Operation, list[str]]]:
    """Releases that left keys on nodes which no fault kept away, so that there is no majority without them.

    Each with who was refused for that long after it, and the nodes.
    """
    trial = evidence.outcome.trial
    if labels(trial):
        return
    majority = trial.majority
    for release in (each for each in evidence.operations if each.f == "release"):
        token = _token_of(evidence, release.grant_id)
        if release.how not in ("info", "fail") or token is None or _holds_otherwise(evidence, release, token):
            continue
        well = _well(evidence, release)
        if len(well) < majority:
            continue
        for refused in _refused(evidence, release.ended_ns):
            left = [node for node in well if _has(evidence, node, token, refused.called_ns)]
            if len(well) - len(left) < majority:
                yield release, refused, left


def released_in_vain(evidence: Evidence) -> Iterator[tuple[Operation, list[str], int]]:
    """Releases in their lease whose key a majority of the nodes keeps to its end, with nodes and that time.

    A lock that shows no token, or gives several grants the same one, is not looked at; nor is a lease that
    was extended, or whose client asked again meanwhile.
    """
    majority = evidence.outcome.trial.majority
    last_ns = evidence.outcome.events[-1]["time_ns"] if evidence.outcome.events else 0
    grants = list(evidence.grants())
    for grant in grants:
        token, ttl_ns = grant.event.get("token"), evidence.ttl_ns_of(grant)
        release = evidence.release_of(grant.grant_id)
        look_ns = grant.called_ns + ttl_ns * 9 // 10
        if not token or release is None or release.how not in ("ok", "fail") or last_ns < look_ns:
            continue
        if release.ended_ns > grant.called_ns + ttl_ns * 3 // 4:
            continue
        if any(each.event.get("token") == token for each in grants if each is not grant):
            continue
        nodes = [
            node
            for node in evidence.outcome.trial.voters
            if any(is_of(str(token), value) for value, _ in evidence.locks_at(node, look_ns).values())
        ]
        if len(nodes) >= majority:
            yield release, nodes, look_ns


def _well(evidence: Evidence, release: Operation) -> list[str]:
    """The nodes that no fault ever hit, or that had been restarted before a release and answered it."""
    ends = evidence.fault_ends()
    answered = {entry.node for entry in evidence.executed_during(release)}
    hit: set[str] = set()
    for number, fault in enumerate(evidence.outcome.struck, 1):
        was_restarted = is_a(fault, DownFault) and ends.get(f"f{number}", NEVER) < release.called_ns
        hit |= set(nodes_of(fault)) - (answered if was_restarted else set())
    return [node for node in evidence.outcome.trial.voters if node not in hit]


def prolonged_by_others(evidence: Evidence) -> Iterator[tuple[Operation, Operation, str]]:
    """Grants whose key another client prolonged, so that it is there for long when the lease is over.

    Each with who was refused then, and who prolonged it.
    """
    trial = evidence.outcome.trial
    majority = trial.majority
    for grant in evidence.grants():
        token = _token_of(evidence, grant.grant_id)
        if token is None:
            continue
        for refused in _refused(evidence, evidence.until_ns(grant)):
            nodes = [node for node in trial.node_names if _has(evidence, node, token, refused.called_ns)]
            by = [_last_prolonged_by(evidence, node, token, refused.called_ns) for node in nodes]
            others = sorted({client for client in by if client not in ("", grant.client)})
            if others and trial.nodes - len(nodes) < majority:
                yield grant, refused, others[0]


def _is_refused_for_long(outcome: Outcome) -> bool:
    """Whether an acquire failed long after the last grant was over, and one of the two may be why.

    These are a release of that grant without a certain end, and an extension of another client's that was
    called before it and whose outcome is unknown.
    """
    trial = outcome.trial
    bound_ns = trial.unavailable_ns
    called: dict[str, int] = {}
    extending: set[str] = set()
    over_ns, suspect = NEVER, False
    for event in outcome.events:
        f, kind = event["f"], event["type"]
        if f == "acquire":
            client = event["client"]
            if kind == "invoke":
                called[client] = event["time_ns"]
            elif kind == "ok":
                over_ns, suspect = event["time_ns"] + trial.longest_ttl_ns, bool(extending - {client})
            elif kind == "fail" and suspect and called[client] > over_ns + bound_ns:
                return True
        elif f == "extend" and kind in ("ok", "info"):
            over_ns = max(over_ns, event["time_ns"] + trial.longest_ttl_ns) if kind == "ok" else over_ns
            extending |= {event["client"]} if kind == "info" else set()
        elif f == "release" and kind == "invoke":
            over_ns = min(over_ns, event["time_ns"])
        elif f == "release":
            suspect = kind != "ok" and (suspect or _others_are_well(outcome))
    return False


def _others_are_well(outcome: Outcome) -> bool:
    """Whether no fault but a restart hit a majority of several nodes, and no assumption was broken."""
    trial = outcome.trial
    restarts = [fault for fault in outcome.struck if is_a(fault, DownFault) and fault.lasts_ns]
    hit = {node for fault in outcome.struck if fault not in restarts for node in nodes_of(fault)}
    several = trial.nodes > 1 or bool(restarts)
    return several and len(hit) <= trial.minority and not labels(trial)


def _refused(evidence: Evidence, over_ns: int) -> Iterator[Operation]:
    """Who was refused so long after this, where nobody was granted the lock, or asked for it, in between."""
    since_ns = over_ns + evidence.outcome.trial.unavailable_ns
    granted_ns = min((each.ended_ns for each in evidence.grants() if each.ended_ns > over_ns), default=NEVER)
    for each in evidence.operations:
        refused = each.f == "acquire" and each.how == "fail"
        if refused and since_ns < each.called_ns and each.ended_ns < granted_ns:
            yield each


def _token_of(evidence: Evidence, grant_id: str) -> str | None:
    """The token of a grant: as its lock shows it, or the one value that its acquire alone has set."""
    grant = evidence.grant_of(grant_id)
    if grant is None:
        return None
    if grant.event.get("token"):
        return str(grant.event["token"])
    tokens = _set_by(evidence, grant)
    for other in evidence.operations:
        tokens -= _set_by(evidence, other) if other is not grant else set()
    return tokens.pop() if len(tokens) == 1 else None


def _set_by(evidence: Evidence, operation: Operation) -> set[str]:
    """The values that nodes were given during a call, and that can tell one lease from all others."""
    return {
        part
        for entry in evidence.executed_during(operation)
        for _, _, new in entry.changes()
        for part in ([] if new is None else parts_of(new))
        if len(part) >= TOKEN_MIN
    }


def _holds_otherwise(evidence: Evidence, release: Operation, token: str) -> bool:
    """Whether another grant has this token and was not released before: the client holds the lock still."""
    return any(
        each.grant_id != release.grant_id and each.event.get("token") == token for each in evidence.grants()
    )


def _has(evidence: Evidence, node: str, token: str, time_ns: int) -> bool:
    """Whether a key of this node had the token at a time."""
    return any(is_of(token, value) for value, _ in evidence.locks_at(node, time_ns).values())


def is_of(token: str, value: str) -> bool:
    """Whether a value is this token, or a hash that has it."""
    return value == token or token in value.replace("=", " ").split()


def _last_prolonged_by(evidence: Evidence, node: str, token: str, time_ns: int) -> str:
    """Which client made this token's key last longer, the last time that any did; nothing if none did."""
    by = ""
    for entry in evidence.of_node(node):
        for key, (value, left_ms) in entry.after.items():
            before = entry.before.get(key)
            if entry.time_ns > time_ns or not is_of(token, value) or before is None or before[0] != value:
                continue
            if before[1] is not None and (left_ms is None or left_ms > before[1]):
                by = entry.client
    return by
