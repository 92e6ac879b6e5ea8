"""Channels: SUBSCRIBE and PUBLISH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.redis_model.patterns import matches
from lab.redis_model.registry import command, subcommand
from lab.redis_model.reply import Push, RedisError, Reply, Several

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

_ALLOWED: Final[dict[str, Any]] = {"in_scripts": False, "while_subscribed": True, "propagates": False}


def _enter(
    session: Session,
    names: list[bytes],
    own: dict[bytes, None],
    table: dict[bytes, dict[Session, None]],
    word: bytes,
) -> Reply:
    if not session.can_block:
        raise RedisError(
            f"ERR {word.decode().upper()} needs a connection: there is no wire to send messages on"
        )
    answers = Several()
    for name in names:
        own[name] = None
        table.setdefault(name, {})[session] = None
        answers.append(Push([word, name, len(session.channels) + len(session.patterns)]))
    session.guarded = True
    return answers


def _leave(
    session: Session,
    names: list[bytes],
    own: dict[bytes, None],
    table: dict[bytes, dict[Session, None]],
    word: bytes,
) -> Reply:
    answers = Several()
    for name in names or list(own):
        if name in own:
            del own[name]
            del table[name][session]
            if not table[name]:
                del table[name]
        answers.append(Push([word, name, len(session.channels) + len(session.patterns)]))
    if not answers:
        answers.append(Push([word, None, len(session.channels) + len(session.patterns)]))
    session.guarded = session.queue is not None or bool(session.channels or session.patterns)
    return answers


@command("subscribe", -2, **_ALLOWED)
def _subscribe(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _enter(session, args[1:], session.channels, server.channels.listeners, b"subscribe")


@command("psubscribe", -2, **_ALLOWED)
def _psubscribe(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _enter(session, args[1:], session.patterns, server.channels.patterns, b"psubscribe")


@command("unsubscribe", -1, **_ALLOWED)
def _unsubscribe(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _leave(session, args[1:], session.channels, server.channels.listeners, b"unsubscribe")


@command("punsubscribe", -1, **_ALLOWED)
def _punsubscribe(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _leave(session, args[1:], session.patterns, server.channels.patterns, b"punsubscribe")


@command("publish", 3, propagates=False)
def _publish(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Send a message; it goes to the replicas as well, and not into the file."""
    count = server.channels.publish(args[1], args[2])
    server.publish_to_replicas(args)
    return count


@subcommand("pubsub", "channels", -2)
def _channels(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    names = [name for name, sessions in server.channels.listeners.items() if sessions]
    return [name for name in names if len(args) < 3 or matches(args[2], name)]


@subcommand("pubsub", "numsub", -2)
def _numsub(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [part for name in args[2:] for part in (name, len(server.channels.listeners.get(name, ())))]


@subcommand("pubsub", "numpat", 2)
def _numpat(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return sum(1 for sessions in server.channels.patterns.values() if sessions)
