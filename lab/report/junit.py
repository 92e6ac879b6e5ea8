"""A suite's results as JUnit XML, which every CI can show: a test case for each run."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Final

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from lab.batch.suite.results import EntryResult, SuiteResult
from lab.batch.verdicts import OneRun
from lab.errors import ExitCode

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even escaped."""


def junit(result: SuiteResult) -> bytes:
    """The document.

    A run that came out wrong is a failure; one that is unknown, or never came to its end, is an error: never
    a pass, and never skipped.
    """
    suites: dict[str, TestSuite] = {}
    for entry in result.entries:
        suite = suites.setdefault(entry.on, TestSuite(_xml(f"{result.name} on {entry.on}")))
        suite.add_testcases(_cases(result, entry))
    document = JUnitXml(_xml(result.name))
    document.extend(suites.values())
    document.update_statistics()
    written = BytesIO()
    document.write(written, pretty=True)
    return written.getvalue()


def _cases(result: SuiteResult, entry: EntryResult) -> list[TestCase]:
    place = _xml(f"{result.name}.{entry.on}")
    cases = []
    for at, run in enumerate(entry.runs, start=1):
        case = TestCase(_xml(entry.id + (f" #{at}" if entry.wanted > 1 else "")), place, round(run.wall_s, 3))
        if not run.as_expected:
            told = _xml("; ".join(run.reasons) or f"exit code {run.exit_code}")
            wrong = run.exit_code == ExitCode.UNEXPECTED
            case.result = Failure(told, "not as expected") if wrong else Error(told, "unknown")
            case.result[0].text = _xml("\n".join([*run.reasons, f"repeat: {run.repeat}"]))
        case.system_out = _told(run)
        cases.append(case)
    if len(entry.runs) < entry.wanted:
        cases.append(TestCase(_xml(entry.id), place, 0))
        cases[-1].result = Error(f"{entry.wanted - len(entry.runs)} runs did not take place", "unknown")
    return cases


def _told(run: OneRun) -> str:
    out = [f"{name}: {outcome}" for name, outcome in run.outcomes.items()]
    out += [f"findings: {', '.join(run.findings)}"] if run.findings else []
    out += [f"faults with receipts: {run.receipts} of {run.faults}", f"repeat: {run.repeat}"]
    return _xml("\n".join(out))


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
