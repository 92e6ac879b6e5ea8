"""An examination as JUnit XML: a test case for each cause that was found, and for each part tried."""

from __future__ import annotations

from collections import Counter
from io import BytesIO

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from lab.batch.junit import xml_text
from lab.examine.answer.words import DefectWords, defect_words, directed, headline, part_rows
from lab.examine.result import Defect, Examined


def junit(examined: Examined) -> bytes:
    """The document: a defect is a failure, a part that was tried a pass; one that is not tried is left out.

    An examination that was not run to its end has an error beside them: it is no pass.
    """
    of = xml_text(f"lab test.{examined.lock}")
    suite = TestSuite(xml_text(f"lab test {examined.lock}"))
    times: Counter[str] = Counter()
    for number, defect in enumerate(examined.bugs, 1):
        times[defect.cause] += 1
        words = defect_words(defect, examined.reference, examined.consequences(number))
        suite.add_testcase(_failed(of, defect, words, times[defect.cause]))
    for name, tried, about in part_rows(examined):
        case = TestCase(xml_text(name), of, 0)
        case.system_out = xml_text(f"{tried}: {about}")
        suite.add_testcase(case)
    if examined.why_unknown:
        case = TestCase("examination", of, 0)
        case.result = Error(xml_text(f"{headline(examined)}. {directed(examined)}"), "unknown")
        suite.add_testcase(case)
    document = JUnitXml(xml_text(f"lab test {examined.lock}"))
    document.add_testsuite(suite)
    document.update_statistics()
    written = BytesIO()
    document.write(written, pretty=True)
    return written.getvalue()


def _failed(of: str, defect: Defect, words: DefectWords, time: int) -> TestCase:
    case = TestCase(xml_text(defect.cause if time == 1 else f"{defect.cause} {time}"), of, 0)
    failure = Failure(xml_text(words.title), "defect")
    lines = [words.seen, *words.code, words.leads_to, *words.evidence]
    lines += [words.assumptions]
    lines += [f"also seen as: {each}" for each in words.also_seen]
    lines += [f"reproduced {words.reproduced}", words.reference]
    lines += [f"how it is done right: {words.right}", *words.schedule, words.kept]
    lines += [words.confirmed, words.replay]
    failure.text = xml_text("\n".join(line for line in lines if line))
    case.result = failure
    return case
