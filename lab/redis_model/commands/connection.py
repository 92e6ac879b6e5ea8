"""The connection itself: HELLO, CLIENT, PING, ECHO, MONITOR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.redis_model.arguments import SYNTAX, integer
from lab.redis_model.registry import command, subcommand
from lab.redis_model.reply import NO_REPLY, OK, PONG, Map, RedisError, Reply, Status

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


DATABASES: Final = 16
"""How many a server has unless it is told otherwise."""


@command("ping", -1, while_subscribed=True)
def _ping(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 2:
        raise RedisError("ERR wrong number of arguments for 'ping' command")
    if (session.channels or session.patterns) and not session.resp3:
        return [b"pong", args[1] if len(args) == 2 else b""]
    return args[1] if len(args) == 2 else PONG


@command("echo", 2)
def _echo(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return args[1]


@command("quit", -1, in_scripts=False, while_subscribed=True)
def _quit(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    session.end()
    return OK


@command("reset", 1, in_scripts=False, while_subscribed=True)
def _reset(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    server.silence(session)
    session.leave_transaction()
    session.resp3, session.name, session.replies = False, b"", "on"
    return Status(b"RESET")


@command("select", 2)
def _select(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """There is one database, number 0."""
    index = integer(args[1])
    if index != 0:
        if 0 < index < DATABASES:
            server.miss(f"SELECT {index} (another database than 0)")
        raise RedisError("ERR DB index is out of range")
    return OK


@command("auth", -2, in_scripts=False)
def _auth(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    raise RedisError(
        "ERR AUTH <password> called without any password configured for the default user. "
        "Are you sure your configuration is correct?"
    )


@command("hello", -1, "AUTH SETNAME", in_scripts=False)
def _hello(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    version = 3 if session.resp3 else 2
    name: bytes | None = None
    at = 2
    if len(args) > 1:
        version = integer(args[1], "ERR Protocol version is not an integer or out of range")
        if version not in (2, 3):
            raise RedisError("NOPROTO unsupported protocol version")
    while at < len(args):
        option = args[at].upper()
        if option == b"SETNAME" and at + 1 < len(args):
            name = _checked_name(args[at + 1])
            at += 2
        elif option == b"AUTH" and at + 2 < len(args):
            at += 3  # the default user takes any password
        else:
            shown = args[at].decode(errors="replace")
            raise RedisError(f"ERR Syntax error in HELLO option '{shown}'")
    session.resp3 = version == 3
    if name is not None:
        session.name = name
    role = b"replica" if server.replication.master is not None else b"master"
    shown_role = [] if server.mode == "sentinel" else [b"role", role]
    fields: list[object] = [b"server", server.server.product.encode(), b"version", server.version.encode()]
    fields += [
        b"proto",
        version,
        b"id",
        session.number,
        b"mode",
        server.mode.encode(),
        *shown_role,
        b"modules",
        [],
    ]
    return Map(fields)


def _checked_name(name: bytes) -> bytes:
    """Return the name of a connection. Raises ``RedisError``."""
    if any(not 33 <= code <= 126 for code in name):
        raise RedisError("ERR Client names cannot contain spaces, newlines or special characters.")
    return name


@subcommand("client", "setname", 3, in_scripts=False)
def _setname(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    session.name = _checked_name(args[2])
    return OK


@subcommand("client", "getname", 2, in_scripts=False)
def _getname(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return session.name or None


@subcommand("client", "id", 2, in_scripts=False)
def _id(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return session.number


@subcommand("client", "setinfo", 4, "LIB-NAME LIB-VER", in_scripts=False)
def _setinfo(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Libraries say who they are."""
    option = args[2].decode(errors="replace")
    if option.lower() not in ("lib-name", "lib-ver"):
        raise RedisError(f"ERR Unrecognized option '{option}'")
    return OK


@subcommand("client", "reply", 3, "ON OFF SKIP", in_scripts=False)
def _reply(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    word = args[2].lower()
    if word == b"on":
        session.replies = "on"
        return OK
    if word not in (b"off", b"skip"):
        raise RedisError("ERR syntax error")
    if session.replies != "off":
        session.replies = "off" if word == b"off" else "skip next"
    return NO_REPLY


@subcommand("client", "list", -2, in_scripts=False, shown=False)
def _list(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 2:
        raise RedisError(SYNTAX)  # a selection of clients is not simulated
    lines = (_line(each) for each in server.sessions.values() if each.can_block or each is session)
    return "".join(f"{line}\n" for line in lines).encode()


@subcommand("client", "info", 2, in_scripts=False)
def _info(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return f"{_line(session)}\n".encode()


def _line(session: Session) -> str:
    name = session.name.decode(errors="replace")
    queued = -1 if session.queue is None else len(session.queue)
    return (
        f"id={session.number} addr={session.peer} name={name} db=0 sub={len(session.channels)} "
        f"psub={len(session.patterns)} multi={queued} resp={3 if session.resp3 else 2}"
    )


@subcommand("client", "kill", -3, "ID ADDR TYPE", in_scripts=False, shown=False)
def _kill(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """By address, or by ID n, ADDR a or TYPE t."""
    if len(args) == 3:
        found = [each for each in server.sessions.values() if each.peer.encode() == args[2]]
        if not found:
            raise RedisError("ERR No such client")
    elif len(args) == 4:
        by = args[2].upper()
        if by not in (b"ID", b"ADDR", b"TYPE"):
            raise RedisError("ERR syntax error")
        if by == b"TYPE":
            found = _of_type(server, args[3])
        else:
            found = [
                each
                for each in server.sessions.values()
                if (b"%d" % each.number if by == b"ID" else each.peer.encode()) == args[3]
            ]
        found = [each for each in found if each is not session]  # SKIPME yes, the default
    else:
        raise RedisError("ERR syntax error")
    for each in found:
        each.end()
    return OK if len(args) == 3 else len(found)


def _of_type(server: RedisModel, wanted: bytes) -> list[Session]:
    """The connections of one type: MONITOR is a normal one. Raises ``RedisError``."""
    kind = {b"slave": "replica"}.get(wanted.lower(), wanted.lower().decode(errors="replace"))
    if kind not in ("normal", "master", "replica", "pubsub"):
        raise RedisError(f"ERR Unknown client type '{wanted.decode(errors='replace')}'")
    return [each for each in server.sessions.values() if _type_of(server, each) == kind]


def _type_of(server: RedisModel, session: Session) -> str:
    if session in server.replication.feeds:
        return "replica"
    return "pubsub" if session.channels or session.patterns else "normal"


@subcommand("client", "no-touch", 3, "ON OFF", in_scripts=False)
@subcommand("client", "no-evict", 3, "ON OFF", in_scripts=False)
def _on_or_off(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """Nothing follows of them but where keys are evicted by how long they were not used."""
    if args[2].upper() not in (b"ON", b"OFF"):
        raise RedisError(SYNTAX)
    if args[1].upper() == b"NO-TOUCH" and server.limits.policy.endswith("lru"):
        server.miss(f"CLIENT NO-TOUCH on a server that evicts by {server.limits.policy}")
    return OK


@subcommand("client", "unblock", -3, "TIMEOUT ERROR", in_scripts=False)
def _unblock(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    """End the waiting of another connection, as if its time was over or with an error."""
    reason = args[3].upper() if len(args) == 4 else b"TIMEOUT"
    if len(args) > 4 or reason not in (b"TIMEOUT", b"ERROR"):
        raise RedisError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    waiting = server.sessions.get(integer(args[2]))
    return int(waiting is not None and server.blocking.unblock(waiting, by_error=reason == b"ERROR"))


@command("monitor", 1, in_scripts=False, shown=False)
def _monitor(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if session.queue is not None:
        raise RedisError("ERR MONITOR isn't allowed for DENY BLOCKING client")
    if not session.can_block:
        raise RedisError("ERR MONITOR needs a connection: there is no wire to show commands on")
    server.monitors[session] = None
    return OK
