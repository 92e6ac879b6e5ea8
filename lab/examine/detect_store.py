"""Causes that show in fences and in the resource."""

from __future__ import annotations

from collections.abc import Iterator

from lab.examine.detector import Cause, said, who, whose
from lab.examine.evidence import Evidence, Operation
from lab.examine.own_findings import overtaken_grants
from lab.search.as_tracks import every_fault
from lab.search.watch import Executed


def fences(evidence: Evidence) -> Iterator[Cause]:
    """Two grants whose fences do not grow."""
    before: Operation | None = None
    for grant in evidence.grants():
        fence = grant.event.get("fence")
        if fence is None:
            continue
        if before is not None and fence <= before.event["fence"]:
            seen = (
                f"{who(grant.client)} was granted fence {fence} at {evidence.at(grant.ended_ns)}, after "
                f"{who(before.client)} had got fence {before.event['fence']}"
            )
            by, lowered = _drawn_by(evidence, grant, fence), None
            if isinstance(by, Executed):
                lowered = _lowered_by(evidence, by, fence, before.event["fence"])
            if lowered is not None:
                seen += (
                    f": {whose(lowered.client)} {said(lowered)} at {evidence.at(lowered.time_ns)} had "
                    f"lowered the counter on {lowered.node}"
                )
            yield Cause("fence-not-increasing", seen, lowered or by)
        before = grant
    for earlier, later in overtaken_grants(evidence):
        fence, began_ns = later.event["fence"], evidence.began_ns(later) or 0
        seen = (
            f"{whose(later.client)} key was set at {evidence.at(began_ns)}, after {who(earlier.client)} had "
            f"been granted fence {earlier.event['fence']}, and its own fence is {fence}"
        )
        yield Cause("fence-not-increasing", seen)


def _drawn_by(evidence: Evidence, grant: Operation, fence: object) -> Executed | Operation:
    """The command that gave a grant its fence, if one is known."""
    drawn = [
        entry
        for entry in evidence.executed_during(grant)
        if any(new == str(fence) for _, _, new in entry.changes())
    ]
    return drawn[-1] if drawn else grant


def _lowered_by(evidence: Evidence, drawn: Executed, fence: int, highest: int) -> Executed | None:
    """The last command that lowered the counter of a fence, from a number that was a fence already."""
    counters = {key for key, _, new in drawn.changes() if new == str(fence)}
    for entry in reversed(evidence.of_node(drawn.node)):
        for key, old, new in entry.changes() if entry.time_ns <= drawn.time_ns else ():
            numbers = key in counters and old and new and old.isdigit() and new.isdigit()
            if numbers and int(new or 0) < highest <= int(old or 0):
                return entry
    return None


def stale_store(evidence: Evidence) -> Iterator[Cause]:
    """The store accepted a write with an older fence, or under a token that was announced before another."""
    highest, by = -1, ""
    for write in evidence.operations:
        fence = write.event.get("fence")
        if write.f != "write" or write.how != "ok" or fence is None:
            continue
        if fence < highest:
            seen = (
                f"the store accepted {whose(write.client)} write with fence {fence} at "
                f"{evidence.at(write.ended_ns)}, after one of {whose(by)} with fence {highest}"
            )
            yield Cause("store-accepts-stale", seen)
        if fence > highest:
            highest, by = fence, write.client


def stale_token(evidence: Evidence) -> Iterator[Cause]:
    """Of a lock that announces its tokens: the store took a write under one that was no longer the last."""
    from lab.locks import lock_class

    if not getattr(lock_class(evidence.outcome.trial.lock), "announces_token", False):
        return
    written: Operation | None = None
    for write in (each for each in evidence.operations if each.f == "write" and each.how == "ok"):
        based_on = write.event.get("version_written", 0)
        if written is not None and write.event.get("grant_id") != written.event.get("grant_id"):
            seen = (
                f"the store accepted {whose(write.client)} write (version {based_on}) at "
                f"{evidence.at(write.ended_ns)}, although {who(written.client)} had announced its token since"
            )
            yield Cause("store-accepts-stale", seen)
        written = write


def stale_reads(evidence: Evidence) -> Iterator[Cause]:
    """A read that shows an older version than a write that had been acknowledged."""
    version, acknowledged_ns = 0, 0
    for each in sorted(evidence.operations, key=lambda one: one.ended_ns):
        if each.f == "write" and each.how == "ok":
            version, acknowledged_ns = each.event["version_written"], each.ended_ns
            continue
        late = each.f == "read" and each.how == "ok" and each.called_ns > acknowledged_ns
        if late and each.event["version_read"] < version:
            seen = (
                f"{whose(each.client)} read at {evidence.at(each.called_ns)} shows version "
                f"{each.event['version_read']}, after version {version} had been acknowledged"
            )
            yield Cause("store-reads-stale", seen)


def mixes_keys(evidence: Evidence) -> Iterator[Cause]:
    """A violation that needs a second key and no fault: the smallest trial still takes one."""
    if every_fault(evidence.outcome.trial):
        return
    for client, rounds in evidence.outcome.trial.clients.items():
        if any(each.other for each in rounds):
            trial = evidence.outcome.trial
            one, other = trial.key_name, trial.other_key
            seen = f"{whose(client)} lock {one!r} goes wrong when the same object takes {other!r} as well"
            yield Cause("mixes-keys", seen)
