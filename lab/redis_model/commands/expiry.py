"""When keys expire, and how long they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.redis_model.arguments import expiry_ms, integer
from lab.redis_model.registry import command, wrong_count
from lab.redis_model.reply import RedisError, Reply

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

CONDITIONS: Final = "NX XX GT LT"
_CONDITIONS = frozenset(CONDITIONS.encode().split())
_FOR_EVER: Final = 2**63


def _conditions(server: RedisModel, args: list[bytes], name: str) -> set[bytes]:
    """Read the conditions of EXPIRE. Raises ``RedisError``."""
    wanted = set()
    if len(args) > 3 and not server.commands.options[name]:
        raise RedisError(wrong_count(name))
    for word in args[3:]:
        if word.upper() not in _CONDITIONS:
            raise RedisError(f"ERR Unsupported option {word.decode(errors='replace')}")
        wanted.add(word.upper())
    if b"NX" in wanted and len(wanted) > 1:
        raise RedisError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if {b"GT", b"LT"} <= wanted:
        raise RedisError("ERR GT and LT options at the same time are not compatible")
    return wanted


def is_allowed(wanted: set[bytes], current_ms: int | None, when_ms: int) -> bool:
    """Tell whether the conditions let a key with ``current_ms`` expire at ``when_ms``."""
    if (b"NX" in wanted and current_ms is not None) or (b"XX" in wanted and current_ms is None):
        return False
    current = _FOR_EVER if current_ms is None else current_ms
    return not ((b"GT" in wanted and when_ms <= current) or (b"LT" in wanted and when_ms >= current))


def _expire(server: RedisModel, args: list[bytes], unit_ms: int, base_ms: int, name: str) -> Reply:
    wanted = _conditions(server, args, name)
    keys, key = server.keys, args[1]
    when_ms = expiry_ms(integer(args[2]), unit_ms, base_ms, server.named(name), at_least_one=False)
    if keys.get(key) is None or not is_allowed(wanted, keys.expires.get(key), when_ms):
        return 0
    if when_ms <= keys.now_ms and not keys.obeys:
        keys.delete(key)
        server.channels.notify("g", b"del", key)
        server.rewritten = [[b"DEL", key]]
        return 1
    keys.set_expiry(key, when_ms)
    keys.touch(key)
    server.channels.notify("g", b"expire", key)
    server.rewrite([b"PEXPIREAT", key, b"%d" % when_ms], args)
    return 1


@command("expire", -3, CONDITIONS, writes=True)
def _seconds(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire(server, args, 1000, server.keys.now_ms, "expire")


@command("pexpire", -3, CONDITIONS, writes=True)
def _milliseconds(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire(server, args, 1, server.keys.now_ms, "pexpire")


@command("expireat", -3, CONDITIONS, writes=True)
def _at_second(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire(server, args, 1000, 0, "expireat")


@command("pexpireat", -3, CONDITIONS, writes=True)
def _at_millisecond(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _expire(server, args, 1, 0, "pexpireat")


@command("persist", 2, writes=True)
def _persist(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if server.keys.get(args[1]) is None or server.keys.expires.pop(args[1], None) is None:
        return 0
    server.keys.touch(args[1])
    server.channels.notify("g", b"persist", args[1])
    return 1


def _when_ms(server: RedisModel, key: bytes) -> int:
    """When a key expires, in ms of Unix time; -2 if there is none, -1 if it never does."""
    if server.keys.get(key) is None:
        return -2
    return server.keys.expires.get(key, -1)


@command("pttl", 2)
def _pttl(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    when_ms = _when_ms(server, args[1])
    return when_ms if when_ms < 0 else max(0, when_ms - server.keys.now_ms)


@command("ttl", 2)
def _ttl(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    when_ms = _when_ms(server, args[1])
    return when_ms if when_ms < 0 else (max(0, when_ms - server.keys.now_ms) + 500) // 1000


@command("pexpiretime", 2)
def _pexpiretime(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _when_ms(server, args[1])


@command("expiretime", 2)
def _expiretime(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    when_ms = _when_ms(server, args[1])
    return when_ms if when_ms < 0 else (when_ms + 500) // 1000
