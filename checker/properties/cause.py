"""What led to an overlap, as far as the nodes were watched: how the holder's key was lost.

Two guaranteed windows meet only if the key of the earlier grant was gone, on enough nodes, before its time,
or never lay on enough of them. `checker.history.sightings` holds what was seen of it. This explains and
decides nothing; where nothing was seen there is no cause to tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checker.history.evidence import Evidence
from checker.history.history import Fault
from checker.history.masks import positions
from checker.history.operations import NEVER, F, Operations, Status
from checker.history.sightings import CLOCKS, Command, Look, Node, lost_between
from checker.verdict import Cause
from checker.words import in_words, listed

TAKEOVERS: Final = frozenset(("failover", "promote"))
"""Faults after which another node answers, which may not have the key."""
REMOVALS: Final = {
    "evict": "the key was removed from {nodes} by the nemesis at {at} (event {event})",
    "fill_memory": "{nodes} evicted the key when its memory was full at {at} (event {event})",
}
"""Faults that remove the key from a node, with one of `REMOVED_BY` or all keys at once, and what is said."""
REMOVED_BY: Final = "UNLINK"
DOWN: Final = frozenset(("crash", "shutdown", "power_cut", "restart"))
KINDS: Final = ("command", "clock", "node", "expiry")
"""From the most telling kind of loss to the least."""
_VERBS: Final = {
    "DEL": "deleted",
    "UNLINK": "deleted",
    "GETDEL": "deleted",
    "SET": "overwrote",
    "GETSET": "overwrote",
    "PSETEX": "overwrote",
    "SETEX": "overwrote",
    "EXPIRE": "set the time to live of",
    "PEXPIRE": "set the time to live of",
    "PEXPIREAT": "set the time to live of",
    "RENAME": "renamed",
}


@dataclass(frozen=True, slots=True)
class _Loss:
    """How one node lost the key."""

    kind: str
    actor: str
    node: str
    command: str | None
    event: int
    time_ns: int
    text: str


def cause_of(evidence: Evidence, g: int, h: int) -> Cause | None:
    """What was seen to have taken the key of grant `g` away before `h` was made; None if nothing was."""
    grants, ops, sightings = evidence.grants, evidence.ops, evidence.sightings
    key = evidence.key(int(grants.key[g]))
    old, new = (ops.name("token", int(grants.row[grant])) for grant in (g, h))
    nodes = list(sightings.nodes.get(key, {}).values())
    if old is None or new is None or not nodes:
        return None
    since_ns, until_ns = int(grants.acquired_ns[g]), int(grants.acquired_ns[h])
    later = [node.name for node in nodes if node.of(new)]
    if old != new:
        pairs = ((node, lost_between(node, old, until_ns)) for node in nodes)
        losses = [loss for node, pair in pairs if pair and (loss := _loss(evidence, node, pair))]
        if losses:
            return _as_cause(evidence, losses, later)
        enough = _never_enough(evidence, nodes, (g, old), (h, new))
        if enough is not None:
            return enough
    unseen = [
        _by_command(evidence, node, look, command)
        for node in nodes
        for look in node.looks
        for command in look.commands
        if command.may_end and since_ns <= command.first_ns and command.last_ns <= until_ns
        if not _was_gone_before(node, old, command)
    ]
    unseen = unseen or [
        _Loss(
            "node", f.target, f.target, None, f.index, f.start_ns, f"{_spoken(f)} at {{at}} (event {{event}})"
        )
        for f in evidence.history.faults
        if f.f in TAKEOVERS and f.heals is None and since_ns <= f.start_ns <= until_ns
    ]
    return _as_cause(evidence, unseen, later) if unseen else None


def _was_gone_before(node: Node, token: str, command: Command) -> bool:
    """Whether the last look that a command surely followed saw the node without the token."""
    look = next((look for look in node.looks if look.number == command.after), None)
    return look is not None and look.token != token


def _as_cause(evidence: Evidence, losses: Sequence[_Loss], later: Iterable[str]) -> Cause:
    """The most telling loss, and all nodes that lost it alike; first those that made the later grant."""
    counted = [loss for loss in losses if loss.node in set(later)] or list(losses)
    best = min(counted, key=lambda loss: (KINDS.index(loss.kind), loss.time_ns))
    alike = [one for one in counted if (one.kind, one.actor, one.text) == (best.kind, best.actor, best.text)]
    nodes = tuple(sorted({one.node for one in alike}))
    text = best.text.format(nodes=listed(nodes), at=evidence.at(best.time_ns), event=best.event)
    offset_ns = best.time_ns - evidence.history.zero_ns
    return Cause(best.kind, best.actor, nodes, best.command, best.event, offset_ns, text)


def _loss(evidence: Evidence, node: Node, pair: tuple[Look, Look]) -> _Loss | None:
    before, after = pair
    ends = [command for command in after.commands if command.may_end]
    if ends:
        return _by_command(evidence, node, after, ends[0])
    faults = [f for f in evidence.history.faults if node.name in f.targets]
    for fault, text in _moves(evidence, faults, node, before.asked_ns, after.answered_ns):
        return _Loss("clock", fault.target, node.name, None, fault.index, fault.start_ns, text)
    for fault in faults:
        if fault.f in REMOVALS and _meets(fault, before.asked_ns, after.answered_ns):
            return _removed(node, fault)
        if fault.f in DOWN and _meets(fault, before.asked_ns, after.answered_ns):
            text = f"{{nodes}} lost the key in a {_spoken(fault)} at {{at}} (event {{event}})"
            return _Loss("node", fault.target, node.name, None, fault.index, fault.start_ns, text)
    for down_ns, index in node.downs:
        if before.asked_ns <= down_ns <= after.answered_ns:
            text = "{nodes} went down at {at} (event {event}) and came back without the key"
            if index in node.ran_on:
                text = "{nodes} ended all connections at {at} (event {event}) and had no key afterwards"
            return _Loss("node", node.name, node.name, None, index, down_ns, text)
    if before.left_ns is not None and before.asked_ns + before.left_ns <= after.answered_ns:
        text = "the key's time to live was over on {nodes} by {at} (event {event})"
        return _Loss("expiry", "", node.name, None, after.index, after.answered_ns, text)
    return None


def _meets(fault: Fault, start_ns: int, end_ns: int) -> bool:
    """Whether it may have been done between two instants."""
    return fault.start_ns <= end_ns and min(fault.receipt_ns, fault.until_ns) >= start_ns


def _spoken(fault: Fault) -> str:
    return fault.f.replace("_", " ").replace("-", " ")


def _moves(
    evidence: Evidence, faults: Sequence[Fault], node: Node, start_ns: int, end_ns: int
) -> Iterator[tuple[Fault, str]]:
    """What moved a clock between two instants: a jump when made and when undone, a drift throughout.

    A clock that jumped before measures a time to live as well as any other.
    """
    undone = {f.fault_id for f in faults if f.heals is None and f.f in CLOCKS}
    for fault in faults:
        text = f"the clock of {{nodes}} was moved by a {fault.f} ({fault.target}) at {{at}} (event {{event}})"
        if fault.heals in undone and _meets(fault, start_ns, end_ns):
            yield fault, "the clock of {nodes} was corrected at {at} (event {event})"
        elif fault.f == "jump" and fault.heals is None and _meets(fault, start_ns, end_ns):
            receipt = fault.receipt or {}
            of_node = receipt.get(node.name, receipt)
            moved = of_node.get("moved_ms") if isinstance(of_node, dict) else None
            if isinstance(moved, int | float):
                by = in_words(round(moved * 1e6))
                text = f"the clock of {{nodes}} jumped {'+' * (moved > 0)}{by} at {{at}} (event {{event}})"
            yield fault, text
        elif fault.f in CLOCKS - {"jump"} and fault.start_ns <= end_ns and fault.until_ns >= start_ns:
            yield fault, text


def _removed(node: Node, fault: Fault) -> _Loss:
    text = REMOVALS[fault.f]
    return _Loss("node", fault.target, node.name, None, fault.index, fault.start_ns, text)


def _by_command(evidence: Evidence, node: Node, after: Look, command: Command) -> _Loss:
    if command.name == REMOVED_BY:
        for fault in evidence.history.faults:
            if (
                fault.f in REMOVALS
                and node.name in fault.targets
                and _meets(fault, command.first_ns, command.last_ns)
            ):
                return _removed(node, fault)
    actors = _actors(evidence, after, command)
    who = f"{actors[0]}'s {command.name}" if len(actors) == 1 else f"a {command.name}"
    if len(actors) > 1:
        who += f" of {listed(actors, 'or')}"
    verb = _VERBS.get(command.name, "changed")
    text = f"{who} {verb} the key on {{nodes}} at {{at}} (event {{event}})"
    shown = " ".join(command.words)
    actor = actors[0] if len(actors) == 1 else ""
    return _Loss("command", actor, node.name, shown, command.index, command.last_ns, text)


def _actors(evidence: Evidence, after: Look, command: Command) -> list[str]:
    """Whose command it was: by a token of its own words, or of the script that made it, else by the time."""
    ops = evidence.ops
    scripts = [
        one
        for one in after.commands
        if one.is_script and one.first_ns <= command.last_ns and one.last_ns >= command.first_ns
    ]
    for words in (command.words, *(script.words for script in scripts)):
        theirs = {str(ops.name("client", r)) for word in words for r in _with_token(ops, word)}
        if len(theirs) == 1:
            return list(theirs)
    return _by_time(evidence, command)


def _with_token(ops: Operations, token: str) -> list[int]:
    names = list(ops.names.token)
    if token not in names:
        return []
    return [int(r) for r in positions((ops.token == names.index(token)) & (ops.f == F.ACQUIRE))]


def _by_time(evidence: Evidence, command: Command) -> list[str]:
    """The clients with an operation on the lock under way while the command ran; releases count first."""
    ops = evidence.ops
    begun = ops.call_ns <= command.last_ns
    over = np.where(ops.status == Status.INFO, NEVER, ops.return_ns)
    under_way = begun & (over >= command.first_ns)
    for kinds in ((F.RELEASE,), (F.ACQUIRE, F.EXTEND)):
        rows = positions(under_way & np.isin(ops.f, [int(kind) for kind in kinds]))
        clients = list(dict.fromkeys(str(ops.name("client", int(row))) for row in rows))
        if clients:
            return clients
    return []


def _never_enough(
    evidence: Evidence, nodes: Sequence[Node], earlier: tuple[int, str], later: tuple[int, str]
) -> Cause | None:
    """That the key of one of the two grants never lay on a majority."""
    params = evidence.history.params
    majority = params.majority()
    if majority is None or params.nodes is None or len(nodes) < params.nodes:
        return None
    for grant, token in (earlier, later):
        had = [node for node in nodes if node.of(token)]
        unsure = [node for node in nodes if not node.of(token) and not node.never_had(token)]
        if len(had) + len(unsure) >= majority:
            continue
        index = int(evidence.ops.return_index[evidence.grants.row[grant]])
        time_ns = int(evidence.grants.acquired_ns[grant])
        who, names = evidence.holder(grant), tuple(sorted(node.name for node in had))
        where = f"on {listed(names)} only" if names else "on no node"
        text = f"the key of {who} lay {where}, of {params.nodes} nodes, when it was granted (event {index})"
        offset_ns = time_ns - evidence.history.zero_ns
        return Cause("minority", who, names, None, index, offset_ns, text)
    return None
