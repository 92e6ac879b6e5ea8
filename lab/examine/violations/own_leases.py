"""Refusals that a client owes to itself: it has not given back a lease that it was granted.

Locks that threads hold have a part in the process, as Spring Integration's has: a thread that does not unlock
keeps the others of its process out, also when the lease is over. The TTL is for those whose holder has died;
one that lives gives back what it has, and may be held to that by its own process.
"""

from __future__ import annotations

from collections.abc import Collection

from lab.examine.violations.evidence import Evidence, watched
from lab.search.runner import Outcome, is_unattended


def keeps_itself_away(outcome: Outcome, clients: Collection[str]) -> bool:
    """Whether all of these clients were refused without asking a node, having kept a lease of their own.

    Only inside ``trials``.
    """
    if not clients or not set(clients) <= _keepers(outcome):
        return False
    evidence = watched(outcome)
    return evidence is not None and all(_asks_nobody(evidence, client) for client in set(clients))


def _keepers(outcome: Outcome) -> set[str]:
    """The clients with a grant whose release they never called."""
    kept: dict[str, str] = {}
    for event in outcome.events:
        if is_unattended(event):
            continue
        if (event["f"], event["type"]) == ("acquire", "ok"):
            kept[event["grant_id"]] = event["client"]
        elif event["f"] == "release":
            kept.pop(event["grant_id"], None)
    return set(kept.values())


def _asks_nobody(evidence: Evidence, client: str) -> bool:
    """Whether a client sent nothing in any attempt that failed, since it has a lease that it keeps."""
    kept = [grant for grant in evidence.grants() if grant.client == client]
    since_ns = min(each.ended_ns for each in kept if evidence.release_of(each.grant_id) is None)
    failed = [
        each for each in evidence.of(client, "acquire") if each.how == "fail" and each.called_ns >= since_ns
    ]
    return bool(failed) and not any(evidence.sendings(each) for each in failed)
