"""What nearly every request of a trial does, without an interpreter of scripts and without reading options.

For the direct wire. A shortcut does exactly what its script or command does, or nothing: where that would
fail, or is called as no lock of ours calls it, it answers ``NO_SHORTCUT``, and the script or command itself
runs. Only how often commands were run is not counted. A test compares both on random states.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

from lab.locks.redlock import EXTEND_SCRIPT, UNLOCK_SCRIPT
from lab.redis_model import ErrorReply, RedisModel
from lab.redis_model.keyspace import Hash, List
from lab.redis_model.registry import COMMANDS
from lab.redis_model.reply import OK, RedisError, Reply
from lab.redis_model.scripts import digest
from lab.redis_model.session import Argument, as_bytes
from lab.store import store_script

NO_SHORTCUT: Final = ErrorReply("there is no shortcut")
"""The script or command has to run, and nothing is changed."""
Run = Callable[[RedisModel, list[bytes]], Reply]
"""A server and the script's keys and arguments."""

DIGITS_MAX: Final = 14
"""Longer numbers may not be the same in Lua."""
TTL_MS_MAX: Final = 10**12
_PEXPIRE, _HSET, _RPUSH = (COMMANDS[name] for name in (b"pexpire", b"hset", b"rpush"))
_TO_ESCAPE: Final = re.compile(rb'[\x00-\x1f"\\/\x7f]')


def _set(model: RedisModel, request: tuple[Argument, ...]) -> Reply:
    """``SET key token NX PX ttl``."""
    if len(request) != 6:
        return NO_SHORTCUT
    _, key, token, if_free, unit, ttl_ms = request
    if if_free != "NX" or unit != "PX" or type(ttl_ms) is not int or not 0 < ttl_ms < TTL_MS_MAX:
        return NO_SHORTCUT
    if type(key) is not str or type(token) is not str:
        return NO_SHORTCUT
    keys = model.keys
    name, value = key.encode(), token.encode()
    if keys.get(name) is not None:
        return None
    when_ms = keys.now_ms + ttl_ms
    keys.put(name, value)
    keys.set_expiry(name, when_ms)
    if model.channels.events:
        model.channels.notify("$", b"set", name)
        model.channels.notify("g", b"expire", name)
    model.propagate_alone([b"SET", name, value, b"PXAT", b"%d" % when_ms])
    return OK


def _unlock(model: RedisModel, given: list[bytes]) -> Reply:
    if len(given) != 2:
        return NO_SHORTCUT
    key, token = given
    if model.keys.string(key) != token:
        return 0
    model.keys.delete(key)
    model.channels.notify("g", b"del", key)
    model.propagate_alone([b"del", key])
    return 1


def _extend(model: RedisModel, given: list[bytes]) -> Reply:
    if len(given) != 3 or not _is_small(given[2]):
        return NO_SHORTCUT
    key, token, ttl_ms = given
    if model.keys.string(key) != token:
        return 0
    when_ms = model.keys.expires.get(key, -1)
    if (when_ms if when_ms < 0 else max(0, when_ms - model.keys.now_ms)) <= int(ttl_ms):
        model.perform(model.script_session, _PEXPIRE, [b"pexpire", key, ttl_ms])
    return 1


def _store(model: RedisModel, given: list[bytes]) -> Reply:
    kept = model.keys.collection(given[0], Hash)
    fields = {} if kept is None else kept
    version, highest = fields.get(b"version", b"0"), fields.get(b"fence", b"")
    if not _is_small(version):
        return NO_SHORTCUT
    verb, count = given[3], len(given)
    if verb == b"read" and (count < 6 or given[5] != b"1"):
        return [1, int(version), fields.get(b"value", b""), highest]
    if verb == b"announce" and count == 5:
        if given[0] == given[2] or _TO_ESCAPE.search(given[4]):
            return NO_SHORTCUT
        model.keys.collection(given[2], List)  # or the script would fail in the middle
        model.perform(model.script_session, _HSET, [b"HSET", given[0], b"token", given[4]])
        _executed(model, given[2], (b"announce", given[4], b"", version))
        return [1, int(version), b"", highest]
    if verb == b"write" and count == 10:
        return _write(model, given, fields, int(version), highest)
    return NO_SHORTCUT


def _write(
    model: RedisModel, given: list[bytes], fields: dict[bytes, bytes], version: int, highest: bytes
) -> Reply:
    key, log, executed, _, value, grant, fence, based_on, checks, token = given
    if key in (log, executed) or log == executed or _TO_ESCAPE.search(value + grant + fence + based_on):
        return NO_SHORTCUT
    for each in (log, executed):
        model.keys.collection(each, List)  # or the script would fail in the middle
    rejected = (b"write", grant, value, b"0")
    announced = fields.get(b"token")
    if token and announced != token:
        _executed(model, executed, rejected)
        reason = b"token: %b after %b was announced" % (token, b"none" if announced is None else announced)
        return [0, version, reason, highest]
    session = model.script_session
    if checks == b"1":
        if not fence:
            _executed(model, executed, rejected)
            return [0, version, b"no fence was given", highest]
        if highest:
            if not (_is_small(fence) and _is_small(highest)):
                return NO_SHORTCUT
            if int(fence) < int(highest):
                _executed(model, executed, rejected)
                return [0, version, b"fenced: %b after %b" % (fence, highest), highest]
        highest = fence
        model.perform(session, _HSET, [b"HSET", key, b"fence", fence])
    version += 1
    model.perform(session, _HSET, [b"HSET", key, b"version", b"%d" % version, b"value", value])
    line = b'[%d,"%b","%b","%b","%b"]' % (version, value, grant, fence, based_on)
    model.perform(session, _RPUSH, [b"RPUSH", log, line])
    _executed(model, executed, (b"write", grant, value, b"%d" % version))
    return [1, version, b"", highest]


def _executed(model: RedisModel, key: bytes, about: tuple[bytes, bytes, bytes, bytes]) -> None:
    now = divmod(model.now_us, 1_000_000)
    line = b'["%d","%d","%b","%b","%b",%b]' % (*now, *about)
    model.perform(model.script_session, _RPUSH, [b"RPUSH", key, line])


def _is_small(number: bytes) -> bool:
    """Whether it is a whole number that is the same for Lua, for Redis and for Python."""
    return (
        number.isdigit() and len(number) <= DIGITS_MAX and (number[0] != 48 or number == b"0")
    )  # 48: a zero


def _encoded(arguments: tuple[Argument, ...]) -> list[bytes]:
    """``as_bytes``, sooner where all is text."""
    try:
        return [argument.encode() for argument in arguments]  # type: ignore[union-attr]
    except AttributeError:
        return as_bytes(arguments)


@functools.cache
def shortcuts() -> dict[Argument, tuple[bytes, bytes, int, Run]]:
    """Return the shortcuts by the scripts' text: digest, text, number of keys, what runs instead."""
    scripts = ((UNLOCK_SCRIPT, 1, _unlock), (EXTEND_SCRIPT, 1, _extend), (store_script(), 3, _store))
    return {text: (digest(text.encode()), text.encode(), keys, run) for text, keys, run in scripts}


def taken(model: RedisModel, request: tuple[Argument, ...]) -> Reply:
    """Take the shortcut for a request, if there is one; ``NO_SHORTCUT``: the server has to execute it."""
    if model.guarded or model.monitors or model.on_command is not None:
        return NO_SHORTCUT
    name = request[0]
    model.now_us = now_us = model.wall_ns() // 1000  # ``read_clock``, here where it is asked most
    model.keys.now_ms = now_us // 1000
    if name == "SET":
        reply = _set(model, request)
        if reply is NO_SHORTCUT:
            return reply
    elif name == "EVAL":
        known = shortcuts().get(request[1])
        if known is None or known[2] != request[2]:
            return NO_SHORTCUT
        try:
            reply = known[3](model, _encoded(request[3:]))
        except RedisError:  # the script will say what is wrong, and where
            return NO_SHORTCUT
        if reply is NO_SHORTCUT:
            return reply
        model.scripts.setdefault(known[0], known[1])
    else:
        return NO_SHORTCUT
    model.finish()
    if model.aof is not None and not model.aof.always:
        model.settle()
    return reply
