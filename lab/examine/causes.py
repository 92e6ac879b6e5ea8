"""The catalogue of causes: what is wrong with a lock, how it is done right, and where that is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REDIS_DOC: Final = '"Distributed Locks with Redis" (redis.io)'
KLEPPMANN: Final = 'Kleppmann, "How to do distributed locking" (2016)'
ANTIREZ: Final = 'Sanfilippo, "Is Redlock safe?" (2016)'


@dataclass(frozen=True, slots=True)
class CauseKind:
    """One kind of cause: its key, what it is in a sentence, how the algorithm does it right, the source."""

    key: str
    what: str
    right: str
    source: str = REDIS_DOC


_KINDS: Final = (
    CauseKind(
        "too-few-votes",
        "The lock is returned although fewer than a majority of the nodes hold its key.",
        "Count only explicit yes answers to this very request; of N nodes, N/2 + 1 must give one.",
    ),
    CauseKind(
        "overwrites-key",
        "Acquiring replaces the key of another client.",
        "Set the key in one command that refuses to replace it: SET key token NX PX ttl.",
    ),
    CauseKind(
        "no-expiry",
        "A key stays on the nodes without an expiry: it is there for ever if its client dies.",
        "Set value and expiry in one atomic command: SET key token NX PX ttl.",
    ),
    CauseKind(
        "wrong-expiry",
        "The nodes keep the key for another time than the lease has.",
        "Give PX the lease in milliseconds, exactly as it is promised to the client.",
    ),
    CauseKind(
        "late-deadline",
        "The lease is counted from too late, or is returned when it is over.",
        "Read a monotonic clock before the first request; after the last reply subtract what has passed, "
        "and return the lock only if time is left.",
    ),
    CauseKind(
        "no-drift-margin",
        "No margin is kept for clocks that run at different rates.",
        "Take a share of the TTL and a few milliseconds off the validity.",
    ),
    CauseKind(
        "wall-clock",
        "The client measures time by its wall clock, which can be stepped.",
        "Measure by the monotonic clock.",
        ANTIREZ,
    ),
    CauseKind(
        "ignores-deadline",
        "The client goes on believing in its lease after its end.",
        "Compare the deadline with the monotonic clock whenever somebody asks, and before each use.",
        KLEPPMANN,
    ),
    CauseKind(
        "deadline-moves",
        "While a lease is held, it is said to end later than was said when it was granted.",
        "Fix the end of a lease when it is granted, on a monotonic clock, and count what is left to that.",
    ),
    CauseKind(
        "deletes-others-key",
        "A release, or undoing an attempt, deletes the key of another client.",
        "Delete only after comparing the token, in one script on the node.",
    ),
    CauseKind(
        "others-token",
        "A release or an extension names the token of another lease, so that comparing it tells nothing.",
        "Keep the token with each lease, not with the client, the key, or the process.",
    ),
    CauseKind(
        "returns-released",
        "An acquire returns a lease that its client had already released, without asking a node.",
        "Forget a lease before its release is sent: it is over, whatever the nodes answer.",
    ),
    CauseKind(
        "mistakes-reply",
        "The reply to an earlier request is taken for that to a later one.",
        "After a time-out or a cancellation close the connection, or read the reply that is owed before the "
        "next request: replies come in the order of the requests.",
        "the Redis protocol (redis.io)",
    ),
    CauseKind(
        "goes-on",
        "An acquire that was cancelled, or is over, goes on in the background and takes the lock for nobody.",
        "Cancel what an acquire has started, and wait for it, before the acquire is over; then undo what it "
        "set.",
        "the documentation of asyncio.shield (python.org)",
    ),
    CauseKind(
        "counts-twice",
        "A request to enter that is repeated, since its reply was lost, is counted twice.",
        "Undo an attempt without an answer before the next one, or count each attempt once, under a name of "
        "its own.",
    ),
    CauseKind(
        "extends-others-key",
        "A command prolongs the key of another client, or of an earlier attempt.",
        "Extend only after comparing the token, in one script on the node.",
    ),
    CauseKind(
        "recreates-key",
        "An extension sets the key anew where it was gone, which acquires the lock under an old name.",
        "Extend only where the key still holds the token; if it is gone the lease is lost.",
    ),
    CauseKind(
        "extension-not-kept",
        "An extension is taken for a success although a majority of the nodes did not prolong the key.",
        "An extension counts only if a majority prolonged the key inside the remaining validity.",
    ),
    CauseKind(
        "late-extension-deadline",
        "An extended lease is counted from too late, or an extension succeeds when it is over.",
        "Count an extension from before its first request, not from the old deadline or from the replies.",
    ),
    CauseKind(
        "ends-lease-early",
        "The lock gives the key away while its client still holds the lease.",
        "Only a release deletes the key; a failed extension leaves the earlier deadline in place.",
    ),
    CauseKind(
        "same-token",
        "Two clients, or two attempts, use the same value, so comparing it tells nothing.",
        "Draw 20 random bytes for each attempt.",
    ),
    CauseKind(
        "leaves-keys",
        "Keys stay on nodes after a release, or after an attempt that failed, or was cancelled.",
        "Delete the key, comparing its value, wherever it may be: also after a refusal or a lost answer.",
    ),
    CauseKind(
        "waits-too-long",
        "One slow or silent node keeps the client waiting for as long as a lease lasts.",
        "Give each node a time-out that is small against the TTL, and ask all at once.",
    ),
    CauseKind(
        "sleeps-on",
        "An acquire goes on waiting although the lock is free.",
        "Ask again when the key may have expired, also if nobody says that it was released.",
    ),
    CauseKind(
        "needs-all-nodes",
        "The lock cannot be taken while a minority of the nodes is away.",
        "A majority of the nodes is enough.",
    ),
    CauseKind(
        "too-few-nodes-asked",
        "Not all nodes are asked, so the loss of one key loses the majority.",
        "Ask all nodes, also when a majority has said yes.",
    ),
    CauseKind(
        "fence-not-increasing",
        "A later grant gets the same fence as an earlier one, or a smaller one.",
        "Take the number, in the step that grants the lock, from a counter that a majority keeps.",
        KLEPPMANN,
    ),
    CauseKind(
        "store-accepts-stale",
        "The store accepts a write with an older fence after one with a newer fence.",
        "Keep the highest fence with the data, compare numbers, and reject what is smaller, atomically.",
        KLEPPMANN,
    ),
    CauseKind(
        "store-reads-stale",
        "The store answers a read with an older version after a newer write was acknowledged.",
        "Read where it is written, or read from a majority.",
    ),
    CauseKind(
        "hangs",
        "An operation never comes to an end.",
        "Give each request a time-out.",
    ),
    CauseKind(
        "wrong-error",
        "An exception of another kind is raised where a refusal, or an unknown outcome, is due.",
        "Catch what the client library raises, count the node as silent, and say NotAcquired or "
        "Indeterminate.",
        "lab.locks.base.Lock",
    ),
    CauseKind(
        "invalid-command",
        "The nodes answer what an acquire sends with an error.",
        "Send what a node accepts; an expiry is a positive number: give PX the lease in milliseconds.",
        "the documentation of SET (redis.io)",
    ),
    CauseKind(
        "does-not-recover",
        "After a lost connection or a restart of nodes the lock never works again.",
        "Reconnect; send a script with EVAL where EVALSHA answers NOSCRIPT.",
        "the documentation of EVALSHA (redis.io)",
    ),
    CauseKind(
        "asks-nobody",
        "An acquire is refused although no node was asked.",
        "Ask the nodes each time: they alone know whether the lock is free by now.",
    ),
    CauseKind(
        "renews-after-release",
        "The lease is still renewed after it was released.",
        "Stop the watchdog, and wait for it, before the release is sent.",
    ),
    CauseKind(
        "mixes-keys",
        "The leases of different keys, or of different attempts, share what they should not.",
        "Keep token and deadline with each lease, not with the client; use the whole name for the key.",
    ),
    CauseKind(
        "unknown",
        "The cause was not determined: what happened matches none in the catalogue.",
        "Read what happened, line by line.",
        "",
    ),
)
CAUSES: Final[dict[str, CauseKind]] = {kind.key: kind for kind in _KINDS}
"""All of them, by their key."""
