"""A batch as JUnit XML: a test case for each run."""

from __future__ import annotations

import re
from io import BytesIO
from typing import Final

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from lab.batch.result import Cell, Result
from lab.batch.row import Row
from lab.errors import ExitCode

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even escaped."""


def junit(result: Result) -> bytes:
    """The document.

    An unexpected result is a failure; an unknown one, or a missing run, is an error: never a pass, and never
    skipped.
    """
    name = result.plan.name
    suites: dict[str, TestSuite] = {}
    for cell in result.cells:
        suite = suites.setdefault(cell.item.on, TestSuite(xml_text(f"{name} on {cell.item.on}")))
        suite.add_testcases(_cases(xml_text(f"{name}.{cell.item.on}"), cell))
    document = JUnitXml(xml_text(name))
    document.extend(suites.values())
    document.update_statistics()
    written = BytesIO()
    document.write(written, pretty=True)
    return written.getvalue()


def _cases(of: str, cell: Cell) -> list[TestCase]:
    several = cell.item.repeat > 1
    cases = [
        _case(of, cell.item.id + (f" #{at}" if several else ""), row, cell.code_of(row))
        for at, row in enumerate(cell.rows, 1)
    ]
    if cell.missing and cell.state != "n/a":
        cases.append(TestCase(xml_text(cell.item.id), of, 0))
        cases[-1].result = Error(f"{cell.missing} runs did not take place", "unknown")
    return cases


def _case(of: str, name: str, row: Row, code: int) -> TestCase:
    case = TestCase(xml_text(name), of, round(row.wall_s, 3))
    if code != ExitCode.EXPECTED:
        why = xml_text("; ".join(row.reasons) or f"exit code {code}")
        wrong = code == ExitCode.UNEXPECTED
        case.result = Failure(why, "not as expected") if wrong else Error(why, "unknown")
        case.result[0].text = xml_text("\n".join([*row.reasons, f"repeat: {row.repeat}"]))
    out = [f"{name}: {outcome}" for name, outcome in row.outcomes.items()]
    out += [f"findings: {', '.join(row.findings)}"] if row.findings else []
    out += [f"faults with receipts: {row.receipts} of {row.faults}", f"repeat: {row.repeat}"]
    case.system_out = xml_text("\n".join(out))
    return case


def xml_text(text: str) -> str:
    """A text without the characters that no XML document may hold, not even escaped."""
    return _NOT_XML.sub("\ufffd", text)
