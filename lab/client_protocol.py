"""The protocol between the lab and a client process: JSON lines over the client's stdin and stdout.

The lab sends ``Setup`` first and ``Command`` after that; the client answers every message with one
``Answer``. Operations are not recorded from this: they stand in the client's own event log.

``Point`` are the pause points of a client's work: where a scenario can make it wait.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Final, Literal, get_args

import msgspec

from lab.addresses import Address
from lab.errors import LockFailed

Point = Literal[
    "between-setnx-and-expire",
    "before-announce",
    "acquired",
    "read",
    "before-write",
    "written",
    "before-release",
]
"""Where ``work`` and ``continue`` can stop, in the order in which a client reaches them; the first only with
the lock ``setnx-expire``, the second only with a lock that announces its token."""

POINTS: Final[tuple[Point, ...]] = get_args(Point)
POINTS_BEFORE_GRANT: Final[tuple[Point, ...]] = ("between-setnx-and-expire", "before-announce")
"""Points at which the client does not hold the lock yet."""

Verb = Literal[
    "acquire",
    "extend",
    "read",
    "check",
    "write",
    "release",
    "close",
    "open",
    "work",
    "continue",
    "loop",
    "cancel",
    "stop",
    "clock",
]
"""``loop`` goes on beside other commands until its time is over or ``stop`` comes, which has no answer.
``cancel`` cancels the command whose id it has, and has no answer either: that command is answered.
``clock`` is answered at once, with the process's wall clock in nanoseconds, even during another command."""


Mode = Literal["read", "write"]
"""How a client asks for a read-write lock: any number of readers share it, or one writer has it alone."""


class Setup(msgspec.Struct, frozen=True):
    """The configuration of a client process; its first line of input."""

    client: str
    key: str
    lock: str
    ttl_ns: int
    options: dict[str, str | int | float | bool]
    nodes: list[Address]
    store: Address
    checks_fences: bool
    check_before_write: bool
    log_path: str
    seed: int
    store_timeout_s: float = 30.0
    fences_reads: bool = False
    beat_ns: int = 10_000_000
    """How long the process may stand still before it looks at the clock again, to see that it did."""
    sentinels: list[Address] = []
    """Where the Sentinels are that know the master, if there are some."""
    warm_up: str | None = None
    """The key that the client acquires and releases once before it is ready, unrecorded."""


class Loop(msgspec.Struct, frozen=True):
    """Rounds of ``work``, each on a key drawn from ``keys``, for ``duration_ns``.

    Times are means of exponential distributions, cut off at ``lab.client.loop.MOST`` times the mean.
    """

    duration_ns: int
    think_ns: int
    hold_ns: int
    keys: list[str]
    operations: int | None = None


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """One command.

    Attributes:
        until: the point at which ``work`` and ``continue`` stop and wait.
        task: which of the client's tasks carries it out, from 1 on; all of them share one lock object.
        key: the lock's key, if it is not that of the ``Setup``. Each task has one lease per key.
        ttl_ns: the lease that ``acquire`` or ``extend`` asks for, if it is not that of the ``Setup``.
        mode: "read" if ``acquire`` is to take a read-write lock as a reader, and not as a writer.
        again: ``release`` releases the lease that this task released last, once more.
        if_checked: ``write`` is left out if the last ``check`` or ``read`` under this lease did not succeed.
    """

    id: int
    verb: Verb
    until: Point | None = None
    loop: Loop | None = None
    task: int = 1
    key: str | None = None
    ttl_ns: int | None = None
    mode: Mode | None = None
    again: bool = False
    if_checked: bool = False


class Outcome(StrEnum):
    """How a command ended: Jepsen's three; skipped (no lease is held); held (waiting at a pause point).

    Or broken: the lock raised what no lock may raise, and the run ends. ``text`` says what, and where.
    """

    OK = "ok"
    FAIL = "fail"
    INFO = "info"
    SKIPPED = "skipped"
    HELD = "held"
    BROKEN = "broken"


LOADED_ID: Final = -(2**53 - 1)
"""The id of what a client's process answers unasked, as soon as it has imported what it needs."""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a command.

    Attributes:
        text: the end in words; after ``HELD`` the pause point.
        believed_ns: for how long after this answer the client believes in the lease, if it was told so.
    """

    id: int
    outcome: Outcome
    text: str = ""
    believed_ns: int | None = None


def settle(waits: asyncio.Future[Answer], answer: Answer) -> None:
    """Give an answer to whoever waits for it; one of a broken lock is the error ``LockFailed``."""
    if answer.outcome is Outcome.BROKEN:
        waits.set_exception(LockFailed(answer.text))
    else:
        waits.set_result(answer)
