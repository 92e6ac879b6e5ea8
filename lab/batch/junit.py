"""A batch as JUnit XML, which every CI can show: a test case for each run."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from lab.batch.result import Cell, Result
from lab.batch.row import Row
from lab.errors import ExitCode

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may hold, not even escaped."""


def junit(result: Result) -> bytes:
    """The document.

    A run that came out wrong is a failure; one that is unknown, or never came to its end, is an error: never
    a pass, and never skipped.
    """
    name = result.plan.name
    root = Element("testsuites", name=_xml(name))
    for on in dict.fromkeys(cell.item.on for cell in result.cells):
        of = f"{name}.{on}"
        cases = [case for cell in result.cells if cell.item.on == on for case in _cases(of, cell)]
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(f"{name} on {on}"))
        suite.extend(cases)
        _count(suite, cases)
    _count(root, list(root.iter("testcase")))
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _cases(of: str, cell: Cell) -> list[Element]:
    several = cell.item.repeat > 1
    cases = [
        _case(of, cell.item.id + (f" #{at}" if several else ""), row, cell.code_of(row))
        for at, row in enumerate(cell.rows, 1)
    ]
    if cell.missing and cell.state != "n/a":
        case = Element("testcase", classname=_xml(of), name=_xml(cell.item.id), time="0")
        message = f"{cell.missing} runs did not take place"
        ElementTree.SubElement(case, "error", type="unknown", message=message)
        cases.append(case)
    return cases


def _case(of: str, name: str, row: Row, code: int) -> Element:
    case = Element("testcase", classname=_xml(of), name=_xml(name), time=f"{row.wall_s:.3f}")
    if code != ExitCode.EXPECTED:
        wrong = code == ExitCode.UNEXPECTED
        problem = ElementTree.SubElement(
            case,
            "failure" if wrong else "error",
            type="not as expected" if wrong else "unknown",
            message=_xml("; ".join(row.reasons) or f"exit code {code}"),
        )
        problem.text = _xml("\n".join([*row.reasons, f"repeat: {row.repeat}"]))
    out = [f"{name}: {outcome}" for name, outcome in row.outcomes.items()]
    out += [f"findings: {', '.join(row.findings)}"] if row.findings else []
    out += [f"faults with receipts: {row.receipts} of {row.faults}", f"repeat: {row.repeat}"]
    ElementTree.SubElement(case, "system-out").text = _xml("\n".join(out))
    return case


def _count(element: Element, cases: list[Element]) -> None:
    element.set("tests", str(len(cases)))
    for kind, name in (("failures", "failure"), ("errors", "error")):
        element.set(kind, str(sum(case.find(name) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
