"""Recordings of several processes as one history; `checker.history.recordings` says how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import structs

from checker.errors import HistoryError
from checker.formats import load
from checker.history.completeness import Completeness, least
from checker.history.events import Event
from checker.history.history import History
from checker.history.recordings import Recordings

_CUT_SHORT: Final = "the history is truncated"


def load_recordings(
    paths: Sequence[str | Path], *, clock_error_ns: int | None = None, max_size: int | None = None
) -> History:
    """Read recordings and put their events in one order.

    `clock_error_ns` bounds by how much the wall clock of every host errs, whatever the files say. Where
    neither says anything and there are several clocks, nothing follows from what one host did before another.

    Raises:
        HistoryError: as `checker.formats.load`; a file that is no recording; recordings that do not belong
            together.
    """
    histories: dict[str, History] = {}
    for path in map(str, paths):
        if path in histories:
            raise HistoryError("saw this file twice", file=path, hint="name each recording once")
        histories[path] = load(path, "jsonl", max_size=max_size)
    return joined(histories, clock_error_ns=clock_error_ns)


def joined(histories: Mapping[str, History], *, clock_error_ns: int | None = None) -> History:
    """The same of histories that were read, by their titles in errors; raises as `load_recordings`."""
    together = Recordings(clock_error_ns)
    read = [(together.add(title, one.recorder, one.params), one) for title, one in histories.items()]
    together.begin()
    events: list[Event] = []
    complete, problems = Completeness.WHOLE, []
    for recording, history in read:
        placed = (together.placed(recording, event) for event in history.events())
        events += [event for event in placed if event is not None]
        events += together.end(recording, in_order=not history.problems)
        if not history.problems:
            complete = least(complete, history.complete)
        problems += [f"{recording.title}: {p}" for p in history.problems if not p.startswith(_CUT_SHORT)]
    events.sort(key=lambda event: event.time_ns)  # stable: events of one file stay in their order
    params = structs.replace(together.params, epsilon_ns=together.epsilon_ns)
    try:
        return History.from_events(events, params, problems=problems, complete=complete)
    except HistoryError as error:
        raise error.at(file=", ".join(histories)) from None
