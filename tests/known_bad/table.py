"""Write docs/examined.md: what ``lab test`` finds in the lab's own broken locks, and the spaces it exhausts.

``python -m tests.known_bad.table > docs/examined.md`` takes about ten minutes of processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from random import Random
from statistics import median

from lab.examine.boundaries import boundaries
from lab.examine.examination import Examination
from lab.examine.kinds import Kind
from lab.examine.plan import SINGLES, Doubles, parts
from lab.examine.programs import PROGRAMS, Setting
from lab.examine.result import Part
from lab.locks.broken import MUTANTS, Mutant
from lab.search.command import OPTIONS
from lab.search.runner import trials
from lab.search.trial import Trial
from tests.known_bad.examined import examined

SCHEDULES_MAX = 12_000
SPACES = (("redlock", 5, False), ("single", 1, False), ("redlock-fenced", 5, True))


def main() -> None:
    """Print the page."""
    for line in (*_head(), *_mutants(), "", *_spaces()):
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
        "Every schedule with one fault at a command boundary of the lock, and for one program with two: "
        "requests or replies that are lost or held, a client that stops or dies before it sends, a broken "
        "connection, a node that crashes. The boundaries are those of a run without faults. Sets of nodes"
        " that differ only by the names of equal nodes count once. *Limits* are what any lock of the kind"
        " loses when a client stands still or dies, or the network holds packets for long."
    )
    yield ""
    yield "| lock | space | boundaries | schedules | defects | not decided | limits seen |"
    yield "|---|---|---|---|---|---|---|"
    for lock, nodes, fenced in SPACES:
        setting = Setting(lock, OPTIONS, nodes, fences=fenced)
        kind = Kind(nodes > 1, fenced)
        with trials():
            at = sum(len(boundaries(setting.trial(program))) for program in PROGRAMS)
            for part, found in parts(setting, kind, PROGRAMS, Random(0)):
                if part.name == SINGLES:
                    yield _space(lock, f"one fault, {len(PROGRAMS)} programs", at, kind, part, found)
            if nodes == 1:
                base = setting.trial(PROGRAMS[0])
                two = Doubles(base, PROGRAMS[0])
                found = [two.next() for _ in range(len(two.left))]
                words = f"two faults, program “{PROGRAMS[0].name}”"
                yield _space(lock, words, len(boundaries(base)), kind, two.part, found)


def _space(lock: str, words: str, at: int, kind: Kind, part: Part, found: list[Trial]) -> str:
    examination = Examination(kind, dict(OPTIONS), 36_000)
    examination.try_all(part, iter(found))
    limits = ", ".join(sorted({limit.finding for limit in examination.limits.values()})) or "none"
    left = sum(examination.undecided.values())
    assert part.exhausted
    return f"| {lock} | {words} | {at} | {part.tried:,} | {len(examination.defects)} | {left} | {limits} |"


if __name__ == "__main__":
    main()
