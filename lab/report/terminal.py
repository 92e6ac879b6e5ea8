"""A run in a terminal: the events on stderr, the verdict on stdout."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from checker import Outcome, PropertyVerdict, Verdict
from lab.analysis.metrics import WINDOW_NS, Measures, Spread
from lab.durations import format_duration
from lab.errors import ExitCode
from lab.report.belief import belief_lines
from lab.run.events import Listener, RunEvent
from lab.run.request import Plan
from lab.run.result import RunResult
from lab.scenario.model import Scenario

STATUS_STYLES = {
    "ok": "green",
    "fail": "red",
    "info": "yellow",
    "skipped": "dim",
    "fault": "magenta",
    "plain": "default",
}
OUTCOMES = {
    Outcome.OK: ("ok", "green"),
    Outcome.VIOLATED: ("VIOLATED", "bold red"),
    Outcome.UNKNOWN: ("unknown", "yellow"),
    Outcome.ABSENT: ("absent", "cyan"),
}
ENDINGS = {
    ExitCode.EXPECTED: ("as expected", "bold green"),
    ExitCode.UNEXPECTED: ("NOT as expected", "bold red"),
    ExitCode.UNKNOWN: ("UNKNOWN: not everything that was expected could be decided", "bold yellow"),
}
LABEL_WIDTH = 19
ON_SUBSTRATE = ("up", "steps", "heal", "down")
"""The parts of a run that take place on its substrate, by their names in verdict.json."""


class RunPrinter(Listener):
    """Prints what is to be run, then each event with the milliseconds since the cluster was up.

    The verdict goes to ``data``, if there is one.
    """

    def __init__(self, console: Console, data: Console | None = None) -> None:
        self._console, self._data = console, data

    def planned(self, plan: Plan) -> None:
        """Print the scenario's title, and everything that was chosen and drawn."""
        scenario = plan.loaded.scenario
        self._console.print(f"[bold]{plan.loaded.name}[/]: {scenario.title}", soft_wrap=True)
        chosen = f"seed {plan.seed} · substrate {plan.substrate} ({plan.why})"
        in_short = _in_short(scenario, plan.servers)
        self._console.print(f"{chosen} · {in_short}", style="dim", markup=False)
        if plan.dropped:
            names, lock = ", ".join(plan.dropped), scenario.lock.name
            words = f"left out: {names}, options of the scenario's own lock that {lock} does not take"
            self._console.print(words, style="dim", markup=False, soft_wrap=True)

    def event(self, event: RunEvent) -> None:
        """Print one event."""
        at = "" if event.at_ns is None else f"{event.at_ns / 1e6:.0f} ms"
        line = Text.assemble(
            (f"{at:>10}  ", "dim"),
            (f"{event.actor:>8}  ", "bold"),
            (event.text, STATUS_STYLES[event.status]),
        )
        self._console.print(line, soft_wrap=True)

    def ended(self, result: RunResult) -> None:
        """Print the verdict."""
        if self._data is not None:
            print_result(self._data, result)


def _in_short(scenario: Scenario, servers: str | None) -> str:
    """The lock and the nodes in a few words."""
    lock, cluster = scenario.lock, scenario.cluster
    kind = cluster.keeping if cluster.service == "redis" else cluster.service
    nodes = f"{cluster.nodes} nodes of {servers}" if servers else f"{cluster.nodes} nodes"
    return f"lock {lock.name}, TTL {format_duration(lock.ttl_ns)}, {nodes}, {kind}"


def print_verdict(console: Console, verdict: Verdict) -> None:
    """Print each property, its outcome and why."""
    for name, seen in verdict.properties.items():
        words, style = OUTCOMES[seen.outcome]
        label = str(name).replace("_", " ")
        console.print(
            Text.assemble(f"  {label:<{LABEL_WIDTH}}", (f"{words:<9}", style)),
            escape(_headline(seen)),
            sep=" ",
            soft_wrap=True,
        )
        for line in _evidence(seen):
            console.print(Text(f"      {line}"), soft_wrap=True)
    for finding in verdict.findings:
        if finding.severity == "warning":
            _note(console, f"{finding.name}: {finding.why}")
    for remark in verdict.remarks:
        _note(console, remark)


def _note(console: Console, text: str) -> None:
    console.print(Text(f"  note: {text}", "yellow"), soft_wrap=True)


def _headline(seen: PropertyVerdict) -> str:
    """The headline of the first violation, or why there is none."""
    return seen.violations[0].headline or seen.why if seen.violations else seen.why


def _evidence(seen: PropertyVerdict) -> list[str]:
    """The evidence behind the headline, and which assumption was broken at that time."""
    lines = list(seen.violations[0].evidence) if seen.violations else []
    broken = next((f.broken_assumption for f in seen.violations if f.broken_assumption), None)
    return [*lines, broken] if broken else lines


def print_result(console: Console, result: RunResult, name: str | None = None) -> None:
    """Print the verdict, then what differs from the expectation; ``name`` instead of the scenario's."""
    words, style = ENDINGS[result.exit_code]
    if result.exit_code == ExitCode.UNKNOWN and result.verdict.outcome is not Outcome.VIOLATED:
        proven = any(seen.outcome is Outcome.OK for seen in result.verdict.properties.values())
        words = words if proven else "UNKNOWN: this run proves nothing"
    console.print(Text.assemble((name or result.name, "bold"), ": ", (words, style)))
    print_verdict(console, result.verdict)
    if result.measures is not None:
        print_measures(console, result.measures)
    if result.belief is not None:
        for word, text in belief_lines(result.belief):
            console.print(f"  {'belief and nodes':<{LABEL_WIDTH}} {word:<9}", escape(text), soft_wrap=True)
    for mismatch in result.comparison.mismatches:
        console.print(Text(f"  expected {mismatch.what}: {mismatch.expected}, saw {mismatch.seen}", "red"))
    for reason in result.comparison.unknown:
        console.print(Text(f"  unknown: {reason}", "yellow"), soft_wrap=True)


def print_measures(console: Console, measures: Measures) -> None:
    """Print how soon and how often the lock was acquired."""
    for line in measure_lines(measures):
        console.print(Text(f"  measured: {line}"), soft_wrap=True)


def measure_lines(measures: Measures) -> list[str]:
    """How soon and how often the lock was acquired, in sentences."""
    parts = [
        f"{measures.grants} grants in {measures.attempts} attempts "
        f"({measures.refused} refused, {measures.unknown} of unknown outcome)"
        + _spread(", acquired in", measures.acquire_ns, 1e6, " ms")
        + _spread(", attempts until a grant", measures.tries, 1, ""),
    ]
    if measures.available is not None:
        demand = len(measures.windows) - measures.windows.count("-")
        parts.append(
            f"granted in {measures.available:.1%} of {demand} windows of {WINDOW_NS / 1e6:.0f} ms "
            f"with demand, longest gap with a majority reachable {measures.longest_gap_ns / 1e6:.0f} ms"
        )
    if measures.heals:
        parts.append(
            f"{len(measures.heals)} faults healed"
            + _spread(", next grant after", measures.after_heal_ns, 1e6, " ms")
            + _spread(", to the client that was hit after", measures.hit_after_heal_ns, 1e6, " ms")
        )
    return parts + _handovers(measures)


def _handovers(measures: Measures) -> list[str]:
    """The cost of a grant that can't be released, compared with the usual time to the next grant."""
    usual = measures.handover_ns
    lines = []
    if usual is not None:
        within = _spread(" the next one came within", usual, 1e6, " ms")
        lines.append(f"after a grant that was released{within}")
    penalty = measures.penalty_ns
    if penalty is not None:
        ttl_ms = max(penalty.ttl_ns for penalty in measures.penalties) / 1e6
        count = len(measures.penalties)
        words = (
            f"{count} grant{'s' if count > 1 else ''} could not be released because of a fault"
            + _spread("; the next one came", penalty, 1e6, " ms")
            + f" later, with a TTL of {ttl_ms:.0f} ms"
        )
        if usual is not None:
            words += f": each cost {(penalty.p50 - usual.p50) / 1e6:.0f} ms more than usual (median)"
        lines.append(words)
    return lines


def _spread(words: str, spread: Spread | None, unit: float, name: str) -> str:
    """A distribution as the end of a sentence; empty if there is none."""
    if spread is None:
        return ""
    shown = (
        f"{value / unit:.{1 if value / unit < 100 else 0}f}" for value in (spread.p50, spread.p99, spread.max)
    )
    p50, p99, most = shown
    return f"{words} {p50}{name} (median), {p99}{name} (p99), {most}{name} (most)"


def print_ending(
    console: Console,
    result: RunResult,
    files: Iterable[Path],
    seconds: Mapping[str, float],
    age_s: float | None,
) -> None:
    """Print where the report is, how long each part took, and the age of the process.

    Simulated parts took virtual time.
    """
    pictures = ", ".join(picture.name for picture in files)
    console.print(
        Text(f"report: {relative(result.directory)}" + (f" ({pictures})" if pictures else "")), soft_wrap=True
    )
    parts = " · ".join(f"{part} {spent:.2f} s" for part, spent in seconds.items())
    virtual = [part for part in ON_SUBSTRATE if part in seconds] if result.simulated else []
    real = [spent for part, spent in seconds.items() if part not in virtual]
    whole = (
        f"{sum(real):.2f} s of these parts" if age_s is None else f"{age_s:.2f} s since the process started"
    )
    note = f" ({', '.join(virtual)}: virtual time)" if virtual else ""
    console.print(Text(f"time:   {parts} · {whole}{note}", "dim"), soft_wrap=True)


def relative(path: Path) -> str:
    """The shortest form of a path from the working directory."""
    short = os.path.relpath(path)
    return short if not short.startswith("..") else str(path)
