"""``lab suite``, between its arguments and its exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.batch.suite.load import DEFAULT, Entry, load_suite
from lab.batch.suite.results import SuiteResult, keep_codes, last_codes
from lab.batch.suite.run import complete, only, repeated, result_of, run_suite, shard, since_failure
from lab.batch.verdicts import OneRun, own_directory
from lab.errors import ExitCode
from lab.paths import writable_file
from lab.report.consoles import consoles
from lab.report.junit import junit
from lab.report.suite import print_suite, suite_markdown, suite_progress
from lab.substrates.execute import Interrupted, execute

SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Names the file to which the Markdown summary is appended, where GitHub runs the suite."""


@dataclass(frozen=True)
class Asked:
    """The arguments of ``lab suite``, as they were given."""

    file: Path | None
    only: tuple[str, ...]
    shard: str | None
    since_failure: bool
    repeat: int
    jobs: int
    out: Path
    junit: Path | None
    markdown: Path | None


def suite_command(asked: Asked, *, as_json: bool) -> int:
    """0: all as expected; 1: not; 3: something is unknown; 130: interrupted.

    Raises:
        LabError: the suite's file or an argument is wrong (exit code 2), or a report cannot be written.
    """
    data, talk = consoles()
    suite = load_suite(asked.file)
    entries = only(suite.entries, asked.only)
    if asked.shard is not None:
        entries = shard(entries, asked.shard)
    if asked.since_failure:
        entries = since_failure(entries, last_codes(asked.out, suite))
    entries = repeated(entries, asked.repeat)
    for report in (asked.junit, asked.markdown):
        writable_file(report)
    runs = sum(entry.repeat for entry in entries)
    talk.print(f"{suite.name}: {suite.title}", style="bold", markup=False)
    talk.print(f"{len(entries)} of {len(suite.entries)} entries, {runs} runs", style="dim", markup=False)
    began_s = time.monotonic()
    ended: list[tuple[Entry, OneRun]] = []
    interrupted = False
    try:
        with suite_progress(talk, entries) as (on_start, tell):

            def on_end(entry: Entry, run: OneRun) -> None:
                tell(entry, run)
                with contextlib.suppress(OSError):  # it is tried again in the end, and told
                    keep_codes(asked.out, suite, complete(ended, entry))

            work = run_suite(
                suite,
                entries,
                own_directory(asked.out, "suite"),
                jobs=asked.jobs,
                ended=ended,
                on_start=on_start,
                on_end=on_end,
            )
            execute(work)
    except Interrupted:
        interrupted = True
        talk.print("interrupted: what was running was stopped, what had ended is kept", style="yellow")
    result = result_of(suite, entries, ended, began_s)
    if as_json:
        sys.stdout.buffer.write(result.to_json())
        sys.stdout.buffer.flush()
    else:
        print_suite(data, result)
    for run in (run for entry in result.entries for run in entry.runs if not run.as_expected):
        talk.print(f"repeat: {run.repeat}", markup=False)
    _report(asked, result)
    keep_codes(asked.out, suite, (entry for entry in result.entries if entry.runs))
    return ExitCode.INTERRUPTED if interrupted else result.exit_code


def show_command() -> int:
    """``lab suite --show``."""
    sys.stdout.write(DEFAULT.read_text(encoding="utf-8"))
    return ExitCode.EXPECTED


def _report(asked: Asked, result: SuiteResult) -> None:
    """Write the files that were asked for, and what GitHub shows."""
    if asked.junit is not None:
        asked.junit.write_bytes(junit(result))
    if asked.markdown is not None:
        asked.markdown.write_text(suite_markdown(result), encoding="utf-8")
    summary = os.environ.get(SUMMARY_VARIABLE)
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(suite_markdown(result) + "\n")
