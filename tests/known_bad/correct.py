"""How correct locks fare with many seeds: ``python -m tests.known_bad.correct [LOCK …]`` prints a table.

Each lock meets all its situations and some drawn schedules, again with each seed: other latencies, and longer
pauses; and once, in the order of ``lab test``, anchored schedules and single faults at command boundaries. It
takes some two minutes of processor time for a lock.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from random import Random
from typing import Final

from lab.examine.examination import Examination, tried
from lab.examine.profile.learn import learn
from lab.examine.programs import PROGRAMS, Setting
from lab.examine.result import Part
from lab.examine.schedules.anchored import anchored
from lab.examine.schedules.plan import drawn, singles
from lab.examine.schedules.reentrant import is_reentrant, nested, reentrance
from lab.examine.schedules.situations import situations
from lab.locks import capacity_of
from lab.search.command import OPTIONS, options_for
from lab.search.loop import Budget, variant
from lab.search.runner import trials
from lab.search.workers import Workers
from tests.known_bad.test_examined import CORRECT

SEEDS: Final = 20
DRAWN: Final = 160
"""Drawn schedules for each seed."""
IN_ORDER: Final = 1_200
"""So many anchored schedules, and so many with a single fault."""
BUDGET_S: Final = 36_000.0


def main(locks: list[str]) -> None:
    """Print the table."""
    for line in table(locks or CORRECT):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def table(locks: Iterable[str] = CORRECT) -> Iterator[str]:
    """The table, line by line."""
    yield "| lock | situations | schedules | defects | not decided |"
    yield "|---|---|---|---|---|"
    for lock in locks:
        yield row(lock)


def row(lock: str) -> str:
    """What a lock came to with all seeds; defects and what is left open go to stderr."""
    with closing(Workers(tried, None)) as workers, trials():
        options = options_for(lock)
        capacity = capacity_of(lock)
        profile = learn(Setting(lock, options, 5, capacity=capacity))
        kind = profile.kind
        setting = Setting(lock, options, 5 if kind.quorum else 1, fences=kind.fenced, capacity=capacity)
        setting = dataclasses.replace(setting, reentrant=is_reentrant(setting))
        profile.nested = reentrance(setting).setting
        programs = tuple(
            each
            for each in PROGRAMS
            if (profile.extends or not each.extends) and not (setting.reentrant and each.takes_it_again)
        )
        own = list(situations(setting, profile, programs))
        schedules = defects = undecided = 0
        for seed in range(SEEDS + 1):
            one = Examination(kind, {**OPTIONS, **kind.reference_options}, Budget(BUDGET_S), workers=workers)
            if seed < SEEDS:
                varied = [variant(each, seed) if seed else each for each in own]
                one.try_directed(Part("situations", ""), varied)
                plain = [setting.trial(each) for each in programs]
                one.try_all(Part("drawn", ""), islice(drawn(setting, Random(seed), plain), DRAWN))
            else:
                made = (
                    *([nested(profile.nested, profile, Random(0))] if profile.nested else []),
                    anchored(setting, profile, Random(0)),
                    singles(setting, programs, Random(0)),
                )
                for trials_ in made:
                    one.try_all(Part("in the order of lab test", ""), islice(trials_, IN_ORDER))
            schedules += one.progress.schedules
            defects += len(one.defects)
            undecided += sum(each.times for each in one.undecided.values())
            for defect in one.defects:
                sys.stderr.write(f"{lock}, seed {seed}: {defect.cause}: {defect.headline}\n")
            for what, each in one.undecided.items():
                sys.stderr.write(f"{lock}, seed {seed}: not decided: {what}, {each.times} times\n")
    return f"| {lock} | {len(own)} | {schedules:,} | {defects} | {undecided} |"


if __name__ == "__main__":
    main(sys.argv[1:])
