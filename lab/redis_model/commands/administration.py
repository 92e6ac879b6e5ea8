"""Commands for people: INFO, CONFIG, TIME, SHUTDOWN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.redis_model.info import information
from lab.redis_model.patterns import matches
from lab.redis_model.registry import command, subcommand
from lab.redis_model.reply import NO_REPLY, OK, Map, RedisError, Reply, Verbatim
from lab.servers import save_text

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


@command("time", 1)
def _time(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [b"%d" % (server.now_us // 1_000_000), b"%d" % (server.now_us % 1_000_000)]


@command("info", -1)
def _info(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return Verbatim(
        information(server, [name.decode(errors="replace").lower() for name in args[1:]]).encode()
    )


@command("command", -1)
def _command(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Only how many there are, and nothing about each."""
    if len(args) == 2 and args[1].lower() == b"count":
        return len(server.commands) // 2
    return []


@subcommand("config", "get", -3, in_scripts=False, shown=False)
def _config_get(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    settings = _settings(server)
    found = [name for name in settings if any(matches(pattern.lower(), name) for pattern in args[2:])]
    return Map(part for name in found for part in (name, settings[name]))


def _settings(server: RedisModel) -> dict[bytes, bytes]:
    limits = server.limits
    fsync = {"aof-always": b"always"}.get(server.persistence, b"everysec") if limits.syncs else b"no"
    return {
        b"appendonly": b"no" if server.aof is None else b"yes",
        b"appendfsync": fsync,
        b"databases": b"1",
        b"hz": b"10",
        b"maxmemory": b"%d" % limits.memory_bytes,
        b"maxmemory-policy": limits.policy.encode(),
        b"maxmemory-samples": b"%d" % limits.samples,
        b"min-replicas-max-lag": b"%d" % limits.max_lag_s,
        b"min-replicas-to-write": b"%d" % limits.min_replicas,
        b"notify-keyspace-events": server.channels.wanted().encode(),
        b"port": b"%d" % server.port,
        b"save": save_text(server.snapshots.points).encode(),
    }


@subcommand("config", "set", -4, in_scripts=False, shown=False)
def _config_set(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Set the key events; others only to what they are: nothing would come of a change."""
    if len(args) % 2:
        raise RedisError("ERR wrong number of arguments for 'config|set' command")
    pairs = list(zip(args[2::2], args[3::2], strict=True))
    settings = _settings(server)
    for name, value in pairs:
        known = name.lower()
        text = name.decode(errors="replace")
        if known not in settings:
            server.miss(f"CONFIG SET {text}")
            raise RedisError(f"ERR Unknown option or number of arguments for CONFIG SET - '{text}'")
        if known != b"notify-keyspace-events" and value != settings[known]:
            server.miss(f"CONFIG SET {text}")
            raise RedisError(
                f"ERR CONFIG SET failed (possibly related to argument '{text}') - a change of this setting "
                "is not simulated"
            )
    for name, value in pairs:
        if name.lower() == b"notify-keyspace-events":
            server.channels.want(value.decode(errors="replace"))
    return OK


@subcommand("config", "rewrite", 2, in_scripts=False, shown=False)
def _rewrite(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Whom the server follows, and nothing else."""
    if server.on_rewrite is None:
        raise RedisError("ERR The server is running without a config file")
    server.on_rewrite()
    return OK


@subcommand("config", "resetstat", 2, in_scripts=False, shown=False)
def _resetstat(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    server.calls.clear()
    return OK


@command("shutdown", -1, "NOSAVE SAVE NOW FORCE", in_scripts=False, in_transactions=False, shown=False)
def _shutdown(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """End at once; replicas are not waited for."""
    words = {word.upper() for word in args[1:]}
    if words - {b"NOSAVE", b"SAVE", b"NOW", b"FORCE"} or {b"NOSAVE", b"SAVE"} <= words:
        raise RedisError("ERR syntax error")
    server.shut_down(b"SAVE" in words if words & {b"NOSAVE", b"SAVE"} else None)
    return NO_REPLY
