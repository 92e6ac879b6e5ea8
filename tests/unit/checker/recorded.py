"""What the checker says of drawn and of golden histories, and of edited texts, for `test_recorded_verdicts`.

`python -m tests.unit.checker.recorded` writes it down anew: after a change of the checker that is meant, and
after a look at `git diff`, where each history is a line.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from checker.check import check
from checker.errors import HistoryError
from checker.explanations import explain, explanations
from checker.formats import FORMATS, load, save
from checker.formats.text import Text
from checker.history.history import History
from checker.live.command import follow
from checker.verdict import Finding, Severity, Verdict
from tests.unit.checker.drawn import FAMILIES, story
from tests.unit.checker.drawn_grid import FAMILIES as GRID_FAMILIES
from tests.unit.checker.drawn_grid import grid_story

COUNT = 24 * len(FAMILIES)
FILES = 400
GRID = 25 * len(GRID_FAMILIES)
WORD = re.compile(rb'"[^"]*"|[:\w.-]+|\s+|.', re.DOTALL)
OTHERS = (
    b"",
    b"nil",
    b"null",
    b"-1",
    b"1.5",
    b"true",
    b"9" * 20,
    b"7",
    b'"x"',
    b'"ok"',
    b"[1 2]",
    b"[1,2]",
    b"{}",
    b"}",
)
LOG = b"".join(
    b"INFO  jepsen.util - %d\t:invoke\t:%s\t%s\nINFO  jepsen.util - %d\t:%s\t:%s\t%s\n"
    % (process, f, asked, process, kind, f, answered)
    for process, f, asked, kind, answered in (
        (0, b"read", b"nil", b"ok", b"nil"),
        (1, b"write", b"3", b"ok", b"3"),
        (2, b"cas", b"[3 4]", b"fail", b"[3 4]"),
        (0, b"read", b"nil", b"info", b":timed-out"),
        (3, b"cas", b"[3 1]", b"ok", b"[3 1]"),
        (1, b"read", b"nil", b"ok", b"1"),
    )
)
"""A log as Jepsen writes it."""
GOLDEN = Path(__file__).resolve().parents[2] / "golden"
CASES = sorted(path.name.removesuffix(".jsonl") for path in GOLDEN.glob("*.jsonl"))
RECORD = Path(__file__).with_name("recorded_verdicts")


def numbers(finding: Finding) -> dict[str, Any]:
    """A finding without its sentences."""
    found = finding.to_dict()
    for name in ("why", "headline", "evidence", "broken_assumption", "property"):
        del found[name]
    found["broken"] = finding.broken_assumption is not None
    if finding.cause is not None:
        found["cause"] = {k: v for k, v in finding.cause.to_dict().items() if k != "text"}
    return {name: value for name, value in found.items() if value or name == "name"}


def condensed(verdict: Verdict) -> dict[str, Any]:
    """A verdict without its sentences."""
    return {
        "outcomes": {str(name): str(p.outcome) for name, p in verdict.properties.items()},
        "findings": [numbers(finding) for finding in verdict.findings],
        "doubts": [len(verdict.unknown_reasons), len(verdict.remarks)],
    }


def said(history: History) -> dict[str, Any]:
    """What is recorded of a history: its verdict, the size of each witness, what was found while it grew."""
    try:
        verdict = check(history)
    except HistoryError as error:
        return {"refused": str(error.field)}
    firsts = {finding.name: finding for finding in reversed(verdict.findings)}
    sizes = {
        name: explain(history, finding).size
        for name, finding in firsts.items()
        if finding.severity is not Severity.INFORMATION
    }
    said: dict[str, Any] = condensed(verdict) | {"witnesses": sizes}
    return json.loads(json.dumps(said))  # type: ignore[no-any-return]


def followed(text: bytes, *, as_json: bool) -> list[str]:
    """What the live form prints of a history that is whole."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as place, redirect_stdout(out):
        file = Path(place, "history.jsonl")
        file.write_bytes(text)
        follow(str(file), as_json=as_json)
        return out.getvalue().replace(str(file), "FILE").splitlines()


def live_said(text: bytes) -> dict[str, Any]:
    """What is recorded of the live form: after which event it told what, and how it ended."""
    *told, ending = map(json.loads, followed(text, as_json=True))
    found = [[line["event"], *(line["finding"][n] for n in ("name", "key", "witnesses"))] for line in told]
    return {"found": found, "outcomes": ending["properties"], "doubts": ending["unknown_reasons"]}


def drawn_line(number: int) -> dict[str, Any]:
    """What is recorded of a drawn history."""
    made = story(number)
    line = {"history": number} | said(made.history())
    return line if "refused" in line else line | {"live": live_said(made.text())}


def grid_line(number: int) -> dict[str, Any]:
    """What is recorded of a history on a grid: why each property is what it is as well."""
    history = grid_story(number).history()
    line = {"history": f"grid {number}"} | said(history)
    if "refused" in line:
        return line
    return line | {"why": {str(p.property): p.why for p in check(history).properties.values()}}


def golden_line(case: str) -> dict[str, Any]:
    """What is recorded of a golden history: every sentence as well."""
    history = load(GOLDEN / f"{case}.jsonl")
    verdict = check(history)
    told = [line for one in explanations(history, verdict) for line in one.lines()]
    live = followed((GOLDEN / f"{case}.jsonl").read_bytes(), as_json=False)
    line = {"history": case, "verdict": verdict.to_dict(), "explained": told, "live": live}
    return json.loads(json.dumps(line))  # type: ignore[no-any-return]


def _texts(number: int) -> tuple[str, bytes]:
    """The name of a format, and a text in it that is whole or lacks its ends."""
    name = ("jsonl", "jsonl", "edn", "jepsen-log")[number % 4]
    if name == "jepsen-log":
        return name, LOG
    text = story(number).text()
    if name == "edn":
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "history.edn")
            save(story(number).history(), file)
            return name, file.read_bytes()
    lines = text.splitlines(keepends=True)
    return name, b"".join(lines[1:-1] if number % 3 == 0 else lines[:-1] if number % 3 == 1 else lines)


def edited(number: int) -> tuple[str, bytes]:
    """A text in which one or two words are others."""
    random = Random(number)
    name, text = _texts(number)
    words = WORD.findall(text)
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(words))
        words[at] = random.choice((*OTHERS, random.choice(words), random.choice(words)))
    return name, b"".join(words)


def file_line(number: int) -> dict[str, Any]:
    """What is recorded of an edited text: the error that it is, or what is read from it."""
    name, text = edited(number)
    line: dict[str, Any] = {"history": f"edited {number}"}
    try:
        history = import_module(FORMATS[name].module).read(Text(data=text))
    except HistoryError as error:
        return line | {"error": str(error)}
    counts = [len(history.ops), len(history.others), len(history.faults), len(history.stalls)]
    return line | {"counts": counts, "complete": str(history.complete), "problems": list(history.problems)}


RECORDED: Mapping[str, tuple[Callable[[Any], dict[str, Any]], Sequence[int | str]]] = {
    "drawn": (drawn_line, range(COUNT)),
    "grid": (grid_line, range(GRID)),
    "golden": (golden_line, CASES),
    "edited": (file_line, range(FILES)),
}
"""The files of the record: what makes a line of each, and of which histories."""


def read() -> dict[int | str, dict[str, Any]]:
    """The record, by number or name of the history."""
    files = [(RECORD / f"{name}.jsonl").read_text(encoding="utf-8") for name in RECORDED]
    return {line["history"]: line for text in files for line in map(json.loads, text.splitlines())}


def write() -> None:
    """Replace the record."""
    for name, (line, which) in RECORDED.items():
        lines = (json.dumps(line(one), ensure_ascii=False, separators=(",", ":")) + "\n" for one in which)
        (RECORD / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write()
