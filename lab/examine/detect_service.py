"""Causes for which a lock is not served, raises, or never comes back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from checker.words import listed
from lab.examine.detect_keys import own_refusals
from lab.examine.detect_requests import claims_nothing, set_after_undo
from lab.examine.detector import Cause, whose
from lab.examine.evidence import NEVER, Evidence, Operation
from lab.examine.keys_that_stay import left_at_release, released_in_vain
from lab.examine.left_behind import left_by
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.down import DownFault
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.reset import Reset
from lab.search.guard import CANCELLED
from lab.substrates.sim.clock import MONOTONIC_START_NS

NOSCRIPT: Final = "NOSCRIPT"
"""How the error of a node begins that does not know a script."""
LOOKS: Final = 40
"""How often it is looked whether the lock is free while an acquire goes on."""
HANG_LEASES: Final = 3
"""An operation that still goes on after so many leases has no end."""


def leaves_keys(evidence: Evidence) -> Iterator[Cause]:
    """Keys that lie on nodes when nobody holds the lock and somebody is refused it."""
    trial = evidence.outcome.trial
    gone = {node for fault in evidence.outcome.struck if not fault.lasts_ns for node in fault.nodes}
    undone = {
        (entry.node, value) for entry, _, value in set_after_undo(evidence) if claims_nothing(evidence, entry)
    }
    for refused in reversed(evidence.operations):
        if refused.f != "acquire" or refused.how == "ok":
            continue
        owners: dict[str, list[str]] = {}
        for node in trial.node_names:
            for value, _ in evidence.locks_at(node, refused.called_ns).values():
                wrote = evidence.writers.get(value, set())
                held = any(_counts_on_it(evidence, each, refused.called_ns) for each in wrote)
                stays = (node, value) not in undone and not _goes(evidence, node, value, refused.called_ns)
                for owner in wrote if not held and stays else ():
                    owners.setdefault(owner, []).append(node)
        for owner, nodes in owners.items():
            blocked = len(gone.union(nodes)) > trial.minority
            last = evidence.operation_at(owner, refused.called_ns)
            if last is None or last.how == "info" or _was_unanswered(evidence, owner, refused):
                continue  # whether its key lies there is not known, to its client neither
            if last is not refused and last.ended_ns > refused.called_ns:
                continue  # it is about to take the lock, or to give it back
            if blocked:
                by, setting = left_by(evidence, owner, nodes[0], refused.called_ns)
                seen = (
                    f"{setting} on {listed(nodes)}, where it still lies at {evidence.at(refused.called_ns)}, "
                    "though no client holds the lock"
                )
                yield Cause("leaves-keys", seen, by)


def _goes(evidence: Evidence, node: str, value: str, time_ns: int) -> bool:
    """Whether what takes this value away from a node had been sent by then, and was still on its way."""
    return any(
        entry.sent_ns <= time_ns < entry.time_ns and any(old == value for _, old, _ in entry.changes())
        for entry in evidence.of_node(node)
    )


def stops_releasing(evidence: Evidence) -> Iterator[Cause]:
    """A release that failed at one node, and left the key on others that nothing kept from answering."""
    for release, refused, nodes in left_at_release(evidence):
        seen = (
            f"{whose(release.client)} key lies on {listed(nodes)} at {evidence.at(refused.called_ns)}, "
            f"though its release of {evidence.at(release.called_ns)} could have reached them"
        )
        yield Cause("leaves-keys", seen)


def releases_in_vain(evidence: Evidence) -> Iterator[Cause]:
    """A release in its lease and without a fault, after which the key stays until it expires."""
    for release, nodes, look_ns in released_in_vain(evidence):
        says = "was refused" if release.how == "fail" else "was a success"
        seen = (
            f"{whose(release.client)} release of {evidence.at(release.called_ns)}, which {says}, left its "
            f"key on {listed(nodes)}, where it still lies at {evidence.at(look_ns)}"
        )
        yield Cause("leaves-keys", seen, release)


def _was_unanswered(evidence: Evidence, client: str, refused: Operation) -> bool:
    """Whether an attempt or a release of a client's had come to an unknown end, for want of an answer."""
    return any(
        each.client == client
        and each.called_ns <= refused.called_ns
        and each is not refused
        and each.f in ("acquire", "release")
        and each.how in ("info", "open")
        and each.event.get("error") != CANCELLED
        for each in evidence.operations
    )


def _counts_on_it(evidence: Evidence, client: str, time_ns: int) -> bool:
    """Whether a grant of the client's was not released by then, and its key had not expired yet."""
    ttl_ns = evidence.outcome.trial.ttl_ns
    for grant in evidence.grants():
        release = evidence.release_of(grant.grant_id)
        if grant.client == client and (release is None or release.called_ns > time_ns):
            extended = [
                each.ended_ns
                for each in evidence.operations
                if each.f == "extend" and each.grant_id == grant.grant_id and each.called_ns < time_ns
            ]
            if grant.ended_ns <= time_ns < max([grant.ended_ns, *extended]) + ttl_ns:
                return True
    return False


def majority_is_away(evidence: Evidence, waiting: Operation) -> bool:
    """Whether faults kept a majority of the nodes away from an operation."""
    trial = evidence.outcome.trial
    return len(_away(evidence, waiting, trial.ttl_ns // 2)) > trial.minority


def waits_too_long(evidence: Evidence) -> Iterator[Cause]:
    """An operation that takes more than half of a lease; of an acquire, while nobody else has the lock."""
    bound_ns = evidence.outcome.trial.ttl_ns // 2
    refused_by_own = {id(operation) for operation, _, _ in own_refusals(evidence)}
    for each in evidence.operations:
        if id(each) in refused_by_own:
            continue  # that is what it waited for
        lasted_ns = each.ended_ns - each.called_ns
        if each.f not in ("acquire", "extend", "release") or each.how == "open" or lasted_ns <= bound_ns:
            continue
        free_ns = _free_ns(evidence, each) if each.f == "acquire" else lasted_ns
        if free_ns <= bound_ns:
            continue  # it waited for who had the lock
        away = _away(evidence, each, bound_ns)
        if away or each.f != "acquire":
            why = f", with {listed(away)} away" if away else ""
            seen = f"{whose(each.client)} {each.f} took {lasted_ns / 1e9:.1f} s{why}"
            yield Cause("waits-too-long", seen, each)
        elif (free_ns := _free_ns(evidence, each, of_anybody=True)) > bound_ns:
            seen = f"{whose(each.client)} acquire waited on for {free_ns / 1e9:.1f} s with the lock free"
            yield Cause("sleeps-on", seen, each)


def _away(evidence: Evidence, waiting: Operation, bound_ns: int) -> list[str]:
    """The nodes that faults kept away from an operation: their own, or of the links of its client.

    Not by a delay or a drift; and without those that were back when it sent its last request before it was
    silent for longer than a bound: what it waited for then was no node.
    """
    sent = [each.time_ns for each in evidence.requests_of(waiting)]
    gaps = [(later - earlier, earlier) for earlier, later in pairwise([*sent, waiting.ended_ns])]
    longest_ns, since_ns = max(gaps, default=(0, 0))
    ended_ns = evidence.fault_ends()
    return sorted(
        {
            node
            for at, fault in enumerate(evidence.outcome.struck, 1)
            if not fault.is_a(Delay, Drift) and fault.client in ("", waiting.client)
            if longest_ns <= bound_ns or ended_ns.get(f"f{at}", NEVER) > since_ns
            for node in fault.nodes
        }
    )


def _free_ns(evidence: Evidence, acquire: Operation, *, of_anybody: bool = False) -> int:
    """For how long in one piece no other client had the keys of a majority while an acquire went on.

    ``of_anybody``: nor had this client, which may have left them itself.
    """
    trial = evidence.outcome.trial
    step_ns = (min(acquire.ended_ns, _end_ns(evidence)) - acquire.called_ns) // LOOKS
    longest_ns = free_ns = 0
    for at in range(1, LOOKS + 1):
        time_ns = acquire.called_ns + at * step_ns
        taken = [
            node
            for node in trial.node_names
            if any(
                of_anybody or not {acquire.client} & evidence.writers.get(value, set())
                for value, _ in evidence.locks_at(node, time_ns).values()
            )
        ]
        free_ns = 0 if len(taken) > trial.minority else free_ns + step_ns
        longest_ns = max(longest_ns, free_ns)
    return longest_ns


def does_not_recover(evidence: Evidence) -> Iterator[Cause]:
    """Attempts that go on failing, without a refusal by a key, after a fault that was over."""
    broke = [
        fault
        for fault in evidence.outcome.struck
        if fault.is_a(Reset) or (fault.is_a(DownFault, Cut, Hold) and fault.lasts_ns)
    ]
    failed = [each for each in evidence.operations if each.f == "acquire" and each.how in ("fail", "info")]
    refused = [each for each in failed[-3:] if each.event.get("refused_by", 1)]
    if refused:
        return
    ok = [each for each in evidence.grants() if failed and each.called_ns > failed[-1].called_ns]
    if broke and failed and not any(each.client == failed[-1].client for each in ok):
        error = str(failed[-1].event.get("error", ""))
        seen = (
            f"{whose(failed[-1].client)} attempts fail to the end, long after the {broke[0].kind} of "
            f"{listed(broke[0].nodes) if broke[0].nodes else broke[0].client}: {error[:120]}"
        )
        yield Cause("does-not-recover", seen, failed[-1])


def scripts_lost(evidence: Evidence) -> Iterator[Cause]:
    """An operation that fails since a node that was restarted does not know its script any more."""
    for each in evidence.operations:
        error = str(each.event.get("error", ""))
        if NOSCRIPT in error and any(fault.is_a(DownFault) for fault in evidence.outcome.struck):
            seen = (
                f"{whose(each.client)} {each.f} at {evidence.at(each.called_ns)} failed, as a node that was "
                f"restarted does not know the script: {error[:120]}"
            )
            yield Cause("does-not-recover", seen, each)


def asks_nobody(evidence: Evidence) -> Iterator[Cause]:
    """An attempt that is refused without a word to any node, though no fault kept one away."""
    if any(fault.nodes for fault in evidence.outcome.struck):
        return
    for each in evidence.operations:
        refused = each.f == "acquire" and each.how == "fail"
        if refused and not evidence.sent_to(each.client, each.called_ns, each.ended_ns):
            seen = (
                f"{whose(each.client)} acquire at {evidence.at(each.called_ns)} was refused, and no node had "
                "been asked"
            )
            yield Cause("asks-nobody", seen, each)


def raised(evidence: Evidence) -> Iterator[Cause]:
    """An exception that a lock may not raise."""
    for failure in evidence.outcome.failures:
        seen = f"{whose(failure.client)} {failure.f} at {evidence.at(failure.time_ns)} raised {failure.error}"
        yield Cause("wrong-error", seen)


def hangs(evidence: Evidence) -> Iterator[Cause]:
    """An operation without an end, although there was time for one."""
    trial = evidence.outcome.trial
    end_ns = _end_ns(evidence)
    bound_ns = trial.ttl_ns // 2
    for each in evidence.operations:
        if each.how == "open" and end_ns - each.called_ns > HANG_LEASES * trial.ttl_ns:
            seen = f"{whose(each.client)} {each.f}, called at {evidence.at(each.called_ns)}, never ended"
            asked = each.f == "acquire" and _asked(evidence, each)
            free_ns = _free_ns(evidence, each, of_anybody=True) if asked else 0
            if free_ns > bound_ns and not _away(evidence, each, bound_ns):
                seen += f", with the lock free for {free_ns / 1e9:.1f} s"
                yield Cause("sleeps-on", seen, each)
            else:
                yield Cause("hangs", seen, each)


def _asked(evidence: Evidence, acquire: Operation) -> bool:
    """Whether an acquire sent something, other than one that was cancelled as this one was called."""
    cancelled = any(
        each.client == acquire.client and each.how == "info" and each.ended_ns == acquire.called_ns
        for each in evidence.operations
    )
    sent = evidence.requests_of(acquire)
    return any(each.time_ns > acquire.called_ns for each in sent) if cancelled else bool(sent)


def _end_ns(evidence: Evidence) -> int:
    """When the trial was over."""
    last = (int(each["time_ns"]) for each in evidence.outcome.events[-1:])
    return max([MONOTONIC_START_NS + evidence.outcome.trial.horizon_ns, *last])
