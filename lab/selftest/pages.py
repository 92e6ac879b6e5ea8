"""The results of the self-tests, as pages of docs/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from lab.batch.result import Result
from lab.errors import ExitCode
from lab.report.tables import markdown_table
from lab.selftest.change_task import ChangeResult, changes_of, explanations
from lab.selftest.mutants import RESULTS, Catch

HEADINGS: Final = ("mutant", "what is broken", "caught by", "finding", "schedules", "seconds", "witness")
ABOUT: Final = """\
Each scenario that has steps is simulated again with one change. Left out, one at a time: each fault, each end
of a fault, each operation, each wait (an anchor that only tests a condition is replaced by its contrary).
Replaced: the lock by its wrong relatives, of which one must be noticed, and each option with an effect by
another value. In each control, what differs from its scenario is put back.

A change is noticed if the run is not as expected or proves nothing, if an operation is removed whose outcome
is expected, or if a wrong lock or option that the scenario notices is no longer noticed. The changes that are
not noticed are listed here with their reasons. Not tried: workloads, whose faults are drawn; scenarios about
libraries and services, which cannot be simulated; time-outs and the number of tries, which only decide how
long things take."""


def mutants_page(result: Result) -> str:
    """Each mutant with what caught it and after how long; how often the real lock was accused."""
    catches = [msgspec.convert(row.facts, Catch) for row in result.rows if row.facts]
    mutants = dict.fromkeys(one.mutant for one in catches)
    missed = {one.mutant for one in catches if one.result != "caught"}
    caught = len(mutants) - len(missed)
    lines = [f"{caught} of {len(mutants)} broken locks are caught by the finding that each must give"]
    for words, simulated in (("simulated schedules", True), ("real runs of its own scenarios", False)):
        rows = [
            row for row in result.rows if not row.facts and row.item.startswith("schedules/") == simulated
        ]
        if rows:
            codes = Counter(row.exit_code for row in rows)
            accused = codes[ExitCode.UNEXPECTED]
            unknown = len(rows) - accused - codes[ExitCode.EXPECTED]
            more = f", unknown in {unknown}" if unknown else ""
            lines.append(f"redlock, {words}: accused in {accused} of {len(rows)} runs{more}")
    lines.append(f"{result.seconds:.1f} s")
    ordered = sorted(
        catches, key=lambda one: (list(mutants).index(one.mutant), not one.by.startswith("search"))
    )
    return (
        "# Broken locks, and what caught them\n\n<!-- Written by `lab suite --selftest --markdown`. -->\n\n"
        + markdown_table(HEADINGS, map(_cells, ordered))
        + "\n"
        + "".join(f"- {line}\n" for line in lines)
    )


def _cells(one: Catch) -> tuple[str, ...]:
    events = f"events {', '.join(map(str, one.witness))}: " if one.witness else ""
    proof = "; ".join(one.reasons) or events + one.why
    by = f"{RESULTS[one.result]} {one.by}".strip()
    return one.mutant, one.breaks, by, one.finding, str(one.schedules), f"{one.seconds:.2f}", proof


def changes_page(result: Result) -> str:
    """What can be left out of the scenarios, and why it is there; without seconds and dates."""
    known = explanations()
    changes = [one for row in result.rows for one in changes_of(row)]
    kinds = Counter((one.kind, one.result == "noticed") for one in changes)
    counted = (
        (kind, str(kinds[kind, True] + kinds[kind, False]), str(kinds[kind, True]), str(kinds[kind, False]))
        for kind in dict.fromkeys(one.kind for one in changes)
    )
    note = "<!-- Written by `lab suite --selftest --scenarios --markdown`. -->"
    lines = [f"# What can go from the scenarios\n\n{note}\n\n{ABOUT}\n"]
    lines.append(markdown_table(("change", "tried", "noticed", "not noticed"), counted))
    lines.append("".join(f"- {words}\n" for words in _sentences(result, changes)))
    for reason, sentence in known.reasons.items():
        survived = [one for one in changes if one.result == "survived" and known.why(one) == reason]
        if survived:
            table = markdown_table(
                ("scenario", "change"), ((one.scenario, f"`{one.what}`") for one in survived)
            )
            lines.append(f"## {reason[0].upper()}{reason[1:]}\n\n{sentence.strip()}\n\n{table}")
    return "\n".join(lines)


def _sentences(result: Result, changes: list[ChangeResult]) -> Iterator[str]:
    noticed = sum(one.result == "noticed" for one in changes)
    scenarios = len({one.scenario for one in changes})
    yield f"{noticed} of {len(changes)} changes of {scenarios} scenarios are noticed"
    for cell in result.cells:
        for row in cell.rows:
            yield from (f"{cell.item.name}: {reason}" for reason in row.reasons)
