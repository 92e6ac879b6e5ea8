"""The self-test of the scenarios in the terminal and as Markdown: what can go, and why it is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from lab.batch.selftest.change_task import ChangeRow
from lab.batch.selftest.explained import ScenarioSelftest, explanations
from lab.report.tables import markdown_table

NOTE: Final = "<!-- Written by `lab selftest --scenarios --markdown`. -->"
ABOUT: Final = """\
Each scenario that is told in steps is run again in simulation with one thing changed. Left out, one at a
time: each fault, each end of a fault, each operation, each wait (an anchor that only looks whether something
is so is put to its contrary). Replaced: the lock by its wrong relatives, of which one must be told, and each
option that decides something by its neighbour. In each control the story is put back.

A change is noticed if the run is not as expected or proves nothing, if an operation is gone whose outcome is
expected, or if a wrong lock or option that the scenario tells is not told any more. What is not noticed
stands here, each with a reason. Not tried: workloads, whose faults are drawn; scenarios about libraries and
services, which cannot be simulated; time-outs and the number of tries, which set the pace."""


def survivors(ended: ScenarioSelftest) -> list[ChangeRow]:
    """The changes that made no difference."""
    return [row for row in ended.rows if row.result != "noticed"]


def _sentences(ended: ScenarioSelftest) -> Iterator[tuple[str, str]]:
    """What it all came to, line by line, with a style."""
    noticed = sum(row.result == "noticed" for row in ended.rows)
    good = "green" if ended.exit_code == 0 else "bold red"
    yield f"{noticed} of {len(ended.rows)} changes of {_scenarios(ended)} scenarios are noticed", good
    for what in ended.holes:
        yield f"a hole, nothing notices this change: {what}", "bold red"
    for what in ended.outdated:
        yield f"noticed, or no change: its line in decoration.yaml is out of date: {what}", "bold red"
    for row in ended.rows:
        if row.result == "lost":
            yield f"could not be tried: {row.scenario}: {row.by}", "yellow"


def _scenarios(ended: ScenarioSelftest) -> int:
    return len({row.scenario for row in ended.rows})


def print_scenarios(console: Console, ended: ScenarioSelftest) -> None:
    """Print what makes no difference, by class of reasons, and what it comes to."""
    for reason, rows in _by_reason(ended).items():
        console.print(Text(f"{reason}: {len(rows)}", "dim"), soft_wrap=True)
    for words, style in _sentences(ended):
        console.print(Text(words, style), soft_wrap=True)
    console.print(Text(f"{ended.seconds:.1f} s", "dim"))


def _by_reason(ended: ScenarioSelftest) -> dict[str, list[ChangeRow]]:
    known = explanations()
    found: dict[str, list[ChangeRow]] = {reason: [] for reason in known.reasons}
    for row in survivors(ended):
        if why := known.why(row):
            found[why].append(row)
    return {reason: rows for reason, rows in found.items() if rows}


def scenarios_markdown(ended: ScenarioSelftest) -> str:
    """The whole as Markdown, without anything that differs from one time to the next."""
    known = explanations()
    lines = [f"# What can go from the scenarios\n\n{NOTE}\n\n{ABOUT}\n"]
    kinds = Counter((row.kind, row.result == "noticed") for row in ended.rows)
    counted = (
        (kind, str(kinds[kind, True] + kinds[kind, False]), str(kinds[kind, True]), str(kinds[kind, False]))
        for kind in dict.fromkeys(row.kind for row in ended.rows)
    )
    lines.append(markdown_table(("change", "tried", "noticed", "not noticed"), counted))
    lines.append("".join(f"- {words}\n" for words, _ in _sentences(ended)))
    for reason, rows in _by_reason(ended).items():
        table = markdown_table(("scenario", "change"), ((row.scenario, f"`{row.what}`") for row in rows))
        lines.append(f"## {reason[0].upper()}{reason[1:]}\n\n{known.reasons[reason].strip()}\n\n{table}")
    return "\n".join(lines)
