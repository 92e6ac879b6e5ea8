"""JSON Lines: a header with the assumptions, one event per line, a footer with their count and digest.

The footer is how a reader knows that the record is whole. A line cut short at the very end is what a crash
leaves behind: it is noted and makes every `ok` unknown. Any other damage is an error that names its place.
A file of another tool has neither header nor footer: it is judged, and said to be of unknown completeness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from checker.errors import UNREADABLE, HistoryError
from checker.formats import chunks
from checker.formats.chunks import Chunk, merge
from checker.formats.edn import foreign_history
from checker.formats.explain import explained, located, shortened
from checker.formats.foreign import AS_IT_IS, Reading, adapted, require_foreign
from checker.formats.scan import NotPlain, Scanner, worth_it
from checker.formats.text import Lines, Text
from checker.formats.whole import whole_file
from checker.history.completeness import Completeness, compared, least, stated
from checker.history.events import FORMAT_VERSION, Event, Footer, ForeignEvent, Header, Params
from checker.history.history import History, require_range
from checker.history.pairing import pair

FOOTER_BYTES_MAX: Final = 4096
"""A longer line is no footer."""
_THREAD_BYTES: Final = 1 << 16
"""Smaller blocks are hashed sooner than handed to a thread."""


def load(path: Path) -> History:
    """Read a history from a file; raises as `read`."""
    return read(Text(path))


def parse(text: str | bytes) -> History:
    """A history from text in memory; raises as `read`."""
    return read(Text(data=text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text))


def read(text: Text, reading: Reading = AS_IT_IS) -> History:
    """A history from a text: of lines, or a JSON array of events.

    What has no header is read as plain events first, which is fast, and put into our terms
    (`checker.formats.foreign`) where that is asked for or needed.

    Raises:
        HistoryError: damage, with line and field.
    """
    if next(text.pieces(), b"").lstrip().startswith(b"["):  # no line of events does
        return _foreign(_of_array, text, reading)
    body = Body(text)
    if not body.foreign:
        require_foreign(reading)
    elif reading.stated:
        return _foreign(_of_lines, body, reading)
    try:
        return _plain(text, body)
    except Misplaced:
        raise
    except HistoryError as error:
        if not body.foreign or error.line is None:
            raise
        return _adapted(body, reading, error)


def _adapted(body: Body, reading: Reading, error: HistoryError) -> History:
    """The history in our terms; raises `error`, with which it was not read, if that changes nothing."""
    try:
        found = list(_of_lines(body, []))
    except (*UNREADABLE, HistoryError):
        raise error from None
    plain = [form for _, form in found]
    changed = any(type(form.get(name)) is int for form in plain for name in ("process", "client"))
    changed = changed or any(isinstance(form.get("value"), dict | tuple) for form in plain)
    changed = changed or any("time_ns" not in form and "time" in form for form in plain)
    if not changed and all(new is form for new, form in zip(adapted(found, reading)[0], plain, strict=True)):
        raise error
    return _foreign(_of_lines, body, reading)


def _foreign(
    forms: Callable[[Any, list[str]], Iterator[tuple[int, Any]]], source: Any, reading: Reading
) -> History:
    """The history of another tool, read as EDN is; fields have their names of JSON in errors."""
    try:
        return foreign_history(forms, source, reading)
    except HistoryError as error:
        if error.field is None or not error.field.startswith(":"):
            raise
        raise HistoryError(
            error.problem, file=error.file, line=error.line, field=error.field[1:], hint=error.hint
        ) from None


def _of_lines(body: Body, problems: list[str]) -> Iterator[tuple[int, Any]]:
    """The lines of a text as maps with their numbers; raises those of `UNREADABLE`, or `HistoryError`."""
    number = body.first_line
    for block in body.blocks():
        for line in block.removesuffix(b"\n").split(b"\n"):
            if line.strip():
                form = tupled(msgspec.json.decode(line))
                if not isinstance(form, dict):
                    raise HistoryError(f"saw {shortened(line)}, expected an object", line=number)
                yield number, form
            number += 1
    problems += body.problems


def _of_array(text: Text, _problems: list[str]) -> Iterator[tuple[int, Any]]:
    """The elements of a JSON array; of those that share a line, each has the number of that line."""
    data = text.whole()
    try:
        elements = msgspec.json.decode(data, type=list[msgspec.Raw])
    except UNREADABLE as error:
        raise HistoryError(
            f"saw {shortened(data)}, expected a JSON array of events ({error})",
            hint="get the file once more if its end is missing",
        ) from None
    at, line = 0, 1
    for element in elements:
        raw = bytes(element)
        start = data.find(raw, at)
        line, at = line + data.count(b"\n", at, start), start
        yield line, tupled(msgspec.json.decode(raw))


def tupled(value: Any) -> Any:
    """The same with tuples for lists, as a reader of EDN makes them."""
    if isinstance(value, list):
        return tuple(map(tupled, value))
    if isinstance(value, dict):
        return {name: tupled(item) for name, item in value.items()}
    return value


def _plain(text: Text, body: Body) -> History:
    """The history of lines that are events as they are; raises as `read`."""
    try:
        columns, others, total = merge(_chunks(body))
        ops = pair(columns)
        require_range(ops, others)
    except Misplaced:
        raise
    except (*UNREADABLE, HistoryError) as error:
        raise located(body.blocks(), body.first_line, body.foreign, error) from None
    complete, problems = body.compared(total)
    times = [columns.time_ns] if len(columns) else []
    times.append(np.array([e.time_ns for _, e in others], np.int64))
    history = History(
        ops=ops,
        params=body.header.params if body.header else Params(),
        problems=tuple(problems),
        start_ns=_first_time(columns.index, columns.time_ns, others),
        end_ns=max((int(t.max()) for t in times if t.size), default=0),
        has_header=body.header is not None,
        complete=complete,
        source=lambda: read_events(text),
        recorder=body.header.recorder if body.header else None,
    )
    return history.with_others(others)


def _chunks(body: Body) -> list[Chunk]:
    """All events: of a large file by compiled loops, else by helper processes, else here."""
    path = body.text.plain_path
    size = body.text.path.stat().st_size if body.text.path else len(body.text.data)
    if worth_it(size):
        try:
            return [Scanner(foreign=body.foreign).chunk(body.blocks(), size)]
        except NotPlain:
            pass
    if path is None or size < chunks.PARALLEL_BYTES:
        return [chunks.read_blocks(body.blocks(), foreign=body.foreign)]
    end = body.start + sum(map(len, body.blocks()))
    return chunks.read_chunks(path, body.start, end, foreign=body.foreign)


def save(history: History, path: Path) -> None:
    """Write a history with header and footer; what was truncated stays without a footer.

    Raises ``OSError`` as `whole_file` does.
    """
    digest = hashlib.sha256()
    with whole_file(path) as file:

        def put(line: bytes) -> None:
            digest.update(line)
            file.write(line)

        put(header_line(history.params, history.complete))
        count = 0
        for count, event in enumerate(history.events(), 1):
            put(event_line(event, count - 1))
        if not history.problems:
            file.write(footer_line(count, stated(digest)))


def header_line(params: Params, complete: Completeness = Completeness.WHOLE) -> bytes:
    """The first line of a history."""
    header: dict[str, Any] = {"history": FORMAT_VERSION, "params": params.given()}
    if complete is not Completeness.WHOLE:
        header["complete"] = complete
    return msgspec.json.encode(header) + b"\n"


def event_line(event: Event, index: int) -> bytes:
    """One event as a line, stamped with its position."""
    return msgspec.json.encode(msgspec.structs.replace(event, index=index)) + b"\n"


def footer_line(events: int, digest: str | None = None) -> bytes:
    """The last line of a history that is whole; `digest` is that of all lines before it (see `stated`)."""
    footer = {"end": True, "events": events} | ({"digest": digest} if digest else {})
    return msgspec.json.encode(footer) + b"\n"


def read_events(text: Text) -> Sequence[Event]:
    """The raw events of a text that was read before."""
    body = Body(text)
    decoder = msgspec.json.Decoder(ForeignEvent if body.foreign else Event)
    return [event for block in body.blocks() for event in decoder.decode_lines(block)]


class Misplaced(HistoryError):
    """An error of the file as a whole, or of its last line."""


class Body:
    """What stands between header and footer; both are known once `blocks` has ended, and so is the digest."""

    problems: list[str]
    _digest: hashlib._Hash

    def __init__(self, text: Text) -> None:
        """Read the header. Raises `HistoryError`: a header that is wrong."""
        self.text = text
        first = next(text.blocks(), b"").partition(b"\n")[0]
        self.header, self.start = _header(first)
        self.foreign = self.header is None
        self.first_line = 1 if self.foreign else 2
        self.footer: Footer | None = None

    def blocks(self) -> Iterator[bytes]:
        """The events, as blocks of whole lines.

        Raises:
            HistoryError: a footer that is wrong or stands alone; and as `Text.pieces`.
        """
        self.problems, self._digest = [], hashlib.sha256()
        lines, skip = Lines(self.text), self.start
        with _Hashing(self._digest) as hashing:
            for block in lines.blocks():
                hashing.update(block)
                if rest := block[skip:]:
                    yield rest
                skip = max(0, skip - len(block))
        if kept := self._without_footer(lines.tail[skip:]):
            yield kept

    def _without_footer(self, tail: bytes) -> bytes:
        """The last line if it is an event; a footer, or a line that was cut short, is taken off."""
        line = tail.rstrip()
        if not line:
            last = None
        else:
            try:
                last = _json(line)
            except UNREADABLE:
                self.problems.append("the history is truncated: its last line is incomplete")
                return b""
        if isinstance(last, dict) and "end" in last and "time_ns" not in last:
            try:
                self.footer = msgspec.convert(last, Footer)
            except msgspec.ValidationError as error:
                raise self._at_end(explained(error, line, Footer)) from None
            if self.header is None:
                raise self._at_end(
                    HistoryError(
                        "saw a footer without a header: the beginning of the history is missing",
                        hint="get the file once more; without its footer it is judged as one of another tool",
                    )
                )
            return b""
        if self.header is not None:
            self.problems.append("the history is truncated: it has a header but no footer")
        return line

    def _at_end(self, error: HistoryError) -> HistoryError:
        """An error of the last line, with its number."""
        lines = Lines(self.text)
        number = 1 + sum(block.count(b"\n") for block in lines.blocks())
        return Misplaced(error.problem, line=number, field=error.field, hint=error.hint)

    def compared(self, total: int) -> tuple[Completeness, list[str]]:
        """What is known of the completeness of `total` events, and the problems; raises as `compared`."""
        if self.header is None or self.footer is None:
            return Completeness.NOT_KNOWN, self.problems
        complete, problems = compared(
            "footer", self.footer.events, total, self.footer.digest, stated(self._digest)
        )
        return least(complete, self.header.complete), self.problems + problems


class _Hashing:
    """Hashes blocks in another thread while this one decodes them, one block ahead at most."""

    def __init__(self, digest: hashlib._Hash) -> None:
        self._digest = digest
        self._pool = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def __enter__(self) -> _Hashing:
        return self

    def update(self, block: bytes) -> None:
        if self._last is not None:
            self._last.result()
        if len(block) < _THREAD_BYTES:
            self._last = None
            self._digest.update(block)
        else:
            self._last = self._pool.submit(self._digest.update, block)

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()


def _json(line: bytes) -> Any:
    """What a line says, as far as it may be a footer; raises those of `UNREADABLE` if it is no JSON."""
    short = len(line) <= FOOTER_BYTES_MAX
    return msgspec.json.decode(line) if short else msgspec.json.decode(line, type=msgspec.Raw)


def _header(line: bytes) -> tuple[Header | None, int]:
    """The header and the length of its line, if the first line is one."""
    if not line.lstrip().startswith(b'{"history"'):
        return None, 0
    try:
        header = msgspec.json.decode(line, type=Header)
    except UNREADABLE as error:
        raise explained(error, line, Params).at(line=1) from None
    if header.history != FORMAT_VERSION:
        raise HistoryError(
            f"saw version {header.history}, expected {FORMAT_VERSION}", line=1, field="history"
        )
    return header, len(line) + 1


def _first_time(index: np.ndarray, times: np.ndarray, others: Sequence[tuple[int, Event]]) -> int:
    if index.size and (not others or index[0] < others[0][0]):
        return int(times[0])
    return others[0][1].time_ns if others else 0
