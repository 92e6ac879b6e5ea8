"""What a suite came to: each entry with its runs; kept on disk, so that the next one can go on from there."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lab.batch.suite.load import Entry, LoadedSuite
from lab.batch.verdicts import OneRun
from lab.errors import ExitCode
from lab.search.tally import Interval, wilson


class EntryResult(msgspec.Struct, frozen=True):
    """One entry and the runs of it that ended."""

    id: str
    scenario: str
    lock: str
    on: str
    wanted: int
    runs: tuple[OneRun, ...] = ()
    label: str = ""

    @classmethod
    def of(cls, entry: Entry, runs: Iterable[OneRun] = ()) -> EntryResult:
        """The result of an entry."""
        return cls(
            entry.id, entry.scenario, entry.lock, entry.on, entry.repeat, tuple(runs), label=entry.label
        )

    @property
    def as_expected(self) -> int:
        """How many of its runs came out as expected."""
        return sum(run.as_expected for run in self.runs)

    @property
    def rate(self) -> Interval:
        """Between which rates of runs that come out as expected lies the true one, with 95 % confidence."""
        return wilson(self.as_expected, len(self.runs))

    @property
    def exit_code(self) -> ExitCode:
        """0 only if all runs that were wanted ended as expected; what came out wrong weighs most."""
        codes = {run.exit_code for run in self.runs}
        if ExitCode.UNEXPECTED in codes:
            return ExitCode.UNEXPECTED
        complete = len(self.runs) == self.wanted and codes == {ExitCode.EXPECTED}
        return ExitCode.EXPECTED if complete else ExitCode.UNKNOWN

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why its runs did not come out as expected."""
        return tuple(dict.fromkeys(reason for run in self.runs for reason in run.reasons))


class SuiteResult(msgspec.Struct, frozen=True):
    """A suite that ended. ``seconds`` is how long all of it took."""

    name: str
    title: str
    entries: tuple[EntryResult, ...]
    seconds: float

    @property
    def exit_code(self) -> ExitCode:
        """0 only if everything came out as expected; nothing at all is unknown."""
        codes = {entry.exit_code for entry in self.entries}
        if ExitCode.UNEXPECTED in codes:
            return ExitCode.UNEXPECTED
        return ExitCode.EXPECTED if codes == {ExitCode.EXPECTED} else ExitCode.UNKNOWN

    def count(self, code: ExitCode) -> int:
        """How many entries ended with this code."""
        return sum(entry.exit_code == code for entry in self.entries)

    def to_json(self) -> bytes:
        """All of it as JSON."""
        entries: list[dict[str, Any]] = [
            {
                **msgspec.to_builtins(entry),
                "exit_code": int(entry.exit_code),
                "as_expected": entry.as_expected,
                "wilson_95": [entry.rate.low, entry.rate.high],
            }
            for entry in self.entries
        ]
        told = {
            "suite": self.name,
            "title": self.title,
            "exit_code": int(self.exit_code),
            "seconds": self.seconds,
            "entries": entries,
        }
        return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"


class _Kept(msgspec.Struct):
    """Entry → the exit code with which it ended last."""

    last: dict[str, int]


def _kept_file(out: Path, suite: LoadedSuite) -> Path:
    return out / f"suite-{suite.name}.json"


def last_codes(out: Path, suite: LoadedSuite) -> dict[str, int]:
    """How each entry of this suite ended last; nothing is known of those that are not in it."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(_kept_file(out, suite).read_bytes(), type=_Kept).last
    return {}


def keep_codes(out: Path, suite: LoadedSuite, results: Iterable[EntryResult]) -> None:
    """Remember how these entries ended, beside what is known of the others.

    Raises:
        OSError: it cannot be written; what was known before is kept.
    """
    file = _kept_file(out, suite)
    file.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(file.parent):
        known = last_codes(out, suite) | {entry.id: int(entry.exit_code) for entry in results}
        scratch = file.with_suffix(".tmp")
        try:
            scratch.write_bytes(msgspec.json.encode(_Kept(known)) + b"\n")
            scratch.replace(file)
        finally:
            scratch.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Wait for suites beside this one that write here as well; none of what they keep is lost."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)
