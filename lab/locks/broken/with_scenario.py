"""The broken locks that a scenario shows: what must catch each of them, and why."""

from __future__ import annotations

from typing import Final

from lab.locks.broken.mutant import Mutant

_FENCED, _CAS = "redlock-fenced", "redlock-cas"
WITH_SCENARIO: Final = (
    Mutant("quorum-off-by-one", "grants", "overlap", "too-few-votes", scenario="two-minorities"),
    Mutant(
        "quorum-of-reachable",
        "grants",
        "overlap",
        ("too-few-votes", "extension-not-kept"),  # it counts the votes of an extension in the same way
        scenario="two-minorities",
        search=("cut",),
    ),
    Mutant("counts-silence", "grants", "overlap", "too-few-votes", scenario="two-minorities"),
    Mutant("counts-refusals", "grants", "overlap", "too-few-votes", scenario="second-comer"),
    Mutant("set-without-nx", "grants", "overlap", "overwrites-key", scenario="second-comer"),
    Mutant("set-without-expiry", "grants", "leak", "no-expiry", scenario="owner-dies"),
    Mutant("seconds-for-milliseconds", "grants", "leak", "wrong-expiry", scenario="owner-dies"),
    Mutant("short-keys", "grants", "overlap", "wrong-expiry", scenario="after-the-keys"),
    Mutant("no-elapsed-check", "grants", "false-validity", "late-deadline", scenario="old-replies"),
    Mutant("counts-from-replies", "grants", "false-validity", "late-deadline", scenario="slow-replies"),
    Mutant("wall-clock", "grants", "false-validity", "wall-clock", scenario="old-replies"),
    Mutant("no-drift-margin", "grants", "overlap", "no-drift-margin", scenario="fast-node"),
    Mutant(
        "timeout-of-ttl",
        "grants",
        "unavailable",
        "waits-too-long",
        "redlock-sequential",
        scenario="one-node-silent",
    ),
    Mutant(
        "waits-for-all",
        "grants",
        "unavailable",
        ("waits-too-long", "needs-all-nodes"),
        scenario="one-node-silent",
    ),
    Mutant("needs-all-nodes", "grants", "unavailable", "needs-all-nodes", scenario="one-node-silent"),
    Mutant(
        "stops-at-majority",
        "grants",
        "overlap",
        "too-few-nodes-asked",
        "redlock-sequential",
        scenario="clock-jump-node-control",
    ),
    Mutant("believes-for-ever", "grants", "lost-update", "ignores-deadline", scenario="over-and-asked"),
    Mutant(
        "believes-by-wall-clock",
        "grants",
        "lost-update",
        ("wall-clock", "ignores-deadline"),
        scenario="over-and-asked",
    ),
    Mutant("bare-del", "releases", "overlap", "deletes-others-key", scenario="late-release-of-five"),
    Mutant(
        "undo-by-bare-del",
        "releases",
        "overlap",
        "deletes-others-key",
        scenario="second-comer",
        search=("delay",),
    ),
    Mutant("no-release", "releases", "unavailable", "leaves-keys", scenario="released-and-one-away"),
    Mutant("release-at-majority", "releases", "unavailable", "leaves-keys", scenario="released-and-one-away"),
    Mutant("retry-without-unlock", "releases", "unavailable", "leaves-keys", scenario="half-taken"),
    Mutant(
        "cancelled-set-stays", "singles", "unavailable", "leaves-keys", "single", scenario="cancelled-acquire"
    ),
    Mutant("late-set-not-undone", "releases", "unavailable", "leaves-keys", scenario="late-set"),
    Mutant("unlock-where-acquired", "releases", "unavailable", "leaves-keys", scenario="late-set-of-a-grant"),
    Mutant("release-before-write", "releases", "overlap", "ends-lease-early", scenario="guarded-write"),
    Mutant("token-reused", "releases", "overlap", "same-token", scenario="late-release-of-five"),
    Mutant("token-from-time", "releases", "overlap", "same-token", scenario="second-comer"),
    Mutant("token-from-seed", "releases", "overlap", "same-token", scenario="second-comer"),
    Mutant(
        "extends-anybodys", "extensions", "overlap", "extends-others-key", scenario="extension-of-anothers"
    ),
    Mutant("extend-reacquires", "extensions", "continuity-loss", "recreates-key", scenario="late-extension"),
    Mutant("extends-locally", "extensions", "overlap", "extension-not-kept", scenario="extended-then-over"),
    Mutant(
        "extends-in-seconds",
        "extensions",
        "overlap",
        ("extension-not-kept", "wrong-expiry", "ends-lease-early"),
        scenario="extended-then-over",
    ),
    Mutant("extend-on-minority", "extensions", "overlap", "extension-not-kept", scenario="extended-on-two"),
    Mutant(
        "failed-extension-believed", "extensions", "overlap", "extension-not-kept", scenario="extended-on-two"
    ),
    Mutant(
        "failed-extension-releases", "extensions", "overlap", "ends-lease-early", scenario="silent-extension"
    ),
    Mutant(
        "extension-adds-up",
        "extensions",
        "false-validity",
        "late-extension-deadline",
        scenario="extended-at-once",
    ),
    Mutant(
        "extension-from-replies",
        "extensions",
        "false-validity",
        "late-extension-deadline",
        scenario="slow-extension",
    ),
    Mutant(
        "fence-constant",
        "fences",
        "fence-order",
        "fence-not-increasing",
        _FENCED,
        scenario="fences-of-others",
    ),
    Mutant(
        "fence-per-client",
        "fences",
        "fence-order",
        "fence-not-increasing",
        _FENCED,
        scenario="fences-of-others",
    ),
    Mutant(
        "fence-from-time",
        "fences",
        "fence-order",
        ("fence-not-increasing", "wall-clock"),
        _FENCED,
        scenario="fences-and-a-clock",
    ),
    Mutant(
        "fence-not-written-back",
        "fences",
        "fence-order",
        "fence-not-increasing",
        _FENCED,
        scenario="fences-of-others",
    ),
    Mutant(
        "fence-written-to-one",
        "fences",
        "fence-order",
        "fence-not-increasing",
        _FENCED,
        scenario="fences-of-others",
        search=("cut",),
    ),
    Mutant(
        "store-ignores-fence",
        "fences",
        "fence-breach",
        "store-accepts-stale",
        _FENCED,
        scenario="stale-fence",
    ),
    Mutant(
        "store-fence-off-by-one",
        "fences",
        "fence-breach",
        "store-accepts-stale",
        _FENCED,
        scenario="stale-fence",
    ),
    Mutant(
        "store-compares-text",
        "fences",
        "fence-breach",
        "store-accepts-stale",
        _FENCED,
        scenario="fences-of-two-digits",
    ),
    Mutant(
        "store-forgets-fence",
        "fences",
        "fence-breach",
        "store-accepts-stale",
        _FENCED,
        scenario="stale-fence",
    ),
    Mutant(
        "store-ignores-token", "fences", "lost-update", "store-accepts-stale", _CAS, scenario="redlock-cas"
    ),
    Mutant("store-reads-stale", "fences", "lost-update", "store-reads-stale", scenario="healthy"),
)
