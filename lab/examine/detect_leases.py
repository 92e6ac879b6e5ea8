"""Causes that show in what a client gets: grants without votes, deadlines that are too late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checker.words import listed
from lab.examine.detect_expiry import gave_too_little
from lab.examine.detector import LATE_MS, SHARE, Cause, counted_nodes, said, who, whose
from lab.examine.evidence import MS_NS, NEVER, Evidence, Operation
from lab.examine.judge import labels
from lab.examine.own_findings import ROUNDED_NS, too_much_ns
from lab.faults.clock import ClockFault
from lab.faults.drift import Drift
from lab.faults.jump import Jump
from lab.search.watch import ClockRead, Executed

_LATE: Final = "late-extension-deadline"


def too_few_votes(evidence: Evidence) -> Iterator[Cause]:
    """A grant while fewer than a majority of the nodes had its client's key."""
    of, needed = evidence.outcome.trial.nodes, evidence.outcome.trial.majority
    for grant in evidence.grants():
        nodes = evidence.holding(grant.client, grant.ended_ns)
        if len(nodes) < needed and not _expired_meanwhile(evidence, grant):
            where = f"on {listed(nodes)} only" if nodes else "on no node"
            seen = (
                f"{who(grant.client)} was granted the lock at {evidence.at(grant.ended_ns)} with its key "
                f"{where}, of {counted_nodes(of)}; {needed} {'is' if needed == 1 else 'are'} needed"
            )
            yield Cause("too-few-votes", seen, grant)


def _expired_meanwhile(evidence: Evidence, grant: Operation) -> bool:
    return grant.ended_ns - grant.called_ns > evidence.outcome.trial.ttl_ns * SHARE


def not_kept(evidence: Evidence) -> Iterator[Cause]:
    """An extension that was a success for its client, and that a majority of the nodes did not make."""
    trial = evidence.outcome.trial
    majority = trial.majority
    for operation in evidence.operations:
        if operation.f != "extend" or operation.how == "open":
            continue
        nodes = evidence.holding(
            operation.client, operation.ended_ns, evidence.ttl_ns_of(operation) / MS_NS * SHARE
        )
        believed = operation.how == "ok" or _believes_after(evidence, operation)
        if believed and len(nodes) < majority:
            where = f"on {listed(nodes)} only" if nodes else "on no node"
            seen = (
                f"{whose(operation.client)} extension at {evidence.at(operation.called_ns)} counts as a "
                f"success, but the key has its new time {where}, of {counted_nodes(trial.nodes)}"
            )
            yield Cause("extension-not-kept", seen, operation)


def _believes_after(evidence: Evidence, extension: Operation) -> bool:
    """Whether an extension that failed is believed in: the lease outlives its first time."""
    grant = evidence.grant_of(extension.grant_id)
    if grant is None:
        return False
    end_ns = grant.ended_ns + evidence.outcome.trial.ttl_ns
    later = (
        each.ended_ns
        for each in evidence.operations
        if each.f == "extend" and each.grant_id == extension.grant_id and each.how == "ok"
    )
    extended_ns = next((ended_ns for ended_ns in later if ended_ns > extension.ended_ns), NEVER)
    return any(
        each.f == "held"
        and each.grant_id == extension.grant_id
        and end_ns < each.called_ns < extended_ns
        and each.event.get("value") == "yes"
        for each in evidence.operations
    )


def over_at_return(evidence: Evidence) -> Iterator[Cause]:
    """A call that took longer than a lease, and succeeded when a majority had its key no more."""
    trial = evidence.outcome.trial
    for each in evidence.operations:
        took_ns = each.ended_ns - each.called_ns
        if each.f not in ("acquire", "extend") or each.how != "ok" or took_ns <= trial.ttl_ns:
            continue
        nodes = evidence.holding(each.client, each.ended_ns)
        if len(nodes) < trial.majority:
            kind = "late-deadline" if each.f == "acquire" else "late-extension-deadline"
            seen = (
                f"{whose(each.client)} {each.f} of {evidence.at(each.called_ns)} succeeded after "
                f"{took_ns / 1e9:.2f} s, when its key lay on {len(nodes)} of {trial.nodes} nodes"
            )
            yield Cause(kind, seen, each)


def late_deadline(evidence: Evidence) -> Iterator[Cause]:
    """A grant or an extension that claims more time than the keys on a majority of the nodes have."""
    trial = evidence.outcome.trial
    majority = trial.majority
    for operation in evidence.operations:
        claimed_ns = operation.event.get("claimed_ns")
        if operation.how != "ok" or operation.f not in ("acquire", "extend") or claimed_ns is None:
            continue
        first_ns = _first_command_ns(evidence, operation)
        over_ms = (operation.ended_ns + claimed_ns - first_ns - evidence.ttl_ns_of(operation)) / MS_NS
        lasting = evidence.holding(operation.client, operation.ended_ns, claimed_ns / MS_NS - 1)
        if over_ms > LATE_MS or (claimed_ns <= 0 and len(lasting) < majority):
            kind = "late-deadline" if operation.f == "acquire" else "late-extension-deadline"
            if _reads_wall_clock(evidence, operation.client):
                kind = "wall-clock"
            name = "acquire" if operation.f == "acquire" else "extension"
            seen = f"{whose(operation.client)} {name}, over at {evidence.at(operation.ended_ns)}, " + (
                f"claims {claimed_ns / MS_NS:.0f} ms from then on: {_beyond(over_ms)} of the lease, which "
                f"began at {evidence.at(first_ns)} with its first command"
                if claimed_ns > 0
                else f"returned a lease that had ended {-claimed_ns / MS_NS:.0f} ms before"
            )
            by = _first_look(evidence, operation.client, operation.called_ns)
            yield Cause(kind, seen, by if kind == "wall-clock" else operation)


def _beyond(over_ms: float) -> str:
    return "at the very end" if over_ms <= 0 else f"{over_ms:.0f} ms beyond the end"


def claims_too_much(evidence: Evidence) -> Iterator[Cause]:
    """A grant or an extension that claims more time than the nodes say that its key has left."""
    majority = evidence.outcome.trial.majority
    for index in evidence.outcome.left_ns:
        over_ns = too_much_ns(evidence.outcome, index)
        event = evidence.outcome.events[index]
        if over_ns <= 0:
            continue
        name, kind = ("acquire", "late-deadline") if event["f"] == "acquire" else ("extension", _LATE)
        seen = (
            f"{whose(event['client'])} {name} ended at {evidence.at(event['time_ns'])} and claims "
            f"{event['claimed_ns'] / MS_NS:.0f} ms, {over_ns / MS_NS:.0f} ms more than a majority of the "
            "nodes keeps its key"
        )
        operation = evidence.operation_at(event["client"], event["time_ns"])
        if kind == _LATE and operation is not None:
            nodes = _prolonged_on(evidence, operation)
            if len(nodes) < majority:
                kind = "extension-not-kept"
                seen += f", which it has prolonged on {f'{listed(nodes)} only' if nodes else 'no node'}"
        short = _short_keys(evidence, operation) if operation is not None else []
        if kind == "late-deadline" and len(short) > evidence.outcome.trial.minority:
            nodes = sorted(entry.node for entry in short)
            seen += f": it asked {listed(nodes)} to keep it for less than the lease"
            yield Cause("wrong-expiry", seen, short[0])
        else:
            yield Cause(kind, seen, operation)


def _short_keys(evidence: Evidence, operation: Operation) -> list[Executed]:
    """The commands that gave keys less time than the lease has, if the lease is counted as it must be."""
    ttl_ns, claimed_ns = evidence.ttl_ns_of(operation), operation.event.get("claimed_ns", 0)
    if operation.ended_ns + claimed_ns > _first_command_ns(evidence, operation) + ttl_ns:
        return []
    return gave_too_little(evidence, operation, (ttl_ns - ROUNDED_NS) / MS_NS)


def _prolonged_on(evidence: Evidence, extension: Operation) -> list[str]:
    """The nodes on which an extension made a key last longer."""
    return sorted(
        {
            entry.node
            for entry in evidence.executed_during(extension)
            for key, (_, left_ms) in entry.after.items()
            if left_ms is None or left_ms > (entry.before.get(key, ("", 0))[1] or 0)
        }
    )


def _first_command_ns(evidence: Evidence, operation: Operation) -> int:
    """When the attempt that succeeded began, or was first executed by a node: the lease counts from there."""
    attempt = operation.event.get("attempt_ns")
    theirs = [
        entry.time_ns
        for entry in evidence.outcome.commands
        if entry.client == operation.client
        and operation.called_ns <= entry.time_ns <= operation.ended_ns
        and any(new is not None or old is not None for _, old, new in entry.changes())
    ]
    return int(attempt or (min(theirs) if theirs else operation.called_ns))


def _reads_wall_clock(evidence: Evidence, client: str) -> bool:
    jumped = any(f.client == client and f.is_a(ClockFault) for f in evidence.outcome.struck)
    return jumped and client in evidence.outcome.wall_clock


def _first_look(evidence: Evidence, client: str, since_ns: int) -> ClockRead | None:
    """When code of the lock's own first looked at a client's wall clock from then on, or last before that."""
    reads = [each for each in evidence.outcome.wall_clock.get(client, ()) if each.places]
    return next((each for each in reads if each.time_ns >= since_ns), reads[-1] if reads else None)


def wall_clock(evidence: Evidence) -> Iterator[Cause]:
    """A client whose clock was moved, and whose lock looks at it."""
    for number, fault in enumerate(evidence.outcome.struck, 1):
        if fault.is_a(ClockFault) and fault.client and fault.client in evidence.outcome.wall_clock:
            jumped = f"was moved by {fault.by_ns / 1e9:+.3g} s"
            moved = jumped if fault.is_a(Jump) else f"ran at {1 + fault.ppm / 1e6:.3g} times its rate"
            seen = f"the wall clock of {who(fault.client)} {moved}, and the lock reads it"
            moved_ns = evidence.fault_begins().get(f"f{number}", 0)
            yield Cause("wall-clock", seen, _first_look(evidence, fault.client, moved_ns))


def renews_another(evidence: Evidence) -> Iterator[Cause]:
    """A lease that is believed in, and renewed under the token of an earlier one, which prolongs nothing."""
    tokens = {grant.grant_id: grant.event.get("token") for grant in evidence.grants()}
    for check in evidence.operations:
        if check.f != "held" or check.event.get("value") != "yes" or not tokens.get(check.grant_id):
            continue
        grant = next(each for each in evidence.grants() if each.grant_id == check.grant_id)
        own = tokens[check.grant_id]
        earlier = {
            tokens[each.grant_id]
            for each in evidence.grants()
            if each.client == check.client and each.called_ns < grant.called_ns
        } - {own, None}
        if evidence.holding(check.client, check.ended_ns):
            continue
        for entry in evidence.outcome.commands:
            in_vain = entry.client == check.client and not entry.changes() and own not in entry.words
            if in_vain and earlier & {*entry.words} and grant.ended_ns < entry.time_ns < check.called_ns:
                seen = (
                    f"{whose(check.client)} lease of {evidence.at(grant.ended_ns)} is renewed at "
                    f"{evidence.at(entry.time_ns)} under the token of an earlier one, and its key runs out"
                )
                yield Cause("extension-not-kept", seen, entry)


def ignores_deadline(evidence: Evidence) -> Iterator[Cause]:
    """A client whose lock says that it is held after its lease is over."""
    for check in evidence.operations:
        if check.f != "held" or check.event.get("value") != "yes":
            continue
        grant = evidence.grant_of(check.grant_id)
        if grant is None:
            continue
        end_ns = _last_end_ns(evidence, grant, check.ended_ns)
        if check.ended_ns > end_ns + LATE_MS * MS_NS:
            late_ms = (check.ended_ns - end_ns) / MS_NS
            kind = "wall-clock" if _reads_wall_clock(evidence, check.client) else "ignores-deadline"
            seen = (
                f"asked at {evidence.at(check.called_ns)}, {whose(check.client)} lock said that it is held, "
                f"{late_ms:.0f} ms after its lease was over"
            )
            by = _first_look(evidence, check.client, check.called_ns) if kind == "wall-clock" else None
            yield Cause(kind, seen, by)


def _last_end_ns(evidence: Evidence, grant: Operation, before_ns: int) -> int:
    ttl_ns = evidence.outcome.trial.ttl_ns
    ends = [
        each.ended_ns + each.event.get("claimed_ns", ttl_ns)
        for each in evidence.operations
        if each.grant_id == grant.grant_id
        and each.f in ("acquire", "extend")
        and each.how == "ok"
        and each.ended_ns <= before_ns
    ]
    return max(ends, default=grant.ended_ns + ttl_ns)


def too_few_asked(evidence: Evidence) -> Iterator[Cause]:
    """A grant or an extension for which only some of the nodes were asked although all were there.

    Who holds a lock that counts need ask nobody to take it again.
    """
    trial = evidence.outcome.trial
    for each in evidence.operations:
        if each.f not in ("acquire", "extend") or each.how != "ok" or trial.reentrant:
            continue
        asked = {
            entry.node
            for entry in evidence.outcome.commands
            if entry.client == each.client and each.called_ns <= entry.time_ns <= each.ended_ns + 50 * MS_NS
        }
        reached = evidence.sent_to(each.client, each.called_ns, each.ended_ns)
        if len(asked) < trial.nodes and len(asked | reached) < trial.nodes:
            what = "was granted the lock" if each.f == "acquire" else "extended its lease"
            seen = (
                f"{who(each.client)} {what} at {evidence.at(each.ended_ns)} after asking "
                f"{listed(sorted(asked)) if asked else 'none'} only, of {trial.nodes} nodes"
            )
            yield Cause("too-few-nodes-asked", seen, each)


def shortened(evidence: Evidence) -> Iterator[Cause]:
    """A key whose own client gives it less time than it had, and than is left of the lease."""
    for grant in evidence.grants():
        until_ns = evidence.until_ns(grant)
        for entry in evidence.outcome.commands:
            if entry.client != grant.client or not grant.ended_ns <= entry.time_ns < until_ns:
                continue
            lease_ms = (until_ns - entry.time_ns) / MS_NS
            for key, (value, left_ms) in entry.after.items():
                same, before_ms = entry.before.get(key, ("", None))
                was_less = left_ms is not None and (before_ms is None or left_ms < before_ms - LATE_MS)
                if same != value or not was_less or grant.client not in evidence.writers.get(value, ()):
                    continue
                if left_ms is not None and left_ms < lease_ms * SHARE:
                    seen = (
                        f"{who(entry.client)} left its key {left_ms} ms on {entry.node} at "
                        f"{evidence.at(entry.time_ns)} ({said(entry)}), and had {lease_ms:.0f} ms of its "
                        "lease left"
                    )
                    yield Cause("wrong-expiry", seen, entry)


def deadline_moves(evidence: Evidence) -> Iterator[Cause]:
    """A lease that is not extended, and is said to end later and later."""
    for check in evidence.operations:
        left_ns = check.event.get("claimed_ns") if check.f == "held" and check.how == "ok" else None
        said = [each for each in _said_of_its_end(evidence, check) if each.ended_ns <= check.called_ns]
        if left_ns is None or not said or _reads_wall_clock(evidence, check.client):
            continue
        moved_ns = check.called_ns + left_ns - max(map(_end_ns, said))
        if moved_ns > LATE_MS * MS_NS:
            seen = (
                f"asked at {evidence.at(check.called_ns)}, {whose(check.client)} lock said that its lease "
                f"ends at {evidence.at(check.called_ns + left_ns)}, {moved_ns / MS_NS:.0f} ms later than "
                "it had said before"
            )
            yield Cause("deadline-moves", seen)


def _said_of_its_end(evidence: Evidence, check: Operation) -> list[Operation]:
    """The grant of the lease that is asked for, and its extensions, also those of unknown outcome."""
    found = [
        each
        for each in evidence.operations
        if each.grant_id == check.grant_id and each.f in ("acquire", "extend") and each.how in ("ok", "info")
    ]
    return [] if any(each.event.get("claimed_ns") is None for each in found) else found


def _end_ns(operation: Operation) -> int:
    return int(operation.ended_ns + operation.event["claimed_ns"])


def drift_margin(evidence: Evidence) -> Iterator[Cause]:
    """A node's clock that runs a little fast, within what a margin of 1 % bears."""
    slow = [fault for fault in evidence.outcome.struck if fault.is_a(Drift) and not fault.client]
    if slow and not labels(evidence.outcome.trial) and not _keeps_margin(evidence, slow[0].ppm):
        seen = (
            f"the clock of {listed(slow[0].nodes)} ran {slow[0].ppm / 10_000:+.1f} % off: the key was gone "
            "before the client's lease was over, and no margin was kept"
        )
        yield Cause("no-drift-margin", seen)


def _keeps_margin(evidence: Evidence, ppm: int) -> bool:
    """Whether all that was said of leases ended early enough for nodes whose clocks run so fast."""
    said = [each for each in evidence.operations if each.f in ("acquire", "extend") and each.how == "ok"]
    return all(
        each.event.get("claimed_ns") is None  # what is not claimed is not held against the lock
        or _end_ns(each) <= _first_command_ns(evidence, each) + kept_ns - kept_ns * abs(ppm) // 10**6
        for each in said
        for kept_ns in [_kept_ns(evidence, each)]
    )


def _kept_ns(evidence: Evidence, operation: Operation) -> int:
    """For how long nodes keep what an operation has set, if they say so; else the TTL."""
    given_ms = [
        left_ms
        for entry in evidence.outcome.commands
        if evidence.operation_of(entry) is operation
        for key, (value, left_ms) in entry.after.items()
        if left_ms is not None and operation.client in evidence.writers.get(value, ())
        if left_ms > (entry.before.get(key, ("", 0))[1] or 0)
    ]
    return min(given_ms) * MS_NS if given_ms else evidence.ttl_ns_of(operation)
