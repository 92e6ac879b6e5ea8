"""JSON Lines: a header with the assumptions, one event per line, a footer with the number of events.

The footer is how a reader knows that the record is whole. A line cut short at the very end is what a crash
leaves behind: it is noted and makes every `ok` unknown. Any other damage is an error that names its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from checker.errors import UNREADABLE, HistoryError
from checker.events import FORMAT_VERSION, Event, Footer, ForeignEvent, Header, Params
from checker.formats.chunks import chunk_of, merge, read_chunks
from checker.history import History, require_64_bits
from checker.pairing import pair

_TAIL_BYTES: Final = 1 << 20


def load(path: Path) -> History:
    """Read a history from a file.

    Raises:
        HistoryError: damage, with line and field.
    """
    with path.open("rb") as file:
        header, start = _header(file.readline())
        size = file.seek(0, 2)
        end, footer, problems = _tail(file, start, size, header is not None)
    try:
        chunks = read_chunks(path, start, end, foreign=header is None)
        columns, others, total = merge(chunks)
        ops = pair(columns)
        require_64_bits(others)
    except (*UNREADABLE, HistoryError) as error:
        raise _located(path, start, end, header is None, error) from None
    if footer is not None and footer.events != total:
        problems.append(f"the footer counts {footer.events} events, the file holds {total}")
    times = [columns.time_ns] if len(columns) else []
    times.append(np.array([e.time_ns for _, e in others], np.int64))
    history = History(
        ops=ops,
        params=header.params if header else Params(),
        problems=tuple(problems),
        start_ns=_first_time(columns.index, columns.time_ns, others),
        end_ns=max((int(t.max()) for t in times if t.size), default=0),
        has_header=header is not None,
        source=lambda: read_events(path, start, end, foreign=header is None),
    )
    return history.with_others(others)


def save(history: History, path: Path) -> None:
    """Write a history with header and footer; what was truncated stays without a footer."""
    with path.open("wb") as file:
        file.write(header_line(history.params))
        count = 0
        for count, event in enumerate(history.events(), 1):
            file.write(event_line(event, count - 1))
        if not history.problems:
            file.write(footer_line(count))


def header_line(params: Params) -> bytes:
    """The first line of a history."""
    kept = {k: v for k, v in msgspec.to_builtins(params).items() if v not in (None, [])}
    return msgspec.json.encode({"history": FORMAT_VERSION, "params": kept}) + b"\n"


def event_line(event: Event, index: int) -> bytes:
    """One event as a line, stamped with its position."""
    return msgspec.json.encode(msgspec.structs.replace(event, index=index)) + b"\n"


def footer_line(events: int) -> bytes:
    """The last line of a history that is whole."""
    return msgspec.json.encode({"end": True, "events": events}) + b"\n"


def parse(text: str | bytes) -> History:
    """A history from text in memory; the same rules as `load`.

    Raises:
        HistoryError: damage, with line and field.
    """
    data = text.encode() if isinstance(text, str) else text
    lines = data.splitlines()
    header, _ = _header(lines[0] if lines else b"")
    body = lines[1:] if header else lines
    problems: list[str] = []
    body, footer = _without_tail(body, header is not None, problems)
    events = list(_decoded(body, 2 if header else 1, header is None))
    merge([chunk_of([events])])
    if footer is not None and footer.events != len(events):
        problems.append(f"the footer counts {footer.events} events, the text holds {len(events)}")
    return History.from_events(
        events,
        header.params if header else Params(),
        problems=problems,
        has_header=header is not None,
    )


def read_events(path: Path, start: int, end: int, *, foreign: bool) -> Sequence[Event]:
    """The raw events of a byte range of a file."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read(end - start)
    events: list[Event] = msgspec.json.Decoder(ForeignEvent if foreign else Event).decode_lines(data)
    return events


def _header(line: bytes) -> tuple[Header | None, int]:
    if not line.lstrip().startswith(b'{"history"'):
        return None, 0
    try:
        header = msgspec.json.decode(line, type=Header)
    except UNREADABLE as error:
        raise _explained(error, line, Params).at(line=1) from None
    if header.history != FORMAT_VERSION:
        raise HistoryError(
            f"saw version {header.history}, expected {FORMAT_VERSION}", line=1, field="history"
        )
    return header, len(line)


def _tail(file: Any, start: int, size: int, has_header: bool) -> tuple[int, Footer | None, list[str]]:
    """Where the events end, the footer, and the problems that the end of the file shows."""
    at = max(start, size - _TAIL_BYTES)
    file.seek(at)
    data = file.read()
    while b"\n" not in data.rstrip() and at > start:
        at = max(start, at - _TAIL_BYTES)
        file.seek(at)
        data = file.read()
    data = data.rstrip()
    cut = data.rfind(b"\n") + 1
    problems: list[str] = []
    kept, footer = _without_tail([data[cut:]] if data else [], has_header, problems)
    return (at + len(data) if kept else at + cut), footer, problems


def _without_tail(
    lines: list[bytes], has_header: bool, problems: list[str]
) -> tuple[list[bytes], Footer | None]:
    """Take the footer, or a line that was cut short, off the end."""
    if lines:
        try:
            last = msgspec.json.decode(lines[-1])
        except UNREADABLE:
            problems.append("the history is truncated: its last line is incomplete")
            return lines[:-1], None
        if isinstance(last, dict) and "end" in last and "time_ns" not in last:
            try:
                return lines[:-1], msgspec.convert(last, Footer)
            except msgspec.ValidationError as error:
                raise _explained(error, lines[-1], Footer) from None
    if has_header:
        problems.append("the history is truncated: it has a header but no footer")
    return lines, None


def _first_time(index: np.ndarray, times: np.ndarray, others: Sequence[tuple[int, Event]]) -> int:
    if index.size and (not others or index[0] < others[0][0]):
        return int(times[0])
    return others[0][1].time_ns if others else 0


def _decoded(lines: Iterable[bytes], first: int, foreign: bool) -> Iterator[Event]:
    decoder = msgspec.json.Decoder(ForeignEvent if foreign else Event)
    for number, line in enumerate(lines, first):
        try:
            yield decoder.decode(line)
        except UNREADABLE as error:
            raise _explained(error, line, Event).at(line=number) from None


def _located(path: Path, start: int, end: int, foreign: bool, error: Exception) -> HistoryError:
    """The same error with the line on which it is: decode again, line by line."""
    first = 2 if start else 1
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        for _ in _decoded(data.splitlines(), first, foreign):
            pass
    except HistoryError as found:
        return found
    if isinstance(error, HistoryError):
        position = re.search(r"\(event (\d+)\)", error.problem)
        return error.at(line=first + int(position[1])) if position else error
    return HistoryError(str(error))


def _explained(error: Exception, line: bytes, struct: type[msgspec.Struct]) -> HistoryError:
    """A decoder's message as: which field, what was seen, what was expected, what to do."""
    text = str(error)
    names = [f.name for f in msgspec.structs.fields(struct)]
    if unknown := re.search(r"unknown field `(\w+)`", text):
        from difflib import get_close_matches

        near = get_close_matches(unknown[1], names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known fields: {', '.join(names)}"
        return HistoryError("no such field", field=unknown[1], hint=hint)
    if missing := re.search(r"missing required field `(\w+)`", text):
        return HistoryError("missing", field=missing[1], hint=f"saw {_shortened(line)}")
    if not isinstance(error, msgspec.ValidationError):
        return HistoryError(
            f"saw {_shortened(line)}, expected one JSON object per line ({text})",
            hint="only the last line of a history may be incomplete",
        )
    path = re.search(r" - at `\$\.?([^`]*)`", text)
    field = path[1] if path else None
    seen = _seen(line, field)
    what = text.split(" - at ")[0]
    return HistoryError(f"saw {seen}: {what[:1].lower() + what[1:]}", field=field, hint=_expected(field))


def _expected(field: str | None) -> str | None:
    if field == "type":
        return "type is one of invoke, ok, fail, info"
    if field == "params.model":
        from typing import get_args

        from checker.events import Model

        return f"model is one of {', '.join(get_args(Model))}"
    return None


def _seen(line: bytes, field: str | None) -> str:
    try:
        value = msgspec.json.decode(line)
        for part in (field or "").split("."):
            value = value[part] if part else value
    except (*UNREADABLE, KeyError, TypeError, IndexError):
        return _shortened(line)
    return _shortened(msgspec.json.encode(value))


def _shortened(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= 60 else text[:57] + "..."
