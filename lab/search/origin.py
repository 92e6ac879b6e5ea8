"""Where the code of a lock sent a command from, and where it waits: noted in trials that are watched.

A place is in a file of the lock's own (``lab.search.branches`` says which these are), so neither in the lab,
nor in a client library. A request that leaves in a task of its own also has the place where that was made.
"""

from __future__ import annotations

import asyncio
import linecache
import sys
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

import hiredis

from lab.drivers import is_driver
from lab.locks import lock_class
from lab.locks.failure import files_of

TEXT_MAX: Final = 160
"""How many characters of an expression are kept."""


@dataclass(frozen=True, slots=True)
class Place:
    """An expression in the code of a lock: its file's name, its first line, its function, and its text."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


_Made = tuple[int, tuple[Place, ...]]


@dataclass(eq=False, slots=True)
class Sent:
    """A command that left a client: when, on which connection, its words, and from where.

    ``time_ns`` is by the history's clock, as is ``since_ns``: when the outermost task was made that the lock
    sends it in; the same without one. ``places`` are the calls that led to it, the outermost first; a driver
    has none.
    """

    time_ns: int
    since_ns: int
    client: str
    node: str
    connection: int
    words: tuple[str, ...]
    places: tuple[Place, ...]
    message: object = None
    """What carried it; the node gets this very object."""


class Origins:
    """What clients sent to nodes, in this order.

    Args:
        lock: the name of the lock.
        now_ns: the history's clock.
    """

    def __init__(self, lock: str, now_ns: Callable[[], int]) -> None:
        self._files = frozenset() if is_driver(lock) else files_of(lock_class(lock))
        self.now_ns = now_ns
        self._sent: list[Sent] = []
        self._on_their_way: dict[tuple[str, str, tuple[str, ...]], list[Sent]] = defaultdict(list)
        self._made: WeakKeyDictionary[asyncio.Task[Any], _Made] = WeakKeyDictionary()
        """When and where tasks were made; of one that a task made, when that was made."""
        self._loops: list[asyncio.AbstractEventLoop] = []
        self._readers: dict[int, hiredis.Reader] = {}

    @property
    def sent(self) -> tuple[Sent, ...]:
        """All of it, in the order of time."""
        return tuple(self._sent)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note from now on where tasks of this loop are made."""
        make = loop.create_task

        def made(coroutine: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
            places = self._here(sys._getframe(1))
            task: asyncio.Task[Any] = make(coroutine, **options)
            if places[1]:
                self._made[task] = places
            return task

        loop.create_task = made  # type: ignore[assignment,method-assign]
        self._loops.append(loop)

    def note_message(self, client: str, node: str, arrives: Any, arguments: tuple[Any, ...]) -> None:
        """A client sends a request: a connection and a command, or bytes that a connection is told of."""
        if len(arguments) > 1:
            self.note(client, node, *arguments)
        else:
            self.note(client, node, arrives.__self__, *arguments)

    def note(self, client: str, node: str, connection: Any, message: object) -> None:
        """A message leaves: a command as it is, or bytes of the protocol."""
        number = connection.number
        commands = [message] if isinstance(message, tuple) else self._read(number, message)
        if not commands:
            return
        since_ns, places = self._here(sys._getframe(1))
        now_ns = self.now_ns()
        for command in commands:
            words = tuple(map(_word, command))
            sent = Sent(now_ns, since_ns, client, node, number, words, places, message)
            self._sent.append(sent)
            self._on_their_way[client, node, words].append(sent)

    def arrived(self, client: str, node: str, words: tuple[str, ...], message: object) -> Sent | None:
        """The request that a node executes now, which came in this message; of equal ones in it the first."""
        on_its_way = self._on_their_way.get((client, node, words), [])
        exact = [at for at, each in enumerate(on_its_way) if each.message is message]
        if not on_its_way:
            return None
        return on_its_way.pop(exact[0] if exact else 0)

    def waiting(self, task: asyncio.Task[Any]) -> tuple[Place, ...]:
        """Where a task waits, the outermost call first."""
        found = []
        at: Any = task.get_coro()
        while at is not None:
            frame = getattr(at, "cr_frame", None) or getattr(at, "gi_frame", None)
            if frame is not None and frame.f_code.co_filename in self._files:
                found.append(_place(frame))
            at = getattr(at, "cr_await", None) or getattr(at, "gi_yieldfrom", None)
        return tuple(found)

    def places_of(self, frame: FrameType | None) -> tuple[Place, ...]:
        """The calls of the lock that led to a frame, the outermost first."""
        return self._here(frame)[1]

    def clear(self) -> None:
        """The trial is over: refer to nothing of it any more."""
        for loop in self._loops:
            del loop.create_task
        self._loops.clear()
        self._made.clear()
        self._on_their_way.clear()
        self._readers.clear()

    def _here(self, frame: FrameType | None) -> _Made:
        """The calls of the lock that led here, with those that led to the task that runs, and since when."""
        inner = []
        while frame is not None:
            if frame.f_code.co_filename in self._files:
                inner.append(_place(frame))
            frame = frame.f_back
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        by_itself: _Made = (self.now_ns(), ())
        since_ns, outer = by_itself if task is None else self._made.get(task, by_itself)
        return since_ns, (*outer, *reversed(inner))

    def _read(self, connection: int, data: object) -> list[tuple[object, ...]]:
        """The commands that are complete with these bytes of a connection."""
        reader = self._readers.setdefault(connection, hiredis.Reader())
        found: list[tuple[object, ...]] = []
        try:
            reader.feed(data)  # type: ignore[arg-type]
            while (command := reader.gets()) is not False:
                found += [tuple(command)] if isinstance(command, list) and command else []
        except hiredis.ProtocolError:
            self._readers[connection] = hiredis.Reader()
        return found


def _word(word: object) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


_KNOWN: Final[dict[tuple[CodeType, int], Place]] = {}
"""The places of instructions that were looked at before."""


def _place(frame: FrameType) -> Place:
    """The expression that a frame is at."""
    code, at = frame.f_code, frame.f_lasti
    place = _KNOWN.get((code, at))
    if place is None:
        place = _KNOWN[code, at] = _read_place(code, at, frame.f_lineno)
    return place


def _read_place(code: CodeType, at: int, line: int) -> Place:
    first, last, begins, ends = list(code.co_positions())[at // 2]
    lines = linecache.getlines(code.co_filename)
    if first is None or last is None or begins is None or ends is None or last > len(lines):
        first, text = line, linecache.getline(code.co_filename, line)
    else:
        whole = "".join(lines[first - 1 : last]).encode()
        tail = len(lines[last - 1].encode()) - ends
        text = whole[begins : len(whole) - tail].decode(errors="replace")
    return Place(Path(code.co_filename).name, first, code.co_qualname, _short(text))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
