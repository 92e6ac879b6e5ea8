"""What is known about a broken lock: where it is, what is wrong with it, and how that shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

PREFIX: Final = "mutant:"

Cause = Literal[
    "too-few-votes",
    "overwrites-key",
    "no-expiry",
    "wrong-expiry",
    "late-deadline",
    "no-drift-margin",
    "wall-clock",
    "ignores-deadline",
    "deletes-others-key",
    "extends-others-key",
    "recreates-key",
    "extension-not-kept",
    "late-extension-deadline",
    "ends-lease-early",
    "same-token",
    "leaves-keys",
    "waits-too-long",
    "sleeps-on",
    "needs-all-nodes",
    "too-few-nodes-asked",
    "fence-not-increasing",
    "store-accepts-stale",
    "store-reads-stale",
    "hangs",
    "wrong-error",
    "does-not-recover",
    "asks-nobody",
    "renews-after-release",
    "mixes-keys",
    "others-token",
    "returns-released",
]
"""What can be wrong with a lock.

In an acquisition: ``too-few-votes`` (granted by fewer nodes than it takes), ``overwrites-key`` (SET without
NX, or a check and then a command), ``no-expiry``, ``wrong-expiry`` (nodes keep the key for another time than
the lease's), ``late-deadline`` (the lease counts from too late an instant, or the clock is not looked at when
the replies are in), ``no-drift-margin``, ``wall-clock``, ``too-few-nodes-asked``, ``needs-all-nodes``,
``waits-too-long``, ``sleeps-on`` (waits although the lock is free).

While it is held: ``ignores-deadline`` (believed after its end), ``mixes-keys``.

In an extension: ``extends-others-key``, ``recreates-key``, ``extension-not-kept`` (reported as a success
though a majority did not prolong the key), ``late-extension-deadline``, ``ends-lease-early`` (the lock gives
the key away while the lease stands), ``renews-after-release``.

In a release: ``deletes-others-key``, ``same-token``, ``leaves-keys`` (after a release, or after an attempt
that failed, was not answered or was cancelled).

With fences: ``fence-not-increasing``, ``store-accepts-stale``, ``store-reads-stale``.

In any operation: ``hangs``, ``wrong-error`` (an exception of another kind than ``LockError``),
``does-not-recover`` (after a lost connection, a restart, flushed scripts), ``asks-nobody`` (an acquire that
is refused without asking).
"""
CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken lock.

    Args:
        name: what it is called, without ``PREFIX``.
        module: the module of this package with its class, which is called like it: ``QuorumOffByOne`` for
            ``quorum-off-by-one``. The class's docstring says what is broken.
        finding: what the checker must find, and must not find with the real lock. Beside the checker's own
            there are two: ``error`` (an operation ended with an exception that is no ``LockError``) and
            ``hang`` (it never ended).
        cause: what is wrong with it; several where each of them is a fair description.
        real: the lock that it is made of, or compares to.
        scenario: the scenario that shows it, if one does.
        search: kinds of faults within the assumptions of the real lock; with them a bounded search must find
            the same, and nothing with the real lock.
    """

    name: str
    module: str
    finding: str
    cause: Cause | tuple[Cause, ...]
    real: str = "redlock"
    scenario: str | None = field(default=None, kw_only=True)
    search: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def lock(self) -> str:
        """The name of its lock in a scenario."""
        return f"{PREFIX}{self.name}"

    @property
    def place(self) -> str:
        """Its class, as ``package.module:Class``."""
        return f"{__package__}.{self.module}:{self.name.title().replace('-', '')}"

    @property
    def causes(self) -> tuple[Cause, ...]:
        """All fair descriptions of what is wrong."""
        return (self.cause,) if isinstance(self.cause, str) else self.cause
