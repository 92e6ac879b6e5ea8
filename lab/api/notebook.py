"""Helpers of the notebooks: running scenarios, and showing the results.

``LOCK_LAB_ON`` in the environment is the substrate: "sim" (the default: fast and deterministic), "local" or
"docker" (real Redis). Simulated runs take place in a process of their own, since a notebook's process has an
event loop, threads and sockets, which the simulation does not allow.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from checker.verdict import Finding, Outcome
from lab.api.child import Child, environment_for
from lab.api.lab import carry_out
from lab.run.request import RunRequest
from lab.run.result import RunResult
from lab.substrates import is_simulated

if TYPE_CHECKING:
    from IPython.display import SVG
    from matplotlib.figure import Figure

ON = os.environ.get("LOCK_LAB_ON", "sim")
SEED = 7


def run(scenario: str, *settings: str, lock: str | None = None, seed: int = SEED) -> RunResult:
    """Run a scenario, with overrides such as "lock.ttl=2s", and return its result.

    Raises:
        LabError: as `lab run`.
    """
    return run_all([RunRequest(scenario, settings, lock, seed)])[0]


def run_all(asked: Sequence[RunRequest]) -> list[RunResult]:
    """Run many, on the substrate and with the seed of this module; simulated ones use all cores."""
    children = _children()
    with ThreadPoolExecutor(children.qsize()) as pool:
        return list(pool.map(_one, asked))


def verdict(runs: RunResult | Iterable[RunResult]) -> None:
    """Print the outcome of each property, and the findings."""
    for one in [runs] if isinstance(runs, RunResult) else runs:
        words = {Outcome.VIOLATED: "VIOLATED", Outcome.ABSENT: "no fence"}
        print(f"{one.name}, lock {one.loaded.scenario.lock.name}:")  # noqa: T201
        for promise, seen in one.verdict.properties.items():
            found = ", ".join(dict.fromkeys(finding.name for finding in seen.violations))
            shown = words.get(seen.outcome, str(seen.outcome))
            print(f"  {str(promise).replace('_', ' '):<18} {shown:<9} {found}".rstrip())  # noqa: T201


def writes(run: RunResult) -> None:
    """Print what the store executed, in its order: tokens announced, writes accepted, writes rejected."""
    from lab.report.timeline.data import extract
    from lab.report.timeline.words import duration

    timeline = extract(run.history, run.verdict, run.loaded.scenario.title)
    lines = [(one.at_ns, f"{one.client} announces its token") for one in timeline.announcements]
    for write in timeline.writes:
        done = f"accepted as version {write.version}" if write.accepted else f"REJECTED: {write.error}"
        lines.append((write.at_ns, f"{write.client}’s write: {done}"))
    for at_ns, words in sorted(lines):
        print(f"  {duration(at_ns):>9}  {words}")  # noqa: T201


def finding(run: RunResult, *names: str) -> Finding | None:
    """The first finding of one of these names, if there is one."""
    return next((one for name in names for one in run.verdict.named(name)), None)


def picture(run: RunResult, kind: str = "timeline") -> SVG:
    """The timeline of a run, or another figure that `lab report --figure` draws."""
    from IPython.display import SVG

    from lab.report.figures.draw import figure

    drawn = figure(kind, run.history, run.verdict, run.loaded.scenario.title, "svg")
    return SVG(data=drawn.decode())


def chart(
    x_label: str, y_label: str, series: dict[str, Sequence[tuple[float, float]]], *, title: str = ""
) -> SVG:
    """Measured points; they are not joined, since what lies between two of them was not run."""
    from lab.report.timeline import style

    drawn = _figure()
    axes = drawn.add_subplot()
    for at, (name, points) in enumerate(series.items()):
        tone = style.tone(at)
        xs, ys = zip(*points, strict=True)
        shape = "osv^D"[at % 5]
        axes.plot(xs, ys, shape, color=tone.solid, markeredgecolor=tone.text, label=name)
    return _finished(drawn, axes, x_label, y_label, title, legend=len(series) > 1)


def shares(x_label: str, counts: Sequence[tuple[str, int, int]], *, title: str = "") -> SVG:
    """The share of runs with a violation, (name, hits, runs) each, with Wilson's 95 % interval."""
    from lab.batch.rate import wilson
    from lab.report.timeline import style

    drawn = _figure()
    axes = drawn.add_subplot()
    for at, (_, hits, runs) in enumerate(counts):
        interval = wilson(hits, runs)
        axes.plot([at, at], [interval.low, interval.high], color=style.tone(0).text, linewidth=1.4)
        axes.plot(at, hits / runs, marker="o", color=style.tone(0).solid)
    axes.set_xticks(range(len(counts)), [name for name, _, _ in counts])
    axes.set_ylim(-0.03, 1.03)
    return _finished(drawn, axes, x_label, "share of runs with an overlap", title, legend=False)


def lab(*words: str) -> str:
    """Run a command of the lab, and return its output, whatever its exit code."""
    command = [sys.executable, "-m", "lab", *words]
    plain = {
        name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")
    }
    plain["NO_COLOR"] = "1"
    return subprocess.run(command, env=plain, capture_output=True, text=True, check=False).stdout


def _figure() -> Figure:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "lock-lab notebook"
    mpl.rcParams["svg.fonttype"] = "none"
    return Figure(figsize=(5.5, 2.6), layout="constrained")


def _finished(drawn: Figure, axes: Any, x_label: str, y_label: str, title: str, *, legend: bool) -> SVG:
    import io

    from IPython.display import SVG

    axes.set(xlabel=x_label, ylabel=y_label, title=title)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False)
    buffer = io.StringIO()
    drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return SVG(data=buffer.getvalue())


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """The directory of the runs of this notebook, removed at its end."""
    return tempfile.TemporaryDirectory(prefix="lock-lab-notebook-")


@cache
def _children() -> SimpleQueue[Child]:
    """The processes of the runs of this notebook; each has one run at a time."""
    children: SimpleQueue[Child] = SimpleQueue()
    for _ in range((os.cpu_count() or 1) if is_simulated(ON) else 1):
        children.put(_child())
    return children


def _child() -> Child:
    child = Child(Path.cwd(), environment_for())
    atexit.register(child.close)
    return child


def _one(asked: RunRequest) -> RunResult:
    """Make one run, in a free process."""
    seed = SEED if asked.seed is None else asked.seed
    request = replace(asked, seed=seed, substrate=ON, out=Path(_scratch().name))
    child = _children().get()
    try:
        return child.call(carry_out, request, "never")
    finally:
        _children().put(child if child.process.poll() is None else _child())
