"""Recordings that grow, as one sequence of events in the order of their stamps.

An event is passed on when every file has compared its clocks later than that, so that nothing can come
before it any more, nor change what its stamp means. A recorder does so once a second. A file in which nothing
comes for `PATIENCE_S` is given up: its process was killed, or stands still. What it did since its last event
counts as not recorded, and what it writes later is left to the check of the whole files.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from checker.errors import HistoryError
from checker.formats import jsonl
from checker.history.events import GAP, Event
from checker.history.recordings import Recording, Recordings
from checker.live.lines import POLL_S, STANDARD_INPUT, Reader, lines_of

PATIENCE_S: Final = 30.0


def is_recording(name: str) -> bool:
    """Whether a file begins as one of `lab.record` does."""
    path = Path(name)
    if name == STANDARD_INPUT or not path.is_file():
        return False
    with path.open("rb") as file:
        line = file.readline(jsonl.FOOTER_BYTES_MAX)
    try:
        return jsonl.parse(line).recorder is not None
    except HistoryError:
        return False


@dataclass(slots=True, eq=False)
class _Tail:
    """A file; `reached_ns` is up to when all its events were read, and no gap can show any more."""

    reader: Reader
    lines: Iterator[bytes | None]
    recording: Recording | None = None
    events: deque[Event] = field(default_factory=deque)
    reached_ns: int | None = None
    heard_s: float = 0.0
    ended: bool = False


class Several:
    """Follows recordings; `together` is what is known of their clocks so far."""

    def __init__(self, names: Sequence[str], clock_error_ns: int | None) -> None:
        if STANDARD_INPUT in names:
            raise HistoryError(
                "standard input cannot be followed together with files, nor as a recording", hint="name files"
            )
        self.together = Recordings(clock_error_ns)
        self._tails = [_Tail(Reader(name), lines_of(name, wait=False)) for name in names]

    def events(self) -> Iterator[Event]:
        """All events in order, as soon as it is certain; ends when all files have ended or were given up.

        Raises:
            HistoryError: as `checker.live.lines.Reader` and `checker.history.recordings.Recordings`.
        """
        while any(tail.recording is None for tail in self._tails):
            self._read_headers()
        self.together.begin()
        while True:
            heard = [self._heard(tail) for tail in self._tails if not tail.ended]
            yield from self._certain()
            if all(tail.ended for tail in self._tails):
                return
            if not any(heard):
                time.sleep(POLL_S)

    def _read_headers(self) -> None:
        for tail in self._tails:
            if tail.recording is None and (line := next(tail.lines)) is not None:
                tail.reader.read(line)
                params = tail.reader.params
                assert params is not None
                tail.recording = self.together.add(tail.reader.name, tail.reader.recorder, params)
                tail.heard_s = time.monotonic()
        if any(tail.recording is None for tail in self._tails):
            time.sleep(POLL_S)

    def _heard(self, tail: _Tail) -> bool:
        """Read what a file has now, up to a bound; whether there was anything."""
        recording = tail.recording
        assert recording is not None
        for _ in range(1_000):
            line = next(tail.lines)
            if line is None:
                if time.monotonic() - tail.heard_s > PATIENCE_S:
                    self._end(tail, recording, in_order=False)
                    sys.stderr.write(
                        f"note: nothing came from {tail.reader.name} for {PATIENCE_S:.0f} s: it is not "
                        "followed any more\n"
                    )
                    return True
                return False
            tail.heard_s = time.monotonic()
            event = tail.reader.read(line)
            if event is not None:
                placed = self.together.placed(recording, event)
                tail.reached_ns = self.together.compared_ns(recording)
                self._take(tail, () if placed is None else (placed,))
            elif tail.reader.footer is not None:
                self._end(tail, recording, in_order=tail.reader.footer.events == recording.events)
                return True
        return True

    def _end(self, tail: _Tail, recording: Recording, *, in_order: bool) -> None:
        self._take(tail, self.together.end(recording, in_order=in_order))
        tail.ended = True

    def _take(self, tail: _Tail, events: Iterable[Event]) -> None:
        """Put events behind the others; only a gap may begin before what was read before it."""
        new = list(events)
        tail.events += new
        if any(event.f == GAP for event in new):
            tail.events = deque(sorted(tail.events, key=lambda event: event.time_ns))

    def _certain(self) -> Iterator[Event]:
        """The events before which no other can come any more."""
        going_on = [tail for tail in self._tails if not tail.ended]
        if any(tail.reached_ns is None for tail in going_on):
            return
        until_ns = min((tail.reached_ns for tail in going_on if tail.reached_ns is not None), default=None)
        while True:
            waiting = [tail for tail in self._tails if tail.events]
            if not waiting:
                return
            first = min(waiting, key=lambda tail: tail.events[0].time_ns)
            if until_ns is not None and first.events[0].time_ns > until_ns:
                return
            yield first.events.popleft()
