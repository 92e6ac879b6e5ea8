"""Write docs/examined.md: what ``lab test`` finds in the lab's own broken locks, and the spaces it exhausts.

``python -m tests.known_bad.table > docs/examined.md`` takes about forty minutes of processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from statistics import median

from lab.examine.examination import Examination, tried
from lab.examine.kinds import Kind
from lab.examine.programs import PROGRAMS, Program, Setting
from lab.examine.schedules.boundaries import boundaries
from lab.examine.schedules.plan import Doubles
from lab.locks.broken import MUTANTS, Mutant
from lab.search.command import OPTIONS
from lab.search.loop import Budget
from lab.search.runner import trials
from lab.search.trial import Trial
from lab.search.workers import Workers
from tests.known_bad.correct import DRAWN, SEEDS, table
from tests.known_bad.examined import examined

SCHEDULES_MAX = 12_000
SPACES = (
    ("single", 1, False, ("contend", "at once", "late", "whole lease")),
    ("redlock", 3, False, ("contend",)),
    ("redlock-fenced", 3, True, ("contend",)),
    ("redlock", 5, False, ("contend",)),
)


def main() -> None:
    """Print the page."""
    for line in (*_head(), *_mutants(), "", *_spaces(), "", *_correct()):
        sys.stdout.write(f"{line}\n")


def _head() -> Iterator[str]:
    yield "# What `lab test` finds by itself"
    yield ""
    yield (
        "Written by `python -m tests.known_bad.table`. Each broken lock of `lab.locks.broken` is examined "
        "with no scenario and no hint, in one process, until its first defect; it counts as not found "
        f"after {SCHEDULES_MAX:,} schedules. Seconds are processor time. *As declared* says whether the "
        "cause that is named is the one that the list of broken locks states. A test repeats this: "
        "`tests/known_bad/test_examined.py`."
    )
    yield ""


def _mutants() -> Iterator[str]:
    rows: list[str] = []
    seconds: list[float] = []
    named = 0
    for mutant in MUTANTS.values():
        row, took, right = _mutant(mutant)
        rows.append(row)
        sys.stderr.write(f"{row}\n")
        if took is not None:
            seconds.append(took)
        named += right
    yield (
        f"**{len(seconds)} of {len(MUTANTS)} found, {named} with the declared cause; median "
        f"{median(seconds):.1f} s, longest {max(seconds):.1f} s.**"
    )
    yield ""
    yield "| broken lock | cause named | as declared | leads to | faults | reproduced | schedules | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    yield from rows


def _mutant(mutant: Mutant) -> tuple[str, float | None, bool]:
    began_s = time.process_time()
    found = examined(mutant.lock, SCHEDULES_MAX, first=True)
    took_s = time.process_time() - began_s
    if not found.defects:
        row = f"| {mutant.name} | **not found** | | | | | {found.schedules:,} | {took_s:.1f} |"
        return row, None, False
    (defect, *_) = found.defects
    right = defect.cause in mutant.causes
    cells = (
        mutant.name,
        defect.cause,
        "yes" if right else "no",
        defect.findings[0],
        len(defect.faults),
        f"{defect.reproduced} of {defect.variants}",
        f"{found.schedules:,}",
        f"{took_s:.1f}",
    )
    return f"| {' | '.join(map(str, cells))} |", took_s, right


def _spaces() -> Iterator[str]:
    yield "## Exhausted spaces"
    yield ""
    yield (
        "All schedules of a program of two clients with at most two faults at the command boundaries of the "
        "lock. A boundary is a moment in which a client sends to nodes, to the last one of a run. The "
        "faults at each: the replies of this exchange are lost, or its requests are held past the end of a "
        "lease, on any set of the nodes that are asked; or the client stops before it sends, for longer "
        "than a lease. The boundaries for the second fault are those of the run in which the first one "
        "struck. Sets of nodes that differ only by the names of equal nodes count once: nodes are equal if "
        "both were hit by the first fault, or neither. What is cut: what the clients do is given, each "
        "schedule has one seed, which draws the latencies, a fault has one length, and one at the boundary "
        "at which a client stops strikes when it stops, not when it goes on; nodes that crash, connections "
        "that break and clocks are no part of these spaces. *Not decided* counts violations that less than "
        "5 of 20 variants show, or that the reference has as well; *limits* are what any lock of the kind "
        "loses when a client stops, or when packets are held for longer than a lease."
    )
    yield ""
    yield "| lock | nodes | program | boundaries at first | schedules | defects | not decided | limits |"
    yield "|---|---|---|---|---|---|---|---|"
    for lock, nodes, fenced, names in SPACES:
        for program in PROGRAMS:
            if program.name in names:
                yield _space(Setting(lock, OPTIONS, nodes, fences=fenced), program)


def _correct() -> Iterator[str]:
    yield "## Correct locks"
    yield ""
    yield (
        f"Each meets all its situations with {SEEDS} seeds (other latencies, longer pauses), and {DRAWN} "
        "drawn schedules with each seed (`python -m tests.known_bad.correct`). *Not decided* counts "
        "violations that the reference has as well, or that too few variants show."
    )
    yield ""
    yield from table()


def _space(setting: Setting, program: Program) -> str:
    base = setting.trial(program)
    twos = Doubles(base, program)
    kind = Kind(setting.nodes > 1, setting.fences)
    with closing(Workers(tried, None)) as workers, trials():
        examination = Examination(kind, dict(OPTIONS), Budget(36_000), workers=workers)
        at = len(boundaries(base, None))
        examination.try_all(twos.part, _all_of(twos))
    assert twos.part.exhausted
    limits = ", ".join(sorted({limit.finding for limit in examination.limits.values()})) or "none"
    cells = (
        setting.lock,
        setting.nodes,
        program.name,
        at,
        f"{twos.part.tried:,}",
        len(examination.defects),
        sum(each.times for each in examination.undecided.values()),
        limits,
    )
    row = f"| {' | '.join(map(str, cells))} |"
    sys.stderr.write(f"{row}\n")
    return row


def _all_of(twos: Doubles) -> Iterator[Trial]:
    while twos.has_next():
        yield twos.next()


if __name__ == "__main__":
    main()
