"""What a Sentinel answers to clients and to other Sentinels; it has few of the commands of a Redis server."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, cast

from lab.redis_model.arguments import integer
from lab.redis_model.info import information
from lab.redis_model.registry import Command, Commands
from lab.redis_model.reply import NULL_ARRAY, OK, Map, RedisError, Reply, Status, Verbatim
from lab.redis_model.watched import HELLO, PARALLEL_SYNCS
from lab.servers import Server

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.sentinel import SentinelModel
    from lab.redis_model.session import Session
    from lab.redis_model.watched import Watched

_SHARED: Final = frozenset(
    {"auth", "client", "command", "hello", "info", "ping", "psubscribe", "punsubscribe"}
    | {"quit", "reset", "shutdown", "subscribe", "unsubscribe"}
)
"""The commands that it has as any server has them; of INFO some sections."""


def _model(server: RedisModel) -> SentinelModel:
    return cast("SentinelModel", server)


def _of_service(server: RedisModel, name: bytes) -> SentinelModel:
    """The Sentinel, if it watches a master of that name. Raises ``RedisError``."""
    model = _model(server)
    if name.decode(errors="replace") != model.settings.service:
        raise RedisError("ERR No such master with that name")
    return model


def _where(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    model = _model(server)
    if args[2].decode(errors="replace") != model.settings.service:
        return NULL_ARRAY
    host, port = model.current_master
    return [host.encode(), b"%d" % port]


def _master(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _row(_of_service(server, args[2]), _model(server).master)


def _masters(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [_row(_model(server), _model(server).master)]


def _replicas(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    model = _of_service(server, args[2])
    return [_row(model, replica) for replica in model.replicas.values()]


def _sentinels(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    model = _of_service(server, args[2])
    return [_row(model, other) for other in model.sentinels.values()]


def _failover(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    _of_service(server, args[2]).force()
    return OK


def _judge(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    address = args[2].decode(errors="replace"), integer(args[3])
    return _model(server).judgement(address, integer(args[4]), args[5].decode(errors="replace"))


def _identity(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return _model(server).identity.encode()


def _check_quorum(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    model = _of_service(server, args[2])
    usable = 1 + sum(not other.is_down for other in model.sentinels.values())
    voters = len(model.sentinels) + 1
    if usable < model.settings.quorum:
        raise RedisError(
            f"NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to reach the specified "
            "quorum for this master"
        )
    if usable < voters // 2 + 1:
        raise RedisError(
            f"NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to reach the majority and "
            "authorize a failover"
        )
    return Status(b"OK %d usable Sentinels. Quorum and failover authorization can be reached" % usable)


def _publish(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if args[1].decode(errors="replace") != HELLO:
        raise RedisError("ERR Only HELLO messages are accepted by Sentinel instances.")
    _model(server).take_hello(args[2].decode(errors="replace"))
    return 1


def _role(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [b"sentinel", [_model(server).settings.service.encode()]]


def _info(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    model = _model(server)
    wanted = {name.decode(errors="replace").lower() for name in args[1:]}
    usual = not wanted or bool(wanted & {"default", "all", "everything"})
    parts = [information(model, [name]) for name in ("server", "clients") if usual or name in wanted]
    if usual or "sentinel" in wanted:
        parts.append(_about(model))
    return Verbatim("\r\n".join(parts).encode())


def _about(model: SentinelModel) -> str:
    master = model.master
    status = "odown" if "o_down" in master.flags else "sdown" if "s_down" in master.flags else "ok"
    tilt_s = (model.now_ms - model.tilt_ms) // 1000 if model.tilt_ms else -1
    about = {
        "sentinel_masters": 1,
        "sentinel_tilt": int(bool(model.tilt_ms)),
        "sentinel_tilt_since_seconds": tilt_s,
        "sentinel_running_scripts": 0,
        "sentinel_scripts_queue_length": 0,
        "sentinel_simulate_failure_flags": 0,
        "master0": f"name={model.settings.service},status={status},address={master.host}:{master.port},"
        f"slaves={len(model.replicas)},sentinels={len(model.sentinels) + 1}",
    }
    return "# Sentinel\r\n" + "".join(f"{name}:{value}\r\n" for name, value in about.items())


def _row(model: SentinelModel, watched: Watched) -> Map:
    """What is known of a server, as names and values."""
    links, now_ms, settings = watched.links, model.now_ms, model.settings
    pending = links.commands.pending if links.commands is not None else 0
    row: dict[str, Any] = {
        "name": model.name_of(watched),
        "ip": watched.host,
        "port": watched.port,
        "runid": watched.run_id,
        "flags": watched.shown_flags,
        "link-pending-commands": pending,
        "link-refcount": 1,
    }
    if "failover_in_progress" in watched.flags:
        row["failover-state"] = model.state
    row |= {
        "last-ping-sent": now_ms - links.unanswered_ms if links.unanswered_ms else 0,
        "last-ok-ping-reply": now_ms - links.available_ms,
        "last-ping-reply": now_ms - links.answered_ms,
    }
    if "s_down" in watched.flags:
        row["s-down-time"] = now_ms - watched.down_since_ms
    if "o_down" in watched.flags:
        row["o-down-time"] = now_ms - watched.agreed_since_ms
    row["down-after-milliseconds"] = settings.down_after_ms
    if watched.kind == "sentinel":
        row |= {
            "last-hello-message": now_ms - watched.hello_ms,
            "voted-leader": watched.leader or "?",
            "voted-leader-epoch": watched.leader_epoch,
        }
        return _map(row.items())
    row |= {
        "info-refresh": now_ms - watched.info_ms if watched.info_ms else 0,
        "role-reported": watched.role,
        "role-reported-time": now_ms - watched.role_since_ms,
    }
    if watched.kind == "master":
        row |= {
            "config-epoch": model.config_epoch,
            "num-slaves": len(model.replicas),
            "num-other-sentinels": len(model.sentinels),
            "quorum": settings.quorum,
            "failover-timeout": settings.failover_timeout_ms,
            "parallel-syncs": PARALLEL_SYNCS,
        }
    else:
        host, port = watched.follows
        row |= {
            "master-link-down-time": watched.link_down_ms,
            "master-link-status": "ok" if watched.hears_master else "err",
            "master-host": host or "?",
            "master-port": port,
            "slave-priority": watched.priority,
            "slave-repl-offset": watched.offset,
            "replica-announced": 1,
        }
    return _map(row.items())


def _map(pairs: Iterable[tuple[str, Any]]) -> Map:
    return Map(str(part).encode() for pair in pairs for part in pair)


def _own() -> tuple[Command, ...]:
    by_name = {
        "ckquorum": (_check_quorum, 3),
        "failover": (_failover, 3),
        "get-master-addr-by-name": (_where, 3),
        "is-master-down-by-addr": (_judge, 6),
        "master": (_master, 3),
        "masters": (_masters, 2),
        "myid": (_identity, 2),
        "replicas": (_replicas, 3),
        "sentinels": (_sentinels, 3),
        "slaves": (_replicas, 3),
    }
    children = {
        name.encode(): Command(f"sentinel|{name}", run, arity) for name, (run, arity) in by_name.items()
    }
    return (
        Command("info", _info, -1),
        Command("publish", _publish, 3),
        Command("role", _role, 1),
        Command("sentinel", _never, -2, children=children),
    )


def _never(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    raise AssertionError("a command with subcommands does nothing itself")


@functools.cache
def commands_of_a_sentinel(server: Server) -> Commands:
    """The commands of a Sentinel of this version, by name in lower and in upper case."""
    commands = Commands(server)
    for name in [name for name in commands if name.lower().decode() not in _SHARED]:
        del commands[name]
    for own in _own():
        commands[own.name.encode()] = commands[own.name.upper().encode()] = own
    return commands
