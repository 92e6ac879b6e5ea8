"""A situation for tokens that are drawn from few values, so that two clients have the same one now and then.

Whether they are few is seen from runs with other seeds: a token of Alice's that is also one of Bob's. Then a
run is looked for in which both have the same at once, and Alice releases when the lock is Bob's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine.programs import ALICE, BOB, PROGRAMS, Setting
from lab.search.runner import run_trial
from lab.search.trial import Trial

LOOKED: Final = 120
"""After so many runs tokens count as different: 64 random bits are the same twice in one of 10^15 cases."""
SEEDS_MAX: Final = 2_000
LATE: Final = next(program for program in PROGRAMS if program.name == "late")


def few_tokens(setting: Setting) -> Iterator[Trial]:
    """The run in which two clients have the same token, if there is one."""
    trial = setting.trial(LATE)
    alices: set[str] = set()
    bobs: set[str] = set()
    for seed in range(SEEDS_MAX):
        if seed == LOOKED and alices.isdisjoint(bobs):
            return
        tried = replace(trial, seed=seed)
        hers, his = _first_tokens(tried)
        if hers is None or his is None:
            continue
        if hers == his:
            yield tried
            return
        alices.add(hers)
        bobs.add(his)


def _first_tokens(trial: Trial) -> tuple[str | None, str | None]:
    """The tokens of Alice's first grant and of Bob's; None: there is none."""
    found: dict[str, str | None] = {}
    try:
        events = run_trial(trial).events
    except UnknownOutcome:
        return None, None
    for event in events:
        if event["f"] == "acquire" and event["type"] == "ok":
            found.setdefault(event["client"], event.get("token"))
    return found.get(ALICE), found.get(BOB)
