"""Connections that wait: for an element of a list, for replicas, for time to pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.redis_model.arguments import number
from lab.redis_model.known import since
from lab.redis_model.reply import NO_REPLY, NULL_ARRAY, ErrorReply, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.keyspace import Value
    from lab.redis_model.model import RedisModel
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


def seconds_as_ms(argument: bytes) -> int:
    """Read how long a command waits at most, 0 for ever. Raises ``RedisError``."""
    timeout_s = number(argument, "ERR timeout is not a float or out of range")
    if timeout_s < 0:
        raise RedisError("ERR timeout is negative")
    return int(timeout_s * 1000)


def await_keys(
    server: RedisModel,
    session: Session,
    keys: Sequence[bytes],
    kind: type[Value],
    timeout_ms: int,
    attempt: Callable[[Sequence[bytes]], Reply],
    *,
    without_waiting: Reply = NULL_ARRAY,
    also_gone: bool = False,
) -> Reply:
    """Answer what ``attempt`` makes of some of these keys; while that is None, wait for a change of one.

    It says in ``server.rewritten`` what it did, for files and replicas. ``without_waiting`` is the answer
    where nobody can wait. A key of another ``kind`` changes nothing, unless ``also_gone``. Since 7.2 the
    whole command is run anew, before that for the key that has changed.
    """
    anew = since(server.server, redis=(7, 2))

    def served(key: bytes | None) -> Reply:
        server.rewritten = None
        if key is None or not (also_gone or type(server.keys.get(key)) is kind):
            return None
        try:
            reply = attempt(keys if anew else (key,))
        except RedisError as error:
            if also_gone and not anew:
                server.miss("XREADGROUP … BLOCK on a group that goes away, before Redis 7.2")
            return ErrorReply(str(error))
        if reply is not None and server.rewritten:
            server.propagate(*server.rewritten)
        return reply

    reply = attempt(keys)
    if reply is not None:
        return reply
    if session.queue is not None or not session.can_block:
        return without_waiting
    deadline_ms = server.keys.now_ms + timeout_ms if timeout_ms else None
    server.blocking.add(session, Wait(keys, served, deadline_ms, lambda: NULL_ARRAY))
    return NO_REPLY


class Blocking:
    """All connections that wait, first come first served."""

    def __init__(self) -> None:
        self.ready: dict[bytes, None] = {}
        """Keys that somebody waits for and that have changed since the last look."""
        self.resumed: list[Session] = []
        """Connections that wait no more; what they sent meanwhile is still to be done."""
        self.waiting: dict[bytes, dict[Session, None]] = {}
        """Who waits for each key, first come first served."""
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
            self.waiting.setdefault(key, {})[session] = None

    def remove(self, session: Session) -> None:
        """Let it wait no more."""
        wait, session.wait = session.wait, None
        self._sessions.pop(session, None)
        for key in wait.keys if wait is not None else ():
            waiting = self.waiting.get(key)
            if waiting is not None:
                waiting.pop(session, None)
                if not waiting:
                    del self.waiting[key]

    def serve(self) -> None:
        """Serve those who wait for keys that are ready."""
        while self.ready:
            ready = list(self.ready)
            self.ready.clear()
            for key in ready:
                for session in list(self.waiting.get(key, ())):
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

    def unblock(self, session: Session, *, by_error: bool) -> bool:
        """Answer one that waits as if its time was over, or with an error; False if it does not wait."""
        if session.wait is None:
            return False
        error = ErrorReply("UNBLOCKED client unblocked via CLIENT UNBLOCK")
        self._end(session, error if by_error else session.wait.too_late())
        return True

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
