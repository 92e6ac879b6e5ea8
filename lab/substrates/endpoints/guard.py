"""What may be sent to a server that others use as well: known commands, on keys of this run only.

A list of what is allowed, since a list of what is not would miss the commands of the next version. What a
script does inside the server is not seen here; an ACL of the server is what bounds scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

_ABOUT_CONNECTIONS = "PING ECHO TIME ROLE INFO MULTI EXEC DISCARD UNWATCH QUIT WAIT READONLY COMMAND"
_FREE: Final = frozenset(_ABOUT_CONNECTIONS.split())
"""Commands that name no key and change nothing but the connection."""
_ON_FIRST = """
SET GET PTTL TTL PEXPIRE EXPIRE PEXPIREAT EXPIREAT PEXPIRETIME EXPIRETIME PERSIST TYPE STRLEN
GETSET GETDEL GETEX SETNX SETEX PSETEX INCR DECR INCRBY DECRBY APPEND
HSET HSETNX HMSET HGET HMGET HGETALL HDEL HEXISTS HINCRBY HLEN HKEYS HVALS
LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LRANGE LREM LLEN LTRIM LINDEX
SADD SREM SCARD SISMEMBER SMEMBERS
ZADD ZREM ZCARD ZCOUNT ZSCORE ZRANK ZRANGE ZRANGEBYSCORE ZREMRANGEBYSCORE ZREMRANGEBYRANK ZINCRBY ZPOPMIN
"""
_FIRST: Final = frozenset(_ON_FIRST.split())
"""Commands whose first argument is their one key."""
_ALL: Final = frozenset(
    ("DEL", "UNLINK", "EXISTS", "TOUCH", "WATCH", "MGET", "SUBSCRIBE", "UNSUBSCRIBE", "PSUBSCRIBE")
) | {"PUNSUBSCRIBE"}
"""Commands all of whose arguments are keys, or channels."""
_BLOCKING: Final = frozenset(("BLPOP", "BRPOP"))
_SCRIPTS: Final = frozenset(("EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"))
_WORDS: Final = {
    "CLIENT": frozenset(("SETNAME", "GETNAME", "ID", "SETINFO", "INFO", "TRACKINGINFO")),
    "SCRIPT": frozenset(("LOAD", "EXISTS")),
}
"""Commands that are allowed with these words only."""


class Guard:
    """Decides about every request of one run to one server, and remembers the keys that were named.

    Args:
        prefix: how each key and channel of the run begins.
        database: the number of the one database that may be selected.
        noted: called with each new key, before a request with it may be sent.
    """

    def __init__(self, prefix: str, database: int, noted: Callable[[str], None]) -> None:
        self._prefix, self._database, self._noted = prefix.encode(), database, noted
        self.keys: set[bytes] = set()
        """Every key that a request has named."""

    def refuses(self, request: Sequence[bytes]) -> str | None:
        """Say why a request may not be sent, or None: it may."""
        if not request:
            return None
        name = request[0].decode(errors="replace").upper()
        keys = self._keys(name, request)
        if keys is None:
            words = b" ".join(request[:2]) if name in _WORDS else request[0]
            return f"{_shown(words)} is not among the commands that the lab sends to servers of others"
        for key in keys:
            if not key.startswith(self._prefix):
                return f"{name} names {_shown(key)}, which does not begin with {self._prefix.decode()}"
        for key in keys:
            if key not in self.keys:
                self._noted(key.decode(errors="surrogateescape"))
                self.keys.add(key)
        return None

    def _keys(self, name: str, request: Sequence[bytes]) -> Sequence[bytes] | None:
        """The keys and channels that a request names; None: it is not allowed, whatever they are."""
        if name in _FREE:
            return ()
        if name in _FIRST or name == "PUBLISH":
            return request[1:2]
        if name in _ALL:
            return request[1:]
        if name in _BLOCKING:
            return request[1:-1]
        if name in _SCRIPTS:
            count = request[2] if len(request) > 2 else b""
            return request[3 : 3 + int(count)] if count.isdigit() else None
        if name in _WORDS:
            return (
                ()
                if len(request) > 1 and request[1].decode(errors="replace").upper() in _WORDS[name]
                else None
            )
        if name == "SELECT":
            return () if request[1:] == [b"%d" % self._database] else None
        if name == "HELLO":  # the login is made already
            return () if not any(word.upper() == b"AUTH" for word in request) else None
        return None


def _shown(words: bytes) -> str:
    return repr(words[:80].decode(errors="replace"))
