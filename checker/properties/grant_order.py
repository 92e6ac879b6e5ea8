"""Grants of which either may have begun first, where that matters: what the verdict on fencing cannot say.

Every pair of grants that overlaps in time may have begun in either order, and mostly nothing depends on it.
Something does where a grant that was returned later has a fence no larger, or where a client wrote after
a client whose grant was returned later: in one of the two orders a fence went backwards, or a late write was
accepted. A correct lock hardly makes such pairs: a grant that is returned while another is waited for has
begun before it. Complexity: O(n log n).
"""

from __future__ import annotations

from checker.history.arrays import grow_together, largest_before, which_before
from checker.history.evidence import Evidence
from checker.history.masks import every, positions
from checker.history.operations import MISSING


def undecided(evidence: Evidence) -> str | None:
    """Why fence order or late writes cannot be judged, None if they can."""
    return _fences(evidence) or _writes(evidence)


def _fences(evidence: Evidence) -> str | None:
    grants, margin = evidence.grants, 2 * evidence.params.epsilon_ns
    rows = positions(grants.held & (grants.fence != MISSING))
    if not rows.size:
        return None
    key, fence, acquired = grants.key[rows], grants.fence[rows], grants.acquired_ns[rows]
    if grow_together(key, acquired, fence):
        return None
    earlier = largest_before(key, acquired, fence, key, acquired)
    for i in positions(earlier > fence).tolist():
        before = which_before(key, acquired, fence, int(key[i]), int(acquired[i]))
        g, h = int(rows[before]), int(rows[i])
        if int(evidence.began_ns[h]) - margin > int(grants.acquired_ns[g]):
            continue  # in order: a violation of its own
        a, b = evidence.holder(g), evidence.holder(h)
        return (
            f"{b} was returned fence {int(fence[i])} at {evidence.at(grants.acquired_ns[h])}, after {a} "
            "had got "
            f"fence {int(fence[before])} by {evidence.at(grants.acquired_ns[g])}, but either grant may "
            "have begun "
            "first: whether fences grew is not known"
        )
    return None


def _writes(evidence: Evidence) -> str | None:
    grants, writes, margin = evidence.grants, evidence.writes, 2 * evidence.params.epsilon_ns
    own = positions(grants.certain(writes.grant))
    if not own.size:
        return None
    key, granted = writes.key[own], grants.acquired_ns[writes.grant[own]]
    done, call = writes.done_ns[own], writes.call_ns[own]
    if every(done >= call) and grow_together(key, call, granted):
        return None  # whoever returned before a write was called was called before it
    later = largest_before(key, done, granted, key, call - margin)
    for i in positions(later > granted).tolist():
        before = which_before(key, done, granted, int(key[i]), int(call[i]) - margin)
        g, h = int(writes.grant[own[i]]), int(writes.grant[own[before]])
        if int(evidence.began_ns[h]) > int(grants.acquired_ns[g]) + margin:
            continue  # in order: a violation of its own
        a, b = evidence.holder(g), evidence.holder(h)
        return (
            f"{a} wrote at {evidence.at(call[i])}, after {b}, whose grant was returned later, but either "
            "grant may "
            "have begun first: whether a late write was accepted is not known"
        )
    return None
