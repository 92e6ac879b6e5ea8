"""A suite's results as JUnit XML, which every CI can show: a test case for each run."""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree

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
    root = ElementTree.Element("testsuites", name=_xml(result.name))
    groups: dict[str, list[EntryResult]] = {}
    for entry in result.entries:
        groups.setdefault(entry.on, []).append(entry)
    for on, entries in groups.items():
        cases = [case for entry in entries for case in _cases(result, entry)]
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(f"{result.name} on {on}"))
        suite.extend(cases)
        _count(suite, cases)
    _count(root, list(root.iter("testcase")))
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _cases(result: SuiteResult, entry: EntryResult) -> list[ElementTree.Element]:
    cases = [
        _case(result, entry, run, f" #{at}" if entry.wanted > 1 else "")
        for at, run in enumerate(entry.runs, start=1)
    ]
    if len(entry.runs) < entry.wanted:
        case = ElementTree.Element(
            "testcase", classname=_xml(f"{result.name}.{entry.on}"), name=_xml(entry.id), time="0"
        )
        missing = entry.wanted - len(entry.runs)
        ElementTree.SubElement(case, "error", type="unknown", message=f"{missing} runs did not take place")
        cases.append(case)
    return cases


def _case(result: SuiteResult, entry: EntryResult, run: OneRun, number: str) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=_xml(f"{result.name}.{entry.on}"),
        name=_xml(entry.id + number),
        time=f"{run.wall_s:.3f}",
    )
    if not run.as_expected:
        wrong = run.exit_code == ExitCode.UNEXPECTED
        told = _xml("; ".join(run.reasons) or f"exit code {run.exit_code}")
        problem = ElementTree.SubElement(
            case,
            "failure" if wrong else "error",
            type="not as expected" if wrong else "unknown",
            message=told,
        )
        problem.text = _xml("\n".join([*run.reasons, f"repeat: {run.repeat}"]))
    out = [f"{name}: {outcome}" for name, outcome in run.outcomes.items()]
    out += [f"findings: {', '.join(run.findings)}"] if run.findings else []
    out += [f"faults with receipts: {run.receipts} of {run.faults}", f"repeat: {run.repeat}"]
    ElementTree.SubElement(case, "system-out").text = _xml("\n".join(out))
    return case


def _count(element: ElementTree.Element, cases: list[ElementTree.Element]) -> None:
    element.set("tests", str(len(cases)))
    for kind, name in (("failures", "failure"), ("errors", "error")):
        element.set(kind, str(sum(case.find(name) is not None for case in cases)))
    element.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
