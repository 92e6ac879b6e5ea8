"""Choosing the entries of a suite, and running them: as many at once as the machine bears, and no more."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.batch.suite.load import Entry, LoadedSuite
from lab.batch.suite.results import EntryResult, SuiteResult
from lab.batch.verdicts import OneRun, run_one
from lab.errors import LabError
from lab.scenario.problems import nearest, shown
from lab.substrates import is_simulated

if TYPE_CHECKING:
    from lab.report.files import Picture

_SHARD: Final = re.compile(r"([0-9]{1,5})/([0-9]{1,5})")


def shard(entries: Sequence[Entry], text: str) -> tuple[Entry, ...]:
    """Every n-th entry: ``2/5`` is the second of five parts that together are all of them.

    Raises:
        LabError: there is no such part.
    """
    match = _SHARD.fullmatch(text.strip())
    part, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= part <= parts:
        raise LabError(f"the shard {shown(text)}", where="--shard", expected="PART/PARTS, like 2/5")
    return tuple(entries[part - 1 :: parts])


def only(entries: Sequence[Entry], patterns: Sequence[str]) -> tuple[Entry, ...]:
    """The entries whose id, scenario or lock is, or matches, one of these patterns (``*`` and ``?``).

    Raises:
        LabError: a pattern matches nothing.
    """
    for pattern in patterns:
        if not any(_matches(entry, pattern) for entry in entries):
            known = [
                word for entry in entries for word in (entry.id, *entry.id.split("/"), entry.label) if word
            ]
            raise LabError(
                f"nothing in this suite is called {shown(pattern)}",
                where="--only",
                expected="a scenario, lock, label, substrate or id: healthy/redlock/sim; * and ? are wild",
                hint=nearest(pattern, known),
            )
    if not patterns:
        return tuple(entries)
    return tuple(entry for entry in entries if any(_matches(entry, pattern) for pattern in patterns))


def _matches(entry: Entry, pattern: str) -> bool:
    words = (entry.id, entry.name, entry.lock, entry.row, entry.label, entry.on)
    return any(fnmatch.fnmatchcase(word, pattern) for word in words)


def since_failure(entries: Sequence[Entry], last: dict[str, int]) -> tuple[Entry, ...]:
    """The entries that did not come out as expected last time, or were never run; all, if there are none."""
    return tuple(entry for entry in entries if last.get(entry.id, -1) != 0) or tuple(entries)


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


async def run_suite(
    suite: LoadedSuite,
    entries: Sequence[Entry],
    out: Path,
    *,
    jobs: int,
    ended: list[tuple[Entry, OneRun]],
    on_start: Callable[[Entry], None] = lambda entry: None,
    on_end: Callable[[Entry, OneRun], None] = lambda entry, run: None,
    picture: Picture = "unexpected",
) -> None:
    """Run all entries; each run that ends is added to ``ended``, whatever becomes of the others.

    Simulated runs come first, one on each core: no wall clock decides anything in them. Real ones follow,
    ``jobs`` at once and nothing beside them, since a story that is starved of time shows nothing. Round by
    round, so that what disturbs the machine for a while does not hit one entry only. Nothing is tried twice.
    When this is cancelled, the runs are interrupted and tear down first.
    """
    rounds = max((entry.repeat for entry in entries), default=0)
    wanted = [entry for at in range(rounds) for entry in entries if at < entry.repeat]
    for simulated, at_once in ((True, cores()), (False, jobs)):
        free = asyncio.Semaphore(at_once)
        async with asyncio.TaskGroup() as group:
            for entry in wanted:
                if is_simulated(entry.on) == simulated:
                    group.create_task(_one(entry, out, free, ended, on_start, on_end, picture))


async def _one(
    entry: Entry,
    out: Path,
    free: asyncio.Semaphore,
    ended: list[tuple[Entry, OneRun]],
    on_start: Callable[[Entry], None],
    on_end: Callable[[Entry, OneRun], None],
    picture: Picture,
) -> None:
    async with free:
        on_start(entry)
        seed = secrets.randbelow(2**31)
        run = await run_one(entry.scenario, seed, out, entry.on, entry.settings, picture=picture)
    ended.append((entry, run))
    on_end(entry, run)


def result_of(
    suite: LoadedSuite, entries: Sequence[Entry], ended: Sequence[tuple[Entry, OneRun]], began_s: float
) -> SuiteResult:
    """What a suite came to that began at this time of the monotonic clock, in seconds."""
    found = [
        EntryResult.of(entry, (run for other, run in ended if other.id == entry.id)) for entry in entries
    ]
    return SuiteResult(suite.name, suite.title, tuple(found), round(time.monotonic() - began_s, 1))


def complete(ended: Sequence[tuple[Entry, OneRun]], entry: Entry) -> tuple[EntryResult, ...]:
    """The result of this entry, if all of its runs have ended."""
    result = EntryResult.of(entry, (run for other, run in ended if other.id == entry.id))
    return (result,) if len(result.runs) == result.wanted else ()


def repeated(entries: Sequence[Entry], times: int) -> tuple[Entry, ...]:
    """The entries, each run so many times as often."""
    return tuple(replace(entry, repeat=entry.repeat * times) for entry in entries)
