"""The broken locks that no scenario shows: what must catch each of them, and why."""

from __future__ import annotations

from typing import Final

from lab.locks.broken.mutant import Mutant

_SINGLE, _FENCED = "single", "redlock-fenced"
WITHOUT_SCENARIO: Final = (
    Mutant("get-then-set", "singles", "overlap", "overwrites-key", _SINGLE),
    Mutant("setnx-then-pexpire", "singles", "leak", "no-expiry", _SINGLE),
    Mutant("ttl-in-whole-seconds", "singles", "overlap", "wrong-expiry", _SINGLE),
    Mutant("pxat-by-client-clock", "singles", "overlap", ("wrong-expiry", "wall-clock"), _SINGLE),
    Mutant("silence-is-yes", "singles", "overlap", "too-few-votes", _SINGLE),
    Mutant("unanswered-set-stays", "singles", "unavailable", "leaves-keys", _SINGLE),
    Mutant("deadline-from-reply", "singles", "false-validity", "late-deadline", _SINGLE),
    Mutant("deadline-by-wall-clock", "singles", "lost-update", ("wall-clock", "ignores-deadline"), _SINGLE),
    Mutant("compares-other-units", "singles", "lost-update", "ignores-deadline", _SINGLE),
    Mutant("margin-added", "singles", "false-validity", ("late-deadline", "no-drift-margin"), _SINGLE),
    Mutant("get-then-del", "singles", "overlap", "deletes-others-key", _SINGLE),
    Mutant("retries-for-ever", "singles", "hang", ("hangs", "waits-too-long"), _SINGLE),
    Mutant(
        "one-token-for-all-keys",
        "clients",
        "unavailable",
        ("mixes-keys", "leaves-keys", "others-token"),
        _SINGLE,
    ),
    Mutant(
        "one-deadline-for-all-keys", "clients", "lost-update", ("mixes-keys", "ignores-deadline"), _SINGLE
    ),
    Mutant(
        "lease-from-cache",
        "clients",
        "overlap",
        ("too-few-votes", "too-few-nodes-asked", "returns-released"),
        _SINGLE,
    ),
    Mutant("del-when-forgotten", "clients", "overlap", "deletes-others-key", _SINGLE),
    Mutant("never-reconnects", "clients", "unavailable", "does-not-recover", _SINGLE),
    Mutant("no-script-fallback", "clients", "unavailable", "does-not-recover", _SINGLE),
    Mutant("raises-node-error", "clients", "error", "wrong-error", _SINGLE),
    Mutant("release-raises-key-error", "clients", "error", "wrong-error", _SINGLE),
    Mutant("is-empty-when-away", "clients", "error", "wrong-error", _SINGLE),
    Mutant("one-key-for-all", "clients", "unavailable", "mixes-keys", _SINGLE),
    Mutant("doubles-its-pauses", "clients", "unavailable", "sleeps-on", _SINGLE),
    Mutant("mutex-stays-locked", "clients", "hang", ("hangs", "does-not-recover"), _SINGLE),
    Mutant("release-asserts", "clients", "error", "wrong-error", _SINGLE),
    Mutant("release-empties-key", "clients", "unavailable", "leaves-keys", _SINGLE),
    Mutant("no-time-out", "clients", "hang", "hangs", _SINGLE),
    Mutant("set-xx-extends", "rewritten", "overlap", ("extends-others-key", "overwrites-key"), _SINGLE),
    Mutant("expire-extends", "rewritten", "overlap", "extends-others-key", _SINGLE),
    Mutant("extension-sets-again", "rewritten", "continuity-loss", "recreates-key", _SINGLE),
    Mutant(
        "extends-by-what-is-left", "rewritten", "overlap", ("extension-not-kept", "wrong-expiry"), _SINGLE
    ),
    Mutant("extension-is-not-looked-at", "rewritten", "overlap", "extension-not-kept", _SINGLE),
    Mutant("extension-from-reply", "rewritten", "false-validity", "late-extension-deadline", _SINGLE),
    Mutant("unanswered-extension-deletes", "rewritten", "overlap", "ends-lease-early", _SINGLE),
    Mutant("undo-overtakes-set", "rewritten", "unavailable", "leaves-keys", _SINGLE),
    Mutant("one-token-for-all-tries", "rewritten", "overlap", ("same-token", "deletes-others-key"), _SINGLE),
    Mutant("one-token-for-all-leases", "rewritten", "overlap", ("same-token", "deletes-others-key"), _SINGLE),
    Mutant(
        "timestamp-in-the-key", "rewritten", "overlap", ("wall-clock", "overwrites-key", "no-expiry"), _SINGLE
    ),
    Mutant(
        "watchdog-sets-after-release", "watchdogs", "leak", ("renews-after-release", "recreates-key"), _SINGLE
    ),
    Mutant("watchdog-fails-unnoticed", "watchdogs", "lost-update", "ignores-deadline", _SINGLE),
    Mutant(
        "watchdog-keeps-first-token",
        "watchdogs",
        "lost-update",
        ("extension-not-kept", "same-token"),
        _SINGLE,
    ),
    Mutant("watchdog-extends-anybodys", "watchdogs", "lost-update", "extends-others-key", _SINGLE),
    Mutant("quorum-is-three", "quorums", "overlap", ("too-few-votes", "needs-all-nodes")),
    Mutant("quorum-is-two", "quorums", "overlap", "too-few-votes"),
    Mutant("quorum-is-half", "quorums", "overlap", "too-few-votes"),
    Mutant("adds-up-tries", "quorums", "overlap", "too-few-votes"),
    Mutant("undoes-last-try-only", "quorums", "unavailable", "leaves-keys"),
    Mutant("extends-at-reachable", "quorums", "overlap", "extension-not-kept"),
    Mutant("extends-where-granted", "quorums", "overlap", ("too-few-nodes-asked", "extension-not-kept")),
    Mutant("undoes-where-granted", "quorums", "unavailable", "leaves-keys"),
    Mutant("elapsed-per-node", "quorums", "false-validity", "late-deadline", "redlock-sequential"),
    Mutant(
        "stops-at-first-silence",
        "quorums",
        "unavailable",
        ("needs-all-nodes", "too-few-nodes-asked"),
        "redlock-sequential",
    ),
    Mutant("elapsed-in-whole-seconds", "quorums", "false-validity", "late-deadline"),
    Mutant("samples-nodes", "quorums", "overlap", ("too-few-votes", "too-few-nodes-asked")),
    Mutant("token-per-client", "quorums", "overlap", ("same-token", "ends-lease-early")),
    Mutant("gather-raises", "quorums", "error", ("wrong-error", "needs-all-nodes")),
    Mutant("cannot-read-silence", "quorums", "error", "wrong-error"),
    Mutant("release-waits-for-all", "quorums", "hang", "hangs"),
    Mutant("smallest-count", "counters", "fence-order", "fence-not-increasing", _FENCED),
    Mutant("fastest-count", "counters", "fence-order", "fence-not-increasing", _FENCED),
    Mutant("sum-of-counts", "counters", "fence-order", "fence-not-increasing", _FENCED),
    Mutant("fence-before-lock", "counters", "fence-order", "fence-not-increasing", _FENCED),
    Mutant("fence-expires", "counters", "fence-order", "fence-not-increasing", _FENCED),
    Mutant("fence-raised-at-release", "counters", "fence-order", "fence-not-increasing", _FENCED),
    Mutant("release-expires-anybodys", "failures", "overlap", "deletes-others-key", _SINGLE),
    Mutant("pool-runs-dry", "failures", "unavailable", "does-not-recover", _SINGLE),
    Mutant("circuit-stays-open", "failures", "unavailable", "does-not-recover", _SINGLE),
    Mutant("remembers-refusal", "failures", "unavailable", "asks-nobody", _SINGLE),
    Mutant("library-repeats-set", "failures", "unavailable", "leaves-keys", _SINGLE),
    Mutant(
        "one-watchdog-for-all-keys",
        "watchdogs",
        "lost-update",
        ("mixes-keys", "ignores-deadline", "renews-after-release"),
        _SINGLE,
    ),
    Mutant(
        "watchdog-of-cancelled", "watchdogs", "unavailable", ("renews-after-release", "leaves-keys"), _SINGLE
    ),
    Mutant("drops-failed-nodes", "quorums", "overlap", "too-few-votes"),
    Mutant("failed-extension-forgets", "quorums", "unavailable", "leaves-keys"),
    Mutant("nodes-of-the-start", "quorums", "overlap", "too-few-votes"),
)
