"""Connections that wait: for an element of a list, for replicas, for time to pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.redis_model.reply import Reply

if TYPE_CHECKING:
    from lab.redis_model.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """What a connection waits for.

    ``attempt`` is given a key that may serve it (None when something else has happened) and returns the
    answer, None if it still has to wait. ``deadline_ms`` is in Unix time of the server's wall clock, since
    that is what a real server goes by; None waits for ever. ``too_late`` makes the answer after that.
    """

    keys: Sequence[bytes]
    attempt: Callable[[bytes | None], Reply]
    deadline_ms: int | None
    too_late: Callable[[], Reply]


class Blocking:
    """All connections that wait, first come first served."""

    def __init__(self) -> None:
        self.ready: dict[bytes, None] = {}
        """Keys that were pushed to since the last look."""
        self.resumed: list[Session] = []
        """Connections that wait no more; what they sent meanwhile is still to be done."""
        self._waiting: dict[bytes, dict[Session, None]] = {}
        self._sessions: dict[Session, None] = {}

    @property
    def anybody(self) -> bool:
        """Whether somebody waits."""
        return bool(self._sessions)

    def add(self, session: Session, wait: Wait) -> None:
        """Let a connection wait."""
        session.wait = wait
        self._sessions[session] = None
        for key in wait.keys:
            self._waiting.setdefault(key, {})[session] = None

    def remove(self, session: Session) -> None:
        """Let it wait no more."""
        wait, session.wait = session.wait, None
        self._sessions.pop(session, None)
        for key in wait.keys if wait is not None else ():
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.pop(session, None)
                if not waiting:
                    del self._waiting[key]

    def signal(self, key: bytes) -> None:
        """Note that a key may serve somebody."""
        if key in self._waiting:
            self.ready[key] = None

    def serve(self) -> None:
        """Serve those who wait for keys that are ready."""
        while self.ready:
            ready, self.ready = self.ready, {}
            for key in ready:
                for session in list(self._waiting.get(key, ())):
                    self._try(session, key)

    def poll(self) -> None:
        """Try those who wait for no key: something has happened that may concern them."""
        for session in list(self._sessions):
            if session.wait is not None and not session.wait.keys:
                self._try(session, None)

    def expire(self, now_ms: int) -> None:
        """Answer those whose time is over."""
        for session in list(self._sessions):
            wait = session.wait
            if wait is not None and wait.deadline_ms is not None and now_ms >= wait.deadline_ms:
                self._end(session, wait.too_late())

    def earliest_ms(self) -> int | None:
        """Return when the first of them runs out of time, in ms of Unix time."""
        deadlines = (session.wait.deadline_ms for session in self._sessions if session.wait is not None)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _try(self, session: Session, key: bytes | None) -> None:
        wait = session.wait
        if wait is not None and (reply := wait.attempt(key)) is not None:
            self._end(session, reply)

    def _end(self, session: Session, reply: Reply) -> None:
        self.remove(session)
        session.answer(reply)
        self.resumed.append(session)
