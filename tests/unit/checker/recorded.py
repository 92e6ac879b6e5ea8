"""What the checker says of drawn and of golden histories, and of edited texts, for `test_recorded_verdicts`.

`python -m tests.unit.checker.recorded` writes it down anew: after a change of the checker that is meant, and
after a look at `git diff`, where each history is a line.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch

import msgspec

from checker import check
from checker.errors import HistoryError
from checker.explanations import explain, explanations
from checker.formats import FORMATS, jsonl, load, save, scan
from checker.formats.text import Text
from checker.history.events import Event
from checker.history.history import History
from checker.live import judge, window
from checker.live.command import follow
from checker.live.judge import Judge
from checker.verdict import Finding, Property, Severity, Verdict
from tests.unit.checker.builder import HistoryBuilder
from tests.unit.checker.damaged import DAMAGED
from tests.unit.checker.drawn import FAMILIES, drawn_builder
from tests.unit.checker.drawn_causes import caused_builder
from tests.unit.checker.drawn_changed import changed_builder, numbered_builder
from tests.unit.checker.drawn_grid import FAMILIES as GRID_FAMILIES
from tests.unit.checker.drawn_grid import grid_builder
from tests.unit.checker.recorded_evidence import evidence_of

COUNT = 24 * len(FAMILIES)
FILES = 400
GRID = 25 * len(GRID_FAMILIES)
CHANGED = 260
NUMBERED = 90
DENSE, PER_LINE = 36, 50
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
MODELS = (
    "mutex",
    "owner-mutex",
    "reentrant-mutex",
    "fenced-mutex",
    "reentrant-fenced-mutex",
    "lease",
    "read-write-lock",
    "semaphore",
)
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


def digest(*things: object) -> str:
    """A few characters that stand for texts which are too long to be kept."""
    text = json.dumps(things, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def said(history: History, other_model: str) -> dict[str, Any]:
    """What is recorded of a history: verdict, size of each witness, digests of evidence and of all sentences.

    `other_model` is one that it is checked against as well, for the digest.
    """
    try:
        verdict = check(history)
    except HistoryError as error:
        return {"refused": str(error.field)}
    assert not any("the check crashed" in p.why for p in verdict.properties.values()), (
        "a defect: not for the record"
    )
    firsts = {finding.name: finding for finding in reversed(verdict.findings)}
    explained = {
        name: explain(history, finding)
        for name, finding in firsts.items()
        if finding.severity is not Severity.INFORMATION
    }
    said: dict[str, Any] = condensed(verdict)
    said["witnesses"] = {name: one.size for name, one in explained.items()}
    said["evidence"] = evidence_of(history)
    try:
        other = check(history, model=other_model)
        argued = [list(explain(history, f, other_model).lines()) for f in other.findings[:1]]
        otherwise: list[Any] = [other.to_dict(), argued]
    except HistoryError as error:
        otherwise = [str(error)]
    said["digests"] = [
        digest(verdict.to_dict(), [list(one.lines()) for one in explained.values()]),
        digest(otherwise),
    ]
    return json.loads(json.dumps(said))  # type: ignore[no-any-return]


def other_model(number: int) -> str:
    """A model for the history of this number, in turns."""
    return MODELS[number % len(MODELS)]


def followed(text: bytes, *, as_json: bool) -> list[str]:
    """What the live form prints of a history that is whole; of one that it refuses the error at the end."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as place, redirect_stdout(out), redirect_stderr(out):
        file = Path(place, "history.jsonl")
        file.write_bytes(text)
        follow([str(file)], as_json=as_json)
        return out.getvalue().replace(str(file), "FILE").splitlines()


class WatchedJudge(Judge):
    """A judge that notes after each event how much it keeps, and when it asks the offline check what."""

    log: ClassVar[list[Any]] = []

    def feed(self, event: Event) -> list[Finding]:
        found = super().feed(event)
        self.log.append((self.size(), self.granted, self.leases, self.fences, self.writes))
        return found

    def _confirm(self, property: Property, key: str | None, *more: Any, **named: Any) -> list[Finding]:
        self.log.append((property, key, named))
        return super()._confirm(property, key, *more, **named)


def watched(text: bytes, **bounds: int) -> tuple[list[str], str]:
    """What the live form prints, and a digest of that, of what it kept and of what it asked.

    `bounds` are other values for the constants of `checker.live.window` and `checker.live.judge`.
    """
    WatchedJudge.log = []
    with (
        patch("checker.live.command.Judge", WatchedJudge),
        patch.dict(vars(window), bounds),
        patch.dict(vars(judge), bounds),
    ):
        lines = followed(text, as_json=True)
    return lines, digest(lines, WatchedJudge.log)


def live_said(text: bytes) -> dict[str, Any]:
    """What is recorded of the live form: after which event it told what, and how it ended."""
    lines, whole = watched(text)
    if not lines[-1].startswith("{"):
        return {"refused": lines[-1], "digest": whole}
    *reported, ending = map(json.loads, lines)
    found = [
        [line["event"], *(line["finding"][n] for n in ("name", "key", "witnesses"))] for line in reported
    ]
    said = {"found": found, "outcomes": ending["properties"], "doubts": ending["unknown_reasons"]}
    return said | {"digest": whole}


def drawn_line(number: int) -> dict[str, Any]:
    """What is recorded of a drawn history."""
    made = drawn_builder(number)
    line = {"history": number} | said(made.history(), other_model(number))
    if "refused" in line:
        return line
    _, bounded = watched(made.text(), RELEASED_MAX=2, HELD_MAX=2, OPERATIONS_MAX=2, OTHERS_MAX=2, AGAIN_MAX=1)
    return line | {"live": live_said(made.text()), "bounded": bounded}


def grid_line(number: int) -> dict[str, Any]:
    """What is recorded of a history on a grid: why each property is what it is as well."""
    made = grid_builder(number)
    history = made.history()
    line = {"history": f"grid {number}"} | said(history, other_model(number))
    if "refused" in line:
        return line
    why = {str(p.property): p.why for p in check(history).properties.values()}
    return line | {"why": why, "live": live_said(made.text())}


def changed_line(number: int) -> dict[str, Any]:
    """What is recorded of a history with changes; of one that is refused the error."""
    return _changed(f"changed {number}", changed_builder(number), number)


def numbered_line(number: int) -> dict[str, Any]:
    """What is recorded of a history that names no client."""
    return _changed(f"numbered {number}", numbered_builder(number), number)


def _changed(title: str, made: HistoryBuilder, number: int) -> dict[str, Any]:
    line: dict[str, Any] = {"history": title}
    try:
        line |= said(made.history(), other_model(number))
    except HistoryError as error:
        line["refused"] = str(error)
    return line | {"live": live_said(made.text())}


def dense_line(number: int) -> dict[str, Any]:
    """Digests of the verdicts on many histories of one kind, none of which is in the other files."""
    draw = (caused_builder, drawn_builder, grid_builder, changed_builder, caused_builder, numbered_builder)[
        number % 6
    ]
    return {
        "history": f"dense {number}",
        "digests": [_dense(draw, 10_000 + PER_LINE * number + at) for at in range(PER_LINE)],
    }


def _dense(draw: Callable[[int], HistoryBuilder], number: int) -> str:
    """Of every third the verdict is by another model; of every fourth an argument is taken in."""
    model = None if number % 3 else other_model(number // 3)
    try:
        history = draw(number).history()
        verdict = check(history, model=model)
    except HistoryError as error:
        return digest(str(error))
    assert not any("the check crashed" in p.why for p in verdict.properties.values()), number
    reported = [f for f in verdict.findings if f.severity is not Severity.INFORMATION and number % 4 == 0]
    return digest(verdict.to_dict(), [list(explain(history, f, model).lines()) for f in reported[:1]])


def golden_line(case: str) -> dict[str, Any]:
    """What is recorded of a golden history: every sentence as well."""
    history = load(GOLDEN / f"{case}.jsonl")
    verdict = check(history)
    reported = [line for one in explanations(history, verdict) for line in one.lines()]
    live = followed((GOLDEN / f"{case}.jsonl").read_bytes(), as_json=False)
    line = {"history": case, "verdict": verdict.to_dict(), "explained": reported, "live": live}
    return json.loads(json.dumps(line))  # type: ignore[no-any-return]


def _texts(number: int) -> tuple[str, bytes]:
    """The name of a format, and a text in it that is whole or lacks its ends."""
    name = ("jsonl", "jsonl", "edn", "jepsen-log")[number % 4]
    if name == "jepsen-log":
        return name, LOG
    text = drawn_builder(number).text()
    if name == "edn":
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "history.edn")
            save(drawn_builder(number).history(), file)
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
    """What is recorded of an edited text."""
    return _read(f"edited {number}", *edited(number))


def damaged_line(number: int) -> dict[str, Any]:
    """What is recorded of a damaged text."""
    name, text = DAMAGED[number]
    return _read(f"damaged {number}", name, text.encode())


def loops(text: bytes) -> str:
    """A digest of what the loops for large files make of a text, three lines a block; `left` if nothing."""
    try:
        body = jsonl.Body(Text(data=text))
        lines = b"".join(body.blocks()).splitlines(keepends=True)
        blocks = [b"".join(lines[at : at + 3]) for at in range(0, len(lines), 3)]
        chunk = scan.Scanner(foreign=body.foreign, compiled=False).chunk(blocks)
    except (scan.NotPlain, HistoryError):
        return "left"
    columns = chunk.columns
    tables = (
        columns.codes,
        columns.numbers,
        {n: getattr(columns, n) for n in ("index", "time_ns", "type", "kind")},
    )
    arrays = [{name: [str(a.dtype), a.tolist()] for name, a in sorted(table.items())} for table in tables]
    names = {name: list(column) for name, column in columns.names.items()}
    others = [(at, msgspec.json.encode(event).decode()) for at, event in chunk.others]
    return digest(chunk.count, chunk.first, arrays, names, columns.clients, others)


def _read(title: str, name: str, text: bytes) -> dict[str, Any]:
    """The error that a text is, or what is read from it."""
    line: dict[str, Any] = {"history": title}
    if name == "jsonl":
        line["loops"] = loops(text)
    try:
        history = import_module(FORMATS[name].module).read(Text(data=text))
    except HistoryError as error:
        return line | {"error": str(error)}
    counts = [len(history.ops), len(history.others), len(history.faults), len(history.stalls)]
    return line | {"counts": counts, "complete": str(history.complete), "problems": list(history.problems)}


RECORDED: Mapping[str, tuple[Callable[[Any], dict[str, Any]], Sequence[int | str]]] = {
    "drawn": (drawn_line, range(COUNT)),
    "grid": (grid_line, range(GRID)),
    "changed": (changed_line, range(CHANGED)),
    "numbered": (numbered_line, range(NUMBERED)),
    "dense": (dense_line, range(DENSE)),
    "golden": (golden_line, CASES),
    "edited": (file_line, range(FILES)),
    "damaged": (damaged_line, range(len(DAMAGED))),
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
