"""MULTI, EXEC, WATCH: commands that run together, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.redis_model.guards import write_refusal
from lab.redis_model.registry import command
from lab.redis_model.reply import NULL_ARRAY, OK, RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


@command("multi", 1, in_scripts=False, in_transactions=False, propagates=False)
def _multi(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if session.queue is not None:
        raise RedisError("ERR MULTI calls can not be nested")
    session.queue = []
    session.guarded = True
    return OK


@command("discard", 1, in_scripts=False, in_transactions=False, propagates=False)
def _discard(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if session.queue is None:
        raise RedisError("ERR DISCARD without MULTI")
    session.leave_transaction()
    return OK


@command("exec", 1, in_scripts=False, in_transactions=False, propagates=False, shown=False)
def _exec(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if session.queue is None:
        raise RedisError("ERR EXEC without MULTI")
    for key in session.watched:
        server.keys.get(key)  # one that has expired meanwhile has changed
    queue, broken, failed = session.queue, session.queue_broken, session.watch_failed
    if broken:
        session.leave_transaction()
        raise RedisError("EXECABORT Transaction discarded because of previous errors.")
    if failed:
        session.leave_transaction()
        return NULL_ARRAY
    writes = server.guarded and any(queued.writes for queued, _ in queue)
    if writes and (refused := write_refusal(server)):
        session.leave_transaction()
        raise RedisError(f"EXECABORT Transaction discarded because of: {refused}")
    session.unwatch()
    answers = []
    for queued, queued_args in queue:
        answer = server.perform(session, queued, queued_args)
        answers.append(None if answer is NULL_ARRAY and session.resp3 else answer)
    if server.monitors or server.on_command is not None:
        server.show(session, args)
    session.leave_transaction()
    return answers


@command("watch", -2, in_scripts=False, in_transactions=False, propagates=False)
def _watch(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if session.queue is not None:
        raise RedisError("ERR WATCH inside MULTI is not allowed")
    for key in args[1:]:
        if key not in session.watched:
            server.keys.get(key)
            session.watched.append(key)
            server.keys.watchers.setdefault(key, []).append(session)
    return OK


@command("unwatch", 1, in_scripts=False, propagates=False)
def _unwatch(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    session.unwatch()
    return OK
