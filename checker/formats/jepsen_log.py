"""Jepsen's log lines, as the published etcd histories have them.

    INFO  jepsen.util - 4   :invoke :cas    [3 0]
    INFO  jepsen.util - 4   :fail   :cas    [3 0]

A line names process, type, f and value, apart by tabs or spaces; lines of another form are remarks of other
parts of the program. There are no times: the line number stands for it. The register of these logs starts
absent and reads of an absent key say so, so the history opens with a write of `nil`. A refused
compare-and-set repeats what it compared; then its error is `mismatch`. Any other failure (`:timed-out`) had
no effect and saw nothing.
"""

from __future__ import annotations

import re
from typing import Any, Final

from checker.errors import HistoryError
from checker.formats.edn import event_of, forms
from checker.formats.text import Text
from checker.history.completeness import Completeness
from checker.history.events import Event
from checker.history.history import History

ABSENT: Final = "nil"
MISMATCH: Final = "mismatch"
START: Final = "start"  # the process that writes the first value

LINE_NS: Final = 1_000_000_000  # a line counts as a second, so that `43.00 s` is line 43

_LINE: Final = re.compile(
    r"(?:.*?\s)?(?P<process>:?[\w/-]+)\s+:(?P<type>invoke|ok|fail|info)\s+:(?P<f>[\w/-]+)(?:\s+(?P<value>.*))?"
)
_ALMOST: Final = re.compile(r"\s:(?:invoke|ok|fail|info)\b")


def read(text: Text) -> History:
    """A history from a log; raises as `parse`, and for bytes that are no UTF-8."""
    return parse(text.decoded())


def parse(text: str) -> History:
    """A history from the text of a log. Nothing in it says whether it is complete.

    Raises:
        HistoryError: no operation in the log, or one that cannot be read, with its line.
    """
    events: list[Event] = []
    lines: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            if _ALMOST.search(line):
                raise HistoryError(f"saw {line!r}, expected 'process :type :f value'", line=number)
            continue
        events.append(_event(found, len(events), number))
        lines.append(number)
    if not events:
        raise HistoryError(
            "no operation found, expected lines like 'INFO  jepsen.util - 0 :invoke :read nil'"
        )
    if any(event.f in ("read", "write", "cas") for event in events):
        events = [*_first_write(), *events]
        lines = [1, 1, *lines]
    try:
        return History.from_events(events, has_header=False, complete=Completeness.NOT_KNOWN)
    except HistoryError as error:
        position = re.search(r"\(event (\d+)\)", error.problem)
        raise error.at(line=lines[int(position[1])] if position else None) from None


def _event(found: re.Match[str], position: int, line: int) -> Event:
    try:
        values = [value for _, value in forms("{:v " + (found["value"] or "nil") + "}")]
        value: Any = values[0]["v"]
    except HistoryError:
        problem = f"saw {found['value']!r}, expected nil, a number, a keyword or a pair [old new]"
        raise HistoryError(problem, line=line, field="value") from None
    kind, f = found["type"], found["f"]
    form = {"process": found["process"].lstrip(":"), "type": kind, "f": f, "time": line * LINE_NS}
    if kind in ("ok", "invoke") or isinstance(value, tuple):
        form["value"] = ABSENT if value is None and kind == "ok" and f == "read" else value
        if kind == "fail" and f == "cas":
            form["error"] = MISMATCH
    else:
        form["error"] = value
    return event_of(form, position, line)


def _first_write() -> list[Event]:
    return [Event(time_ns=0, process=START, type=kind, f="write", value=ABSENT) for kind in ("invoke", "ok")]
