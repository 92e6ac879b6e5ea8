"""What a connection or a server may not do now: transactions, channels, replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.redis_model.known import version_of
from lab.redis_model.reply import QUEUED, ErrorReply, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.registry import Command
    from lab.redis_model.session import Session

READ_ONLY: Final = "READONLY You can't write against a read only replica."
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


def refusal(model: RedisModel, session: Session, command: Command, args: list[bytes]) -> Reply:
    """Return the answer to a command that does not run now: refused, or queued. None: it may run."""
    complaint = ""
    is_valkey = model.server.product == "valkey"
    if model.guarded and command.writes and not session.is_master:
        complaint = READ_ONLY
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
