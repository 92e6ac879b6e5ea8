"""From a history on disk to a judgement: check it, compare with what was expected, draw, write it down."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec
import numpy as np

from checker import HistoryError, Outcome, Verdict, load
from checker.check import check
from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import F, Status
from checker.words import in_words
from lab.analysis.belief import CrossCheck, cross_check
from lab.analysis.metrics import Measures, measure
from lab.analysis.outcomes import unlike
from lab.errors import ExitCode, LabError
from lab.run.directory import RunDirectory
from lab.run.recorder import recover
from lab.scenario.load import LoadedScenario, load_scenario
from lab.scenario.model import Expect, Scenario

MUST_HAPPEN: Final = ("violated", "found")
"""Expectations of something that must be seen to happen; a busy machine can keep it from happening."""

Picture = Literal["always", "unexpected", "never"]
"""Which runs are drawn: every one, only what did not come out as expected, or none."""


class Stopwatch(Protocol):
    """Measures the parts of a run."""

    seconds: dict[str, float]

    def measure(self, part: str) -> AbstractContextManager[None]:
        """Add the time spent inside to ``part``."""
        ...


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One property, or one finding, that came out differently from what the scenario expects."""

    what: str
    expected: str
    seen: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict held against an expectation."""

    verdict: Verdict
    mismatches: tuple[Mismatch, ...]
    unknown: tuple[str, ...]
    pictures: tuple[Path, ...]
    measures: Measures | None = None
    """How soon and how often the lock was got; of a workload only."""
    belief: CrossCheck | None = None
    """What the clients believed against where their tokens lay; a report that decides nothing."""

    @property
    def is_certain(self) -> bool:
        """Whether a violation was seen that was not expected, even in a run that was aborted afterwards."""
        return any(mismatch.seen == Outcome.VIOLATED for mismatch in self.mismatches)

    @property
    def exit_code(self) -> ExitCode:
        """A violation that nobody expected decides: it is certain, whatever else is unknown.

        Otherwise unknown wins, also over a violation that was expected and seen: that the rest is as expected
        cannot be known. Then come expectations that were not met.
        """
        if self.is_certain:
            return ExitCode.UNEXPECTED
        if self.unknown:
            return ExitCode.UNKNOWN
        return ExitCode.UNEXPECTED if self.mismatches else ExitCode.EXPECTED


def compare(verdict: Verdict, expect: Expect) -> tuple[tuple[Mismatch, ...], tuple[str, ...]]:
    """Return what differs from the expectation, and why anything in it is unknown.

    A property that the scenario does not mention must at least not be violated, unless it is left to chance.
    """
    mismatches: list[Mismatch] = []
    unknown = list(verdict.unknown_reasons)
    expected = {str(name): str(outcome) for name, outcome in expect.outcomes.items()}
    for name, seen in verdict.properties.items():
        wanted = expected.get(str(name))
        if wanted is None:
            if seen.outcome is Outcome.VIOLATED and str(name) not in expect.either:
                mismatches.append(Mismatch(str(name), "not violated", "violated"))
        elif seen.outcome is Outcome.UNKNOWN and wanted != Outcome.UNKNOWN:
            unknown.append(f"{name}: {seen.why}")
        elif seen.outcome != wanted:
            mismatches.append(Mismatch(str(name), str(wanted), str(seen.outcome)))
    found = {finding.name for finding in verdict.findings}
    mismatches += [
        Mismatch(f"finding {name}", "found", "not found")
        for name in expect.findings or ()
        if name not in found
    ]
    return tuple(mismatches), tuple(dict.fromkeys(unknown))


def compare_operations(history: History, scenario: Scenario) -> tuple[Mismatch, ...]:
    """Return the operations that ended otherwise than the scenario expects."""
    return tuple(Mismatch(*each) for each in unlike(history, scenario))


def refusals_in_stalls(history: History) -> Iterator[str]:
    """Say which clients were refused while they stood still unasked: their time-outs ran, and nothing else.

    What such a refusal kept from happening says nothing about the lock.
    """
    evidence = Evidence(history)
    ops, pauses = evidence.ops, evidence.pauses()
    for row in np.flatnonzero((ops.f == F.ACQUIRE) & (ops.status == Status.FAIL)).tolist():
        client, call_ns, return_ns = evidence.client(row), int(ops.call_ns[row]), int(ops.return_ns[row])
        for stall in history.stalls:
            asked = any(
                p.start_ns <= stall.end_ns and stall.start_ns <= p.end_ns for p in pauses.get(client, ())
            )
            if stall.client == client and stall.start_ns < return_ns and call_ns < stall.end_ns and not asked:
                yield (
                    f"{client} was refused at {evidence.at(return_ns)} after it had stood still for "
                    f"{in_words(stall.end_ns - stall.start_ns)}, since the machine was busy: what was to "
                    "happen "
                    "then may not have happened for that alone"
                )
                break


def judge(
    directory: RunDirectory,
    loaded: LoadedScenario,
    stopwatch: Stopwatch,
    *,
    environment: Mapping[str, str] | None = None,
    repeat_command: str | None = None,
    picture: Picture = "always",
    on_verdict: Callable[[Judgement], None] | None = None,
) -> Judgement:
    """Check the history of a run, draw it, and keep the verdict beside it.

    ``picture`` "unexpected" draws only what did not come out as expected, for those who run many; "never"
    nothing, for those who expect nothing. The page is written in any case.
    ``on_verdict`` is told the judgement as soon as it is known, which is before the pictures.

    Raises:
        LabError: the history is damaged.
    """
    with stopwatch.measure("check"):
        history = _load(directory)
        judgement = decide(history, loaded.scenario)
    if on_verdict is not None:
        on_verdict(judgement)
    kept: dict[str, object] = {
        "scenario": loaded.name,
        "exit_code": int(judgement.exit_code),
        "expected": dict(loaded.scenario.expect.outcomes),
        "mismatches": [
            {"what": m.what, "expected": m.expected, "seen": m.seen} for m in judgement.mismatches
        ],
        "unknown": list(judgement.unknown),
        "verdict": judgement.verdict.to_dict(),
        "environment": dict(environment or {}),
        "timings_s": {},
        "repeat": repeat_command,
    }
    if judgement.measures is not None:
        kept["measures"] = judgement.measures.to_dict()
        kept["schedule"] = directory.read_schedule()
    if judgement.belief is not None:
        kept["belief_and_truth"] = judgement.belief.to_dict()
    if environment is None and directory.verdict.exists():
        kept |= _as_run(directory.verdict)
    with stopwatch.measure("report"):
        drawn: tuple[Path, ...] = ()
        wanted = picture == "always" or judgement.exit_code != ExitCode.EXPECTED
        if wanted and picture != "never":
            drawn = _draw(history, judgement.verdict, loaded.scenario.title, directory.path)
        reports = write_report(directory, loaded, history, judgement, kept) + drawn
    kept["timings_s"] = kept["timings_s"] or {part: round(s, 3) for part, s in stopwatch.seconds.items()}
    directory.verdict.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    return replace(judgement, pictures=reports)


def decide(history: History, scenario: Scenario) -> Judgement:
    """Check a history and hold the verdict against what the scenario expects; nothing is written."""
    verdict = check(history)
    mismatches, unknown = compare(verdict, scenario.expect)
    operations = compare_operations(history, scenario)
    mismatches += operations
    not_done = any(mismatch.expected == "ok" for mismatch in operations)
    if not_done or any(mismatch.expected in MUST_HAPPEN for mismatch in mismatches):
        unknown += tuple(refusals_in_stalls(history))
    measures = measure(history) if scenario.workload is not None else None
    return Judgement(verdict, mismatches, unknown, (), measures, _cross_check(history, scenario))


def _load(directory: RunDirectory) -> History:
    try:
        return load(directory.history)
    except HistoryError as error:
        raise LabError(str(error), hint="the history was changed after the run: run it again") from error


def write_report(
    directory: RunDirectory,
    loaded: LoadedScenario,
    history: History,
    judgement: Judgement,
    kept: Mapping[str, object],
) -> tuple[Path, ...]:
    """Write the page of a run; a page that fails must not cost the verdict."""
    from lab.report.page import write_page
    from lab.report.page.build import Subject

    try:
        subject = Subject(
            str(kept.get("scenario") or loaded.name), loaded.scenario, loaded.text, history, judgement, kept
        )
        return (write_page(subject, directory.path),)
    except Exception:
        logging.getLogger("lab").exception("the page could not be written; the verdict stands")
        return ()


def _cross_check(history: History, scenario: Scenario) -> CrossCheck | None:
    """Hold belief against truth; like the picture, it must not cost the verdict if it fails."""
    try:
        return cross_check(history, one_master=bool(scenario.cluster.replicas))
    except Exception:
        logging.getLogger("lab").exception("belief and truth could not be compared; the verdict stands")
        return None


def _draw(history: History, verdict: Verdict, title: str, directory: Path) -> tuple[Path, ...]:
    """Draw the timeline; a picture that fails must not cost the verdict."""
    from lab.report.timeline import draw_timeline  # matplotlib is heavy

    try:
        return tuple(draw_timeline(history, verdict, title, directory))
    except Exception:
        logging.getLogger("lab").exception("the timeline could not be drawn; the verdict stands")
        return ()


def judge_again(path: Path, stopwatch: Stopwatch) -> tuple[RunDirectory, Judgement]:
    """Check a stored run once more; one whose lab was killed gets its history from what was logged.

    Raises:
        LabError: it is no run's directory, or its files are damaged.
    """
    directory, loaded = open_run(path)
    return directory, judge(directory, loaded, stopwatch)


def open_run(path: Path) -> tuple[RunDirectory, LoadedScenario]:
    """Find a stored run and its scenario; one whose lab was killed gets its history from what was logged.

    Raises:
        LabError: it is no run's directory, or its files are damaged.
    """
    directory = RunDirectory.existing(path)
    if not directory.history.exists() and recover(directory.path) is None:
        raise LabError(
            "this directory holds no history",
            where=str(directory.path),
            expected="history.jsonl, or the logs of a run that was killed",
            hint="is it the directory of a run? look into reports/",
        )
    return directory, load_scenario(str(directory.scenario))


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored run, read and judged again in memory; `kept` is what its verdict.json says."""

    directory: RunDirectory
    loaded: LoadedScenario
    history: History
    judgement: Judgement
    kept: Mapping[str, object]


def read_run(path: Path) -> Stored:
    """Read a stored run and judge it, without writing anything.

    Raises:
        LabError: it is no run's directory, or its files are damaged.
    """
    directory, loaded = open_run(path)
    history = _load(directory)
    kept = _as_run(directory.verdict)
    return Stored(directory, loaded, history, decide(history, loaded.scenario), kept)


def _as_run(path: Path) -> dict[str, object]:
    """Return what only the run itself could know: where it ran, how long it took, how to repeat it."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        before = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
        return {
            name: before[name]
            for name in ("scenario", "environment", "timings_s", "repeat")
            if name in before
        }
    return {}
