"""Replication, as commands see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.redis_model.arguments import integer
from lab.redis_model.blocking import Wait
from lab.redis_model.registry import command
from lab.redis_model.reply import NO_REPLY, OK, RedisError, Reply, Status

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


@command("replicaof", 3, in_scripts=False, propagates=False, shown=False)
@command("slaveof", 3, in_scripts=False, propagates=False, shown=False)
def _replicaof(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if args[1].lower() == b"no" and args[2].lower() == b"one":
        server.replication.lead()
        return OK
    port = integer(args[2], "ERR Invalid master port")
    if not 0 <= port <= 65535:
        raise RedisError("ERR Invalid master port")
    host = args[1].decode()
    if server.replication.master == (host, port):
        return Status(b"OK Already connected to specified master")
    server.replication.follow(host, port)
    return OK


@command("role", 1)
def _role(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return server.replication.role()


@command("replconf", -1, in_scripts=False, shown=False)
def _replconf(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) % 2 == 0:
        raise RedisError("ERR syntax error")
    for word, value in zip(args[1::2], args[2::2], strict=True):
        option = word.lower()
        if option == b"ack":
            server.replication.acknowledged(session, integer(value))
            return NO_REPLY
        if option == b"listening-port":
            server.replication.ports[session] = integer(value)
        elif option == b"ip-address":
            server.replication.hosts[session] = value.decode(errors="replace")
        elif option != b"capa":
            raise RedisError(f"ERR Unrecognized REPLCONF option: {word.decode(errors='replace')}")
    return OK


@command("psync", -3, in_scripts=False, in_transactions=False, shown=False)
def _psync(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if not session.can_block:
        raise RedisError("ERR PSYNC needs a connection: there is no wire to replicate over")
    server.replication.synchronise(session)
    return NO_REPLY


def _timeout_ms(argument: bytes) -> int:
    timeout_ms = integer(argument, "ERR timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise RedisError("ERR timeout is negative")
    return timeout_ms


@command("wait", 3, in_scripts=False)
def _wait(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    replication = server.replication
    if replication.master is not None:
        raise RedisError(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a "
            "replica is configured to be writable (which is not the default) writes to replicas are just "
            "local and are not propagated."
        )
    wanted, timeout_ms = integer(args[1]), _timeout_ms(args[2])
    offset = session.written_offset

    def attempt(key: bytes | None) -> Reply:
        count = replication.count_acknowledged(offset)
        return count if count >= wanted else None

    deadline_ms = server.keys.now_ms + timeout_ms if timeout_ms else None
    wait = Wait((), attempt, deadline_ms, lambda: replication.count_acknowledged(offset))
    if replication.count_acknowledged(offset) >= wanted or session.queue is not None or not session.can_block:
        return wait.too_late()
    server.blocking.add(session, wait)
    replication.ask_acknowledgements()
    return NO_REPLY


@command("waitaof", 4, in_scripts=False)
def _waitaof(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """From Redis 7.2: wait until the file of this server is synced; of replicas' files nothing is known."""
    local, wanted, timeout_ms = integer(args[1]), integer(args[2]), _timeout_ms(args[3])
    if local not in (0, 1) or wanted < 0:
        raise RedisError("ERR value is out of range, value must between 0 and 1")
    if server.replication.master is not None:
        raise RedisError(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are "
            "just local and are not propagated."
        )
    if local and server.aof is None:
        raise RedisError("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
    written = server.disk().written

    def synced() -> int:
        disk = server.disk()
        return int(server.aof is not None and disk.synced >= written)

    def attempt(key: bytes | None) -> Reply:
        return [synced(), 0] if synced() >= local and wanted == 0 else None

    deadline_ms = server.keys.now_ms + timeout_ms if timeout_ms else None
    if (reply := attempt(None)) is not None or session.queue is not None or not session.can_block:
        return reply if reply is not None else [synced(), 0]
    server.blocking.add(session, Wait((), attempt, deadline_ms, lambda: [synced(), 0]))
    return NO_REPLY
