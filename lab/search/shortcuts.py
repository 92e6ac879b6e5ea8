"""What the scripts do that nearly every trial runs, without an interpreter; for the direct wire.

A shortcut does exactly what its script does, or nothing: where the script would fail, or is called as no lock
of ours calls it, it answers None, and the script itself runs. A test compares both on random states.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import resources
from typing import Final

from lab.search.actor import EXTEND, UNLOCK
from lab.substrates.sim.redis import RedisModel
from lab.substrates.sim.redis.keyspace import Hash, List
from lab.substrates.sim.redis.registry import COMMANDS
from lab.substrates.sim.redis.reply import RedisError, Reply
from lab.substrates.sim.redis.scripts import digest
from lab.substrates.sim.redis.session import Argument, as_bytes

Run = Callable[[RedisModel, list[bytes]], Reply]
"""A server and the script's keys and arguments; None: the script has to run after all."""

DIGITS_MAX: Final = 14
"""Longer numbers may not be the same in Lua."""
_DEL, _PEXPIRE, _HSET, _RPUSH = (COMMANDS[name] for name in (b"del", b"pexpire", b"hset", b"rpush"))
_TO_ESCAPE: Final = re.compile(rb'[\x00-\x1f"\\/\x7f]')


@functools.cache
def store_script() -> str:
    """Return the script of the store."""
    return resources.files("lab.store").joinpath("store.lua").read_text(encoding="utf-8")


def _unlock(model: RedisModel, given: list[bytes]) -> Reply:
    if len(given) != 2:
        return None
    key, token = given
    if model.keys.string(key) != token:
        return 0
    return model.perform(model.script_session, _DEL, [b"del", key])


def _extend(model: RedisModel, given: list[bytes]) -> Reply:
    if len(given) != 3 or not _is_small(given[2]):
        return None
    key, token, ttl_ms = given
    if model.keys.string(key) != token:
        return 0
    return model.perform(model.script_session, _PEXPIRE, [b"pexpire", key, ttl_ms])


def _store(model: RedisModel, given: list[bytes]) -> Reply:
    kept = model.keys.collection(given[0], Hash)
    fields = {} if kept is None else kept
    version, highest = fields.get(b"version", b"0"), fields.get(b"fence", b"")
    if not _is_small(version):
        return None
    verb, count = given[2], len(given)
    if verb == b"read" and count == 3:
        return [1, int(version), fields.get(b"value", b""), highest]
    if verb == b"announce" and count == 4:
        model.perform(model.script_session, _HSET, [b"HSET", given[0], b"token", given[3]])
        return [1, int(version), b"", highest]
    return _write(model, given, fields, int(version), highest) if verb == b"write" and count == 9 else None


def _write(
    model: RedisModel, given: list[bytes], fields: dict[bytes, bytes], version: int, highest: bytes
) -> Reply:
    key, log, _, value, grant, fence, based_on, checks, token = given
    if key == log or _TO_ESCAPE.search(value + grant + fence + based_on):
        return None
    model.keys.collection(log, List)  # or the script would fail in the middle
    announced = fields.get(b"token")
    if token and announced != token:
        reason = b"token: %b after %b was announced" % (token, b"none" if announced is None else announced)
        return [0, version, reason, highest]
    session = model.script_session
    if checks == b"1":
        if not fence:
            return [0, version, b"no fence was given", highest]
        if highest:
            if not (_is_small(fence) and _is_small(highest)):
                return None
            if int(fence) < int(highest):
                return [0, version, b"fenced: %b after %b" % (fence, highest), highest]
        highest = fence
        model.perform(session, _HSET, [b"HSET", key, b"fence", fence])
    version += 1
    model.perform(session, _HSET, [b"HSET", key, b"version", b"%d" % version, b"value", value])
    line = b'[%d,"%b","%b","%b","%b"]' % (version, value, grant, fence, based_on)
    model.perform(session, _RPUSH, [b"RPUSH", log, line])
    return [1, version, b"", highest]


def _is_small(number: bytes) -> bool:
    """Whether it is a whole number that is the same for Lua, for Redis and for Python."""
    return (
        number.isdigit() and len(number) <= DIGITS_MAX and (number[0] != 48 or number == b"0")
    )  # 48: a zero


@functools.cache
def shortcuts() -> dict[Argument, tuple[bytes, bytes, int, Run]]:
    """Return the shortcuts by the scripts' text: digest, text, number of keys, what runs instead."""
    scripts = ((UNLOCK, 1, _unlock), (EXTEND, 1, _extend), (store_script(), 2, _store))
    return {text: (digest(text.encode()), text.encode(), keys, run) for text, keys, run in scripts}


def taken(model: RedisModel, request: tuple[Argument, ...]) -> Reply:
    """Take the shortcut for an EVAL, if there is one; None: the script has to run, and nothing is changed."""
    known = shortcuts().get(request[1])
    if known is None or known[2] != request[2]:
        return None
    model.read_clock()
    try:
        reply = known[3](model, as_bytes(request[3:]))
    except RedisError:  # the script will say what is wrong, and where
        return None
    if reply is not None:
        model.scripts.setdefault(known[0], known[1])
        model.finish()
        if model.aof is not None:
            model.settle()
    return reply
