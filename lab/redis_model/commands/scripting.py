"""EVAL and the cache of scripts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from lab.redis_model.arguments import integer
from lab.redis_model.registry import command, subcommand
from lab.redis_model.reply import OK, RedisError, Reply
from lab.redis_model.scripts import Lua, digest, no_script

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session


@functools.cache
def lua() -> Lua:
    """Return the interpreter that all simulated servers share."""
    return Lua()


def _run(server: RedisModel, session: Session, source: bytes, args: list[bytes], *, may_write: bool) -> Reply:
    count = integer(args[2])
    if count > len(args) - 3:
        raise RedisError("ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise RedisError("ERR Number of keys can't be negative")
    at = 3 + count
    return lua().run(server, source, args[3:at], args[at:], may_write=may_write)


def _show(server: RedisModel, session: Session, args: list[bytes]) -> None:
    """Let those who watch see it, explicitly, since the script's own commands have to follow it."""
    if server.monitors or server.on_command is not None:
        server.show(session, args)


def _eval(server: RedisModel, session: Session, args: list[bytes], *, may_write: bool = True) -> Reply:
    _show(server, session, args)
    lua().compile(args[1])
    name = digest(args[1])
    server.scripts.setdefault(name, args[1])
    return _run(server, session, args[1], args, may_write=may_write)


def _evalsha(server: RedisModel, session: Session, args: list[bytes], *, may_write: bool = True) -> Reply:
    _show(server, session, args)
    source = server.scripts.get(args[1].lower())
    if source is None:
        raise RedisError(no_script(server.server))
    return _run(server, session, source, args, may_write=may_write)


_SCRIPT: Final[dict[str, Any]] = {"in_scripts": False, "propagates": False, "shown": False}
command("eval", -3, **_SCRIPT)(_eval)
command("evalsha", -3, **_SCRIPT)(_evalsha)
command("eval_ro", -3, **_SCRIPT)(functools.partial(_eval, may_write=False))
command("evalsha_ro", -3, **_SCRIPT)(functools.partial(_evalsha, may_write=False))


@subcommand("script", "load", 3, in_scripts=False)
def _load(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    lua().compile(args[2])
    name = digest(args[2])
    server.scripts[name] = args[2]
    return name


@subcommand("script", "exists", -3, in_scripts=False)
def _exists(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    return [int(name.lower() in server.scripts) for name in args[2:]]


@subcommand("script", "flush", -2, "ASYNC SYNC", in_scripts=False)
def _flush(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 3 or (len(args) == 3 and args[2].upper() not in (b"SYNC", b"ASYNC")):
        raise RedisError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    server.scripts.clear()
    return OK


@subcommand("script", "kill", 2, in_scripts=False)
def _kill(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    raise RedisError("NOTBUSY No scripts in execution right now.")
