"""What a connection or a server may not do now: transactions, channels, replicas, limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.redis_model.known import version_of
from lab.redis_model.limits import NEED_MEMORY
from lab.redis_model.reply import QUEUED, ErrorReply, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.registry import Command
    from lab.redis_model.session import Session

READ_ONLY: Final = "READONLY You can't write against a read only replica."
NO_REPLICAS: Final = "NOREPLICAS Not enough good replicas to write."
OUT_OF_MEMORY: Final = "OOM command not allowed when used memory > 'maxmemory'."
_NOT_QUEUED = frozenset({"exec", "discard", "multi", "watch", "quit", "reset"})
_BREAK_VALKEY_QUEUES = frozenset({"multi", "watch"})
"""Redis refuses these inside a transaction as well, but the transaction goes on."""


def rejected(session: Session, args: list[bytes], complaint: str) -> str:
    """Note that a command was not taken; return what is said. A transaction that it belongs to fails."""
    if args[0].lower() == b"exec":
        if session.queue is not None:
            session.leave_transaction()
        return f"EXECABORT Transaction discarded because of: {complaint.removeprefix('ERR ')}"
    session.queue_broken = session.queue is not None
    return complaint


def write_refusal(model: RedisModel) -> str:
    """What is said to whoever writes now; nothing if anybody may."""
    if model.keys.is_replica:
        return READ_ONLY
    return NO_REPLICAS if model.limits.lacks_replicas(model) else ""


def write_refusal_in_script(model: RedisModel, command: Command) -> str:
    """What is said to a script that has not written yet and runs this command; nothing if it may."""
    if model.out_of_memory and command.name in NEED_MEMORY:
        return OUT_OF_MEMORY
    return write_refusal(model)


def _queues_need_memory(model: RedisModel) -> bool:
    """Whether a server whose memory is full queues no command at all, as before Redis 7.4."""
    return model.server.product == "redis" and version_of(model.server) < (7, 4)


def refusal(model: RedisModel, session: Session, command: Command, args: list[bytes]) -> Reply:
    """Return the answer to a command that does not run now: refused, or queued. None: it may run."""
    complaint = ""
    is_valkey = model.server.product == "valkey"
    queued = session.queue or ()
    if model.limits.hold:
        model.make_room(command)
    if model.out_of_memory and (
        command.name in NEED_MEMORY
        or (session.queue is not None and command.name not in _NOT_QUEUED and _queues_need_memory(model))
        or (command.name == "exec" and any(each.name in NEED_MEMORY for each, _ in queued))
    ):
        complaint = OUT_OF_MEMORY
    elif model.guarded and command.writes and not session.is_master and (refused := write_refusal(model)):
        complaint = refused
    elif (session.channels or session.patterns) and not session.resp3 and not command.while_subscribed:
        which = "(P)" if model.is_before_7 else "(P|S)"
        complaint = (
            f"ERR Can't execute '{command.name}': only {which}SUBSCRIBE / {which}UNSUBSCRIBE / PING / QUIT / "
            "RESET are allowed in this context"
        )
    elif (
        session.queue is not None
        and not command.in_transactions
        and (command.name not in _NOT_QUEUED or (is_valkey and command.name in _BREAK_VALKEY_QUEUES))
    ):
        named = f" '{command.name}'" if is_valkey and version_of(model.server) >= (9, 0) else ""
        complaint = f"ERR Command{named} not allowed inside a transaction"
    if complaint:
        return ErrorReply(rejected(session, args, complaint))
    if session.queue is not None and command.name not in _NOT_QUEUED:
        session.queue.append((command, args))
        return QUEUED
    return None
