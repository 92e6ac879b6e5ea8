"""Jepsen's lines: those of its log, and of its `history.txt`.

    INFO  jepsen.util - 4   :invoke :cas    [3 0]
    4   :fail   :read   nil     Connection refused

A line names process, type, f and value, apart by tabs or spaces, then the error, if there is one, after a
tab; lines of another form are remarks of other parts of the program. There are no times: the line number
stands for it.

What a read of `nil` and a compare-and-set that failed without an error say depends on the client: that the
key is absent, that it held another value, or nothing (`checker.linearizability.check`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from checker.errors import HistoryError
from checker.formats.edn import first_form, foreign_history
from checker.formats.foreign import AS_IT_IS, Reading
from checker.formats.text import Text
from checker.history.events import NEMESIS, SUPPOSED_MISMATCH
from checker.history.history import History

LINE_NS: Final = 1_000_000_000  # a line counts as a second, so that `43.00 s` is line 43

_PROCESS: Final = r"(?:.*?\s)?(?P<process>-?\d+|:?nemesis|[A-Za-z][\w/-]*)"
_LINE: Final = re.compile(
    _PROCESS + r"\s+:(?P<type>invoke|ok|fail|info)\s+:(?P<f>[\w/-]+)(?:\s+(?P<value>.*))?"
)
_ALMOST: Final = re.compile(r"(?![\s{\[(#])(?!.*:type\s).*\s:(?:invoke|ok|fail|info)\b.*")
"""A line with the type of an operation that is no part of a map, which may be printed over several lines."""


def read(text: Text, reading: Reading = AS_IT_IS) -> History:
    """A history from a log; raises as `parse`, and for bytes that are no UTF-8."""
    return parse(text.decoded(), reading)


def parse(text: str, reading: Reading = AS_IT_IS) -> History:
    """A history from the text of a log. Nothing in it says whether it is complete.

    Raises:
        HistoryError: no operation in the log, or one that cannot be read, with its line.
    """
    history = foreign_history(_forms, text, reading)
    if not history.events():
        raise HistoryError(
            "no operation found, expected lines like 'INFO  jepsen.util - 0 :invoke :read nil'",
            hint="Jepsen keeps the operations of a run in its history.edn and history.txt as well",
        )
    return history


def _forms(text: str, _problems: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line.rstrip())
        if found is not None:
            yield number, _form(found, number)
        elif _ALMOST.fullmatch(line):
            raise HistoryError(f"saw {line!r}, expected 'process :type :f value'", line=number)


def _form(found: re.Match[str], line: int) -> dict[str, Any]:
    """The operation of a line as a map."""
    kind, f, process = found["type"], found["f"], found["process"].lstrip(":")
    written, _, error = (found["value"] or "nil").partition("\t")
    try:
        value, rest = first_form(written)
        if rest.strip():
            raise HistoryError("more than one form")
    except HistoryError:
        if process != NEMESIS:
            problem = f"saw {found['value']!r}, expected nil, a number, a keyword or a pair [old new]"
            raise HistoryError(problem, line=line, field="value") from None
        value = None
    error = error.strip()
    form = {"process": process, "type": kind, "f": f, "time": line * LINE_NS}
    if error:
        form |= {"value": value, "error": error}
    elif kind in ("ok", "invoke") or isinstance(value, tuple):
        form["value"] = value
        if kind == "fail" and f == "cas":
            form["error"] = SUPPOSED_MISMATCH
    else:
        form["error"] = value
    return form
