"""What the notebooks share: running stories where the reader wants them run, and looking at what came out.

``LOCK_LAB_ON`` in the environment says where: "sim" (the default: cheap, and the same every time), "local" or
"docker" (real Redis). Simulated runs take place in a process of their own, since a notebook's process has an
event loop, threads and sockets already, which the simulation does not allow.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checker.verdict import Finding, Outcome, Verdict
from lab.analysis.comparison import Stored, read_run
from lab.substrates import is_simulated

if TYPE_CHECKING:
    from IPython.display import SVG
    from matplotlib.figure import Figure

ON = os.environ.get("LOCK_LAB_ON", "sim")
SEED = 7


@dataclass(frozen=True, slots=True)
class Asked:
    """A run to be made: a scenario's name or file, overrides as in `lab run --set`, and the seed."""

    scenario: str
    settings: tuple[str, ...] = ()
    seed: int = SEED


def run(scenario: str, *settings: str, lock: str | None = None, seed: int = SEED) -> Stored:
    """Run a scenario, with overrides such as "lock.ttl=2s", and return the run, judged.

    Raises:
        LabError: as `lab run`.
    """
    named = (*settings, f"lock.name={lock}") if lock else settings
    return run_all([Asked(scenario, named, seed)])[0]


def run_all(asked: Sequence[Asked]) -> list[Stored]:
    """Run many, in the order in which they were asked for; simulated ones use all cores."""
    if is_simulated(ON):
        return [read_run(path) for path in _workers().map(_simulated, asked, [str(Path.cwd())] * len(asked))]
    return [read_run(_real(one)) for one in asked]


def verdict(runs: Stored | Iterable[Stored]) -> None:
    """Print what came out of each property, and why where it was violated."""
    for one in [runs] if isinstance(runs, Stored) else runs:
        words = {Outcome.VIOLATED: "VIOLATED", Outcome.ABSENT: "no fence"}
        name = one.directory.path.name.rsplit("-", 2)[0]
        print(f"{name}, lock {one.loaded.scenario.lock.name}:")  # noqa: T201
        for promise, seen in one.judgement.verdict.properties.items():
            found = ", ".join(dict.fromkeys(finding.name for finding in seen.violations))
            shown = words.get(seen.outcome, str(seen.outcome))
            print(f"  {str(promise).replace('_', ' '):<18} {shown:<9} {found}".rstrip())  # noqa: T201


def writes(run: Stored) -> None:
    """Print what the store carried out, in its order: tokens announced, writes accepted, writes rejected."""
    from lab.report.timeline.data import extract
    from lab.report.timeline.words import duration

    story = extract(run.history, run.judgement.verdict, run.loaded.scenario.title)
    told = [(one.at_ns, f"{one.client} announces its token") for one in story.announcements]
    for write in story.writes:
        done = f"accepted as version {write.version}" if write.accepted else f"REJECTED: {write.error}"
        told.append((write.at_ns, f"{write.client}’s write: {done}"))
    for at_ns, words in sorted(told):
        print(f"  {duration(at_ns):>9}  {words}")  # noqa: T201


def finding(run: Stored, *names: str) -> Finding | None:
    """The first finding of one of these names, if there is one."""
    found: Verdict = run.judgement.verdict
    return next((one for name in names for one in found.named(name)), None)


def picture(run: Stored, kind: str = "timeline") -> SVG:
    """The timeline of a run, or another figure that `lab plot` draws."""
    from IPython.display import SVG

    from lab.report.figures.draw import figure

    drawn = figure(kind, run.history, run.judgement.verdict, run.loaded.scenario.title, "svg")
    return SVG(data=drawn.decode())  # type: ignore[no-untyped-call]


def chart(
    x_label: str, y_label: str, series: dict[str, Sequence[tuple[float, float]]], *, title: str = ""
) -> SVG:
    """Lines with points; each series has a marker of its own."""
    from lab.report.timeline import style

    drawn = _figure()
    axes = drawn.add_subplot()
    for at, (name, points) in enumerate(series.items()):
        tone = style.tone(at)
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, marker="osv^D"[at % 5], color=tone.solid, markeredgecolor=tone.text, label=name)
    return _finished(drawn, axes, x_label, y_label, title, legend=len(series) > 1)


def shares(x_label: str, counts: Sequence[tuple[str, int, int]], *, title: str = "") -> SVG:
    """The share of runs with a violation, (name, hits, runs) each, with Wilson's 95 % interval."""
    from lab.report.timeline import style
    from lab.search.tally import wilson

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
    """Run a command of the lab's, and return what it printed, whatever its exit code was."""
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
    return SVG(data=buffer.getvalue())  # type: ignore[no-untyped-call]


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Where the runs of this notebook are kept while it lives."""
    return tempfile.TemporaryDirectory(prefix="lock-lab-notebook-")


@cache
def _workers() -> ProcessPoolExecutor:
    # The front end interrupts whatever is there: the workers end with the notebook, and say nothing.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(os.cpu_count(), context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    atexit.register(pool.shutdown)
    _scratch()
    os.environ["LOCK_LAB_NOTEBOOK"] = _scratch().name
    return pool


def _simulated(asked: Asked, where: str) -> Path:
    """Simulate one run, up to its history; in a process that does nothing else."""
    from lab.run.execution import Run, RunOptions
    from lab.scenario.load import load_scenario
    from lab.substrates.sim.simulate import simulate

    if where not in sys.path:
        sys.path.insert(0, where)  # a lock that the notebook has written lies there
    loaded = load_scenario(asked.scenario, asked.settings)
    options = RunOptions(asked.seed, Path(os.environ["LOCK_LAB_NOTEBOOK"]), "", "sim")
    return simulate(Run(loaded, options, lambda told: None).prepare(), asked.seed).directory.path


def _real(asked: Asked) -> Path:
    """Make one run on real Redis, by the command that everybody uses."""
    out = tempfile.mkdtemp(dir=_scratch().name)
    settings = [word for setting in asked.settings for word in ("--set", setting)]
    words = ["run", asked.scenario, "--on", ON, "--seed", str(asked.seed), "--out", out, *settings]
    subprocess.run(
        [sys.executable, "-m", "lab", *words, "--picture", "unexpected"], capture_output=True, check=False
    )
    return Path(out, "latest")
