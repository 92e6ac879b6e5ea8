"""Which lines of a lock's code no schedule executed."""

from __future__ import annotations

from pathlib import Path

from lab.examine.result import Lines, LockExecuted
from lab.search.branches import LockCode, Step


def executed(code: LockCode, taken: set[int]) -> LockExecuted:
    """What the numbers of the steps that were taken say about the code of a lock."""
    runs: list[list[Step]] = []
    goes_on = False
    for number, step in enumerate(code.steps):
        if number in taken:
            goes_on = False
        elif goes_on and _is_within(step, runs[-1][0]):
            runs[-1].append(step)
        else:
            runs.append([step])
            goes_on = True
    runs.sort(key=lambda run: run[0].first)  # functions that were never called come last
    lines = {(step.file, step.line) for step in code.steps}
    done = {(step.file, step.line) for number, step in enumerate(code.steps) if number in taken}
    return LockExecuted(len(lines), len(done), tuple(map(_as_lines, runs)), code.why_not)


def _is_within(step: Step, first: Step) -> bool:
    """Whether it is in the same block as this one, or in one inside of that."""
    in_function = step.file == first.file and f"{step.function}.".startswith(f"{first.function}.")
    return in_function and step.depth >= first.depth


def _as_lines(run: list[Step]) -> Lines:
    lines = [step.line for step in run if not step.passes] or [run[0].line]
    return Lines(_shown(run[0].file), min(lines), max(lines), run[0].why)


def _shown(file: str) -> str:
    """A path as the user would write it: from the directory where they are, if it is below that."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
