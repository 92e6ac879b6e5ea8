"""What ``lab test`` says of ordinary locks: ``python -m tests.known_bad.ordinary [LOCK …]`` prints a table.

Each is examined by its name alone, as ``lab test LOCK --budget 30s`` does it.
"""

from __future__ import annotations

import sys
import time
from typing import Final, NamedTuple

from lab.drivers.shapes import shape_of
from lab.examine.command import Asked, examine
from lab.examine.result import Examined

BUDGET: Final = "30s"
PLACE: Final = "tests.locks_to_test.ordinary."


class Expected(NamedTuple):
    """An ordinary lock: what is wrong with it, and the causes of which one has to be found.

    Without causes it does what its algorithm promises, and what is found are ``USUAL`` ones, or nothing.
    """

    lock: str
    wrong: str
    causes: frozenset[str] = frozenset()


USUAL: Final = frozenset(("leaves-keys",))
"""What is found of locks that are right otherwise: their client repeats a command whose reply was lost, and
is refused by its own key."""
LOCKS: Final = (
    Expected("classes:BareDelete", "deletes whatever key is there", frozenset(("deletes-others-key",))),
    Expected(
        "classes:CompareThenDelete",
        "compares in one command, deletes in another",
        frozenset(("deletes-others-key",)),
    ),
    Expected("classes:InScripts", ""),
    Expected("classes:Polling", ""),
    Expected("classes:InTwoCommands", "SETNX, then EXPIRE", frozenset(("no-expiry",))),
    Expected(
        "classes:RenewsWhatIsThere", "extends whatever key is there", frozenset(("extends-others-key",))
    ),
    Expected("functions:acquire_lock", ""),
    Expected("flags:try_lock", "deletes whatever key is there", frozenset(("deletes-others-key",))),
    Expected("managers:lock", ""),
    Expected("managers:careless", "deletes the key when it was refused", frozenset(("deletes-others-key",))),
    Expected("managers:unguarded", "is not released when its body fails", frozenset(("leaves-keys",))),
    Expected("managers:Exclusive", ""),
    Expected("managers:Locks", ""),
    Expected("program:locks", ""),
    Expected("program:lock_invoice", "deletes whatever key is there", frozenset(("deletes-others-key",))),
    Expected("library:order_lock", ""),
    Expected("library:JobLock", ""),
    Expected("decorators:exclusive", ""),
    Expected(
        "decorators:run_once",
        "compares in one command, deletes in another",
        frozenset(("deletes-others-key",)),
    ),
    Expected(
        "module_client:CronLock",
        "all processes of a host have one token",
        frozenset(("same-token", "others-token")),
    ),
    Expected("threads:Renewed", "tells nobody that it could not renew", frozenset(("ignores-deadline",))),
    Expected(
        "threads:Reentrant", "counts down, and deletes, what another has", frozenset(("deletes-others-key",))
    ),
    Expected(
        "many_nodes:OnMost", "waits for silent nodes, one after the other", frozenset(("waits-too-long",))
    ),
    Expected("many_nodes:OnHalf", "two of five are enough", frozenset(("too-few-votes",))),
    Expected("timestamps:SetnxGetset", "goes by the client's clock", frozenset(("wall-clock",))),
    Expected("with_asyncio:InScripts", ""),
    Expected("with_asyncio:bare_delete", "deletes whatever key is there", frozenset(("deletes-others-key",))),
    Expected("with_asyncio:WrongUnit", "sets milliseconds for seconds", frozenset(("wrong-expiry",))),
    Expected("with_asyncio:Manager", ""),
    Expected(
        "with_asyncio:take", "compares in one command, deletes in another", frozenset(("deletes-others-key",))
    ),
    Expected(
        "with_asyncio:run_locked", "keeps the lock of a job that is cancelled", frozenset(("leaves-keys",))
    ),
    Expected("with_asyncio:exclusive", ""),
    Expected(
        "with_asyncio:OnMost",
        "waits for silent nodes; a try without a majority leaves its keys (found within 110 s)",
        frozenset(("waits-too-long", "leaves-keys")),
    ),
    Expected(
        "with_asyncio:KeepsAlive", "its task goes on after the release", frozenset(("extends-others-key",))
    ),
    Expected("with_valkey:ValkeyLock", ""),
    Expected("one_object:Locks", ""),
    Expected(
        "one_object:NotesTooEarly",
        "a task that is refused replaces the token of the one that holds the lock",
        frozenset(("leaves-keys",)),
    ),
)


def examined(lock: str, budget: str = BUDGET) -> Examined:
    """What comes of examining the lock."""
    return examine(Asked(f"{PLACE}{lock}", budget=budget, repeat=0, jobs=2))


def main(locks: list[str]) -> None:
    """Print the table."""
    sys.stdout.write(
        "| lock | shape | runs as | schedules | seconds | defects |\n|---|---|---|---|---|---|\n"
    )
    for lock in locks:
        began_s = time.monotonic()
        shape = shape_of(f"{PLACE}{lock}")
        assert shape is not None
        result = examined(lock)
        took_s = time.monotonic() - began_s
        runs_as = "asyncio" if shape.is_async else "process"
        found = "; ".join(f"{each.cause} ({each.findings[0]})" for each in result.defects) or "none"
        cells = (lock, shape.style, runs_as, f"{result.schedules:,}", f"{took_s:.0f}", found)
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:] or [each.lock for each in LOCKS])
