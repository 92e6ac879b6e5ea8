"""Broken locks, each a few lines away from a real one: what the lab must catch to be worth anything.

``--lock mutant:NAME`` runs one. They are no locks to choose from, and nothing lists them beside real ones.
Each has a story (see ``stories``, or a scenario of the lab) in which the real lock is clean, and the finding
that the story must lead to; ``lab suite --selftest`` holds them to it. A mutant that changes the store
instead of the lock says so by its class's ``store_client``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lab.errors import LabError, did_you_mean

PREFIX: Final = "mutant:"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken lock.

    Args:
        name: what it is called, without ``PREFIX``.
        place: its class, as ``module:Class`` in this room; the class's docstring says what is broken.
        story: the scenario that shows it.
        finding: what the checker must find there, and must not find with the real lock.
        real: the lock that it is made of.
        search: kinds of faults within the assumptions of the real lock; with them a bounded search must find
            the same, and nothing with the real lock.
    """

    name: str
    place: str
    story: str
    finding: str
    real: str = "redlock"
    search: tuple[str, ...] = ()

    @property
    def lock(self) -> str:
        """The name of its lock in a scenario."""
        return f"{PREFIX}{self.name}"


_FENCED, _CAS = "redlock-fenced", "redlock-cas"
_MUTANTS: Final = (
    Mutant("quorum-off-by-one", "grants:QuorumOffByOne", "two-minorities", "overlap"),
    Mutant("quorum-of-reachable", "grants:QuorumOfReachable", "two-minorities", "overlap", search=("cut",)),
    Mutant("counts-silence", "grants:CountsSilence", "two-minorities", "overlap"),
    Mutant("counts-refusals", "grants:CountsRefusals", "second-comer", "overlap"),
    Mutant("set-without-nx", "grants:SetWithoutNx", "second-comer", "overlap"),
    Mutant("set-without-expiry", "grants:SetWithoutExpiry", "owner-dies", "leak"),
    Mutant("seconds-for-milliseconds", "grants:SecondsForMilliseconds", "owner-dies", "leak"),
    Mutant("short-keys", "grants:ShortKeys", "after-the-keys", "overlap"),
    Mutant("no-elapsed-check", "grants:NoElapsedCheck", "old-replies", "false-validity"),
    Mutant("counts-from-replies", "grants:CountsFromReplies", "slow-replies", "false-validity"),
    Mutant("wall-clock", "grants:WallClock", "old-replies", "false-validity"),
    Mutant("no-drift-margin", "grants:NoDriftMargin", "fast-node", "overlap"),
    Mutant(
        "timeout-of-ttl", "grants:TimeoutOfTtl", "one-node-silent", "unavailable", real="redlock-sequential"
    ),
    Mutant("waits-for-all", "grants:WaitsForAll", "one-node-silent", "unavailable"),
    Mutant("needs-all-nodes", "grants:NeedsAllNodes", "one-node-silent", "unavailable"),
    Mutant(
        "stops-at-majority",
        "grants:StopsAtMajority",
        "clock-jump-node-control",
        "overlap",
        real="redlock-sequential",
    ),
    Mutant("believes-for-ever", "grants:BelievesForEver", "over-and-asked", "lost-update"),
    Mutant("believes-by-wall-clock", "grants:BelievesByWallClock", "over-and-asked", "lost-update"),
    Mutant("bare-del", "releases:BareDel", "late-release-of-five", "overlap"),
    Mutant("undo-by-bare-del", "releases:UndoByBareDel", "second-comer", "overlap", search=("delay",)),
    Mutant("no-release", "releases:NoRelease", "released-and-one-away", "unavailable"),
    Mutant("release-at-majority", "releases:ReleaseAtMajority", "released-and-one-away", "unavailable"),
    Mutant("retry-without-unlock", "releases:NoUndo", "half-taken", "unavailable"),
    Mutant("late-set-not-undone", "releases:LateSetNotUndone", "late-set", "unavailable"),
    Mutant("unlock-where-acquired", "releases:UnlocksWhereAcquired", "late-set-of-a-grant", "unavailable"),
    Mutant("release-before-write", "releases:ReleasesBeforeWrite", "guarded-write", "overlap"),
    Mutant("token-reused", "releases:TokenReused", "late-release-of-five", "overlap"),
    Mutant("token-from-time", "releases:TokenFromTime", "second-comer", "overlap"),
    Mutant("token-from-seed", "releases:TokenFromSeed", "second-comer", "overlap"),
    Mutant("extends-anybodys", "extensions:ExtendsAnybodys", "extension-of-anothers", "overlap"),
    Mutant("extend-reacquires", "extensions:ExtendReacquires", "late-extension", "continuity-loss"),
    Mutant("extends-locally", "extensions:ExtendsLocally", "extended-then-over", "overlap"),
    Mutant("extends-in-seconds", "extensions:ExtendsInSeconds", "extended-then-over", "overlap"),
    Mutant("extend-on-minority", "extensions:ExtendOnMinority", "extended-on-two", "overlap"),
    Mutant("failed-extension-believed", "extensions:FailedExtensionBelieved", "extended-on-two", "overlap"),
    Mutant("failed-extension-releases", "extensions:FailedExtensionReleases", "silent-extension", "overlap"),
    Mutant("extension-adds-up", "extensions:ExtensionAddsUp", "extended-at-once", "false-validity"),
    Mutant("extension-from-replies", "extensions:ExtensionFromReplies", "slow-extension", "false-validity"),
    Mutant("fence-constant", "fences:FenceConstant", "fences-of-others", "fence-order", _FENCED),
    Mutant("fence-per-client", "fences:FencePerClient", "fences-of-others", "fence-order", _FENCED),
    Mutant("fence-from-time", "fences:FenceFromTime", "fences-and-a-clock", "fence-order", _FENCED),
    Mutant(
        "fence-not-written-back", "fences:FenceNotWrittenBack", "fences-of-others", "fence-order", _FENCED
    ),
    Mutant(
        "fence-written-to-one",
        "fences:FenceWrittenToOne",
        "fences-of-others",
        "fence-order",
        _FENCED,
        search=("cut",),
    ),
    Mutant("store-ignores-fence", "fences:StoreIgnoresFence", "stale-fence", "fence-breach", _FENCED),
    Mutant("store-fence-off-by-one", "fences:StoreFenceOffByOne", "stale-fence", "fence-breach", _FENCED),
    Mutant(
        "store-compares-text", "fences:StoreComparesText", "fences-of-two-digits", "fence-breach", _FENCED
    ),
    Mutant("store-forgets-fence", "fences:StoreForgetsFence", "stale-fence", "fence-breach", _FENCED),
    Mutant("store-ignores-token", "fences:StoreIgnoresToken", "redlock-cas", "lost-update", _CAS),
    Mutant("store-reads-stale", "fences:StoreReadsStale", "healthy", "lost-update"),
)
MUTANTS: Final[dict[str, Mutant]] = {mutant.name: mutant for mutant in _MUTANTS}
"""All of them, by name."""


def place(lock: str) -> str:
    """Where the class of ``mutant:NAME`` is, as ``package.module:Class``.

    Raises:
        LabError: there is no such mutant.
    """
    name = lock.removeprefix(PREFIX)
    if name not in MUTANTS:
        near = did_you_mean(name, MUTANTS)
        raise LabError(
            f"the broken lock {name!r}",
            where="lock.name",
            expected=f"one of {', '.join(MUTANTS)}",
            hint=f"did you mean {PREFIX + near!r}?" if near else "lab suite --selftest lists them",
        )
    return f"lab.locks.broken.{MUTANTS[name].place}"
