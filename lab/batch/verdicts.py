"""Every story and its control, each run as a process of its own, and what came out of it against what should.

A story proves something only together with its control (the same story without the decisive fault, clean), so
whoever asks for a story gets both.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lab.batch import preload as forked
from lab.errors import ExitCode
from lab.run.directory import RunDirectory
from lab.scenario.library import Summary
from lab.substrates import AUTO
from lab.substrates.cleanup import sweep

if TYPE_CHECKING:
    from lab.report.files import Picture


class Case(msgspec.Struct, frozen=True):
    """One line of the table: a story, and its control where there is one."""

    name: str
    control: str | None = None

    @property
    def scenarios(self) -> tuple[str, ...]:
        """What has to be run for this line."""
        return (self.name, self.control) if self.control else (self.name,)


class OneRun(msgspec.Struct, frozen=True):
    """What one `lab run` came to.

    Times are in seconds, Python's start and its imports not included; `story_s` is the part of `wall_s` that
    the story itself took, with all that it waits for. `receipts` counts the faults that proved that they took
    effect, `faults` all of them. `reasons` says what was not as expected, or why nothing is known; `refused`
    why nothing was run at all (exit code 2). `versions`: what was under test, by name.
    """

    scenario: str
    seed: int
    exit_code: int
    wall_s: float
    repeat: str
    story_s: float = 0.0
    outcomes: dict[str, str] = {}
    findings: tuple[str, ...] = ()
    receipts: int = 0
    faults: int = 0
    reasons: tuple[str, ...] = ()
    directory: str | None = None
    refused: str = ""
    versions: dict[str, str] = {}

    @property
    def as_expected(self) -> bool:
        """Whether it came out as its scenario says."""
        return self.exit_code == ExitCode.EXPECTED


class Row(msgspec.Struct, frozen=True):
    """One line of the table with all runs that belong to it."""

    case: Case
    runs: tuple[OneRun, ...]

    def of(self, scenario: str | None) -> tuple[OneRun, ...]:
        """The runs of the story, or of its control."""
        return tuple(run for run in self.runs if run.scenario == scenario)

    @property
    def as_expected(self) -> int:
        """How many of the runs came out as expected."""
        return sum(run.as_expected for run in self.runs)


def cases(wanted: Sequence[str], known: Iterable[Summary]) -> tuple[Case, ...]:
    """The lines of the table: all stories that come with the lab, or those (names or files) that are wanted.

    A control that is asked for by its own name gets a line of its own.
    """
    summaries = {summary.name: summary for summary in known}
    if not wanted:
        return tuple(
            Case(name, summary.control)
            for name, summary in summaries.items()
            if summary.control_of not in summaries
        )
    return tuple(
        Case(name, summaries[name].control if name in summaries else None) for name in dict.fromkeys(wanted)
    )


def usable(summaries: Iterable[Summary], on: str, tell: Callable[[str], None]) -> tuple[Summary, ...]:
    """Those whose library is installed on a substrate; of the others each library's reason is told, once.

    Raises:
        LabError: nothing can run here.
    """
    from lab.drivers import PREFIX
    from lab.drivers.place import place_for

    known = tuple(summaries)
    libraries = {one.lock: one.lock.removeprefix(PREFIX) for one in known if one.lock.startswith(PREFIX)}
    reasons = {lock: place_for(on, lock).why_not(lock) for lock in libraries}
    for lock, reason in reasons.items():
        if reason is not None:
            tell(f"skipped: the stories about {libraries[lock]}: {reason}")
    return tuple(one for one in known if reasons.get(one.lock) is None)


def exit_code(rows: Iterable[Row]) -> ExitCode:
    """0 only if every run came out as expected; what came out wrong weighs more than what is unknown."""
    codes = {run.exit_code for row in rows for run in row.runs}
    if ExitCode.UNEXPECTED in codes:
        return ExitCode.UNEXPECTED
    return ExitCode.EXPECTED if codes <= {ExitCode.EXPECTED} else ExitCode.UNKNOWN


def to_json(rows: Iterable[Row]) -> bytes:
    """All runs, line by line, as JSON."""
    lines = list(rows)
    told = {"as_expected": exit_code(lines) == ExitCode.EXPECTED, "rows": lines}
    return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"


def own_directory(out: Path, what: str = "verdicts") -> Path:
    """Where the runs of this table go: below `out`, not between the runs of others."""
    return out.resolve() / f"{what}-{datetime.now().astimezone():%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


async def run_all(
    lines: Sequence[Case],
    out: Path,
    *,
    repeat: int = 1,
    jobs: int = 1,
    on: str = AUTO,
    on_end: Callable[[OneRun], None] = lambda run: None,
) -> tuple[Row, ...]:
    """Run everything, at most `jobs` at once, and report each run to `on_end` when it ends.

    The rounds go through all scenarios before one is repeated, so that what disturbs the machine for a while
    does not hit one of them only. When this is cancelled, the runs are interrupted and tear down first.
    """
    free = asyncio.Semaphore(jobs)
    wanted = [name for _ in range(repeat) for line in lines for name in line.scenarios]

    async def one(name: str) -> OneRun:
        async with free:
            ended = await run_one(name, secrets.randbelow(2**31), out, on)
        on_end(ended)
        return ended

    async with asyncio.TaskGroup() as group:  # when cancelled, it waits until each run has torn down
        tasks = [group.create_task(one(name)) for name in wanted]
    runs = [task.result() for task in tasks]
    return tuple(Row(line, tuple(run for run in runs if run.scenario in line.scenarios)) for line in lines)


async def run_one(
    scenario: str,
    seed: int,
    out: Path,
    on: str = AUTO,
    settings: Sequence[str] = (),
    *,
    picture: Picture = "unexpected",
) -> OneRun:
    """Run one scenario as `lab run` does, with overrides as for `--set`, in a process of its own.

    One that cannot be started, or is killed, is unknown; what a killed one leaves is ended.
    """
    words = ["run", scenario, "--seed", str(seed), *([] if on == AUTO else ["--on", on])]
    words += [word for setting in settings for word in ("--set", setting)]
    began = time.monotonic()
    repeat = shlex.join(["lab", *words])
    try:
        ended = await forked.call([*words, "--out", str(out), "--picture", picture, "--json"])
    except OSError as error:  # no process to be had, or no room for what it says
        reasons = (f"it could not be started: {error.strerror or error}",)
        return OneRun(scenario, seed, ExitCode.UNKNOWN, time.monotonic() - began, repeat, reasons=reasons)
    wall_s = time.monotonic() - began
    if ended.code < 0:
        await asyncio.to_thread(sweep)
    return _read(scenario, seed, ended.code, wall_s, repeat, ended.out, ended.err, out)


def _read(
    scenario: str, seed: int, code: int, wall_s: float, repeat: str, told: bytes, talk: str, out: Path
) -> OneRun:
    """What a run that has ended says about itself; one that says nothing is told by its last line of talk."""
    found = sorted(out.glob(f"{Path(scenario).stem}-*-{seed}"))
    directory = found[-1] if found else None
    try:
        kept = msgspec.json.decode(told, type=dict[str, Any])
        properties = kept["verdict"]["properties"]
    except (msgspec.DecodeError, KeyError):
        lines = [line for line in talk.splitlines() if line.strip()]
        error = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "no word")
        reasons = (f"exit code {code}, {error}",)
        unknown = ExitCode.UNKNOWN if code == ExitCode.EXPECTED else code
        refused = error.removeprefix("error: ") if code == ExitCode.USAGE else ""
        return OneRun(scenario, seed, unknown, wall_s, repeat, reasons=reasons, refused=refused)
    why = [f"{m['what']}: {m['seen']}, expected {m['expected']}" for m in kept["mismatches"]]
    # Of what is unknown that is said first: a mismatch may be for that reason alone.
    why = [*kept["unknown"], *why] if code == ExitCode.UNKNOWN else [*why, *kept["unknown"]]
    receipts, faults = _receipts(directory)
    return OneRun(
        scenario=scenario,
        seed=seed,
        exit_code=code,
        wall_s=wall_s,
        repeat=repeat,
        story_s=float(kept["timings_s"].get("story", 0.0)),
        outcomes={name: seen["outcome"] for name, seen in properties.items()},
        findings=tuple(_violations(properties)),
        receipts=receipts,
        faults=faults,
        reasons=tuple(why) if code != ExitCode.EXPECTED else (),
        directory=str(directory) if directory else None,
        versions={name: told for name, told in kept["environment"].items() if name != "substrate"},
    )


def _violations(properties: dict[str, Any]) -> list[str]:
    names = [
        finding["name"]
        for seen in properties.values()
        for finding in seen["findings"]
        if finding["severity"] == "violation"
    ]
    return list(dict.fromkeys(names))


def _receipts(directory: Path | None) -> tuple[int, int]:
    """How many faults proved that they took effect, and how many were injected or ended in all."""
    if directory is None:
        return 0, 0
    seen: dict[str, set[str]] = {"invoke": set(), "ok": set()}
    with contextlib.suppress(OSError, msgspec.DecodeError):
        for line in RunDirectory.existing(directory).history.read_bytes().splitlines():
            event = msgspec.json.decode(line, type=dict[str, Any])
            if event.get("process") == "nemesis" and event["type"] in seen:
                seen[event["type"]].add(event["fault_id"])
    return len(seen["ok"]), len(seen["invoke"])
