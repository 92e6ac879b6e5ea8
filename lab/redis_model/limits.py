"""Directives of a configuration that the model follows: when a server refuses to write, and what it evicts.

A master with `min-replicas-to-write` refuses to write while fewer replicas than that have reported within
`min-replicas-max-lag` seconds; a real one counts them once a second, this one whenever it is asked.

Before each command a server with `maxmemory` evicts keys while it uses more. If it may evict none it refuses
commands that need memory (OOM). What it uses is an estimate: as much as an empty server, and its keys. As in
a real server, `lru` and `ttl` take the best of a few keys that are drawn at random, and times of use are kept
in seconds. A real server remembers good candidates of earlier draws; this one does not.

Source: Redis 7.0, ``processCommand``, ``performEvictions``, ``scriptVerifyWriteCommandAllow``,
``scriptVerifyOOM``, and the documentation of key eviction.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.redis_model.keyspace import Hash, Keyspace, List, Stream, Value

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel

EMPTY_BYTES: Final = 1_000_000
"""What a server without keys uses: 0.85 to 1.1 MB in Redis 6.2 to 8.6 and Valkey 8.1."""
KEY_BYTES: Final = 80
"""What a key takes besides its name and its value."""
MAXMEMORY_MIN: Final = 2_000_000
"""A smaller `maxmemory` depends on what the server itself uses, so it is not simulated."""
POLICIES: Final = (
    "noeviction", "allkeys-lru", "allkeys-random", "volatile-lru", "volatile-random", "volatile-ttl",
)  # fmt: skip
_NEED_MEMORY = """
append bitfield bitop blmove brpoplpush copy decr decrby getset hincrby hincrbyfloat hmset hset hsetex hsetnx
incr incrby incrbyfloat linsert lmove lpush lpushx lset mset msetex msetnx psetex rpoplpush rpush rpushx sadd
sdiffstore set setbit setex setnx setrange sinterstore sunionstore xadd xgroup|create xgroup|createconsumer
xsetid zadd zdiffstore zincrby zinterstore zrangestore zunionstore
"""
NEED_MEMORY: Final = frozenset(_NEED_MEMORY.split())
"""Commands that a server refuses when its memory is full: `denyoom` in COMMAND INFO."""
_ONLY_LOOK = "exists expiretime object|encoding pexpiretime pttl ttl type"
ONLY_LOOK: Final = frozenset(_ONLY_LOOK.split())
"""Commands that don't count as a use of a key."""
_KB, _MB, _GB = 1 << 10, 1 << 20, 1 << 30
_UNITS: Final = {"": 1, "b": 1, "k": 10**3, "kb": _KB, "m": 10**6, "mb": _MB, "g": 10**9, "gb": _GB}
_MEMORY: Final = re.compile(r"(\d+)([kmg]?b?)")
_OLD_NAMES: Final = {
    "min-slaves-to-write": "min-replicas-to-write",
    "min-slaves-max-lag": "min-replicas-max-lag",
}


class NotSimulated(ValueError):
    """A directive, or its value, that the model does not follow."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The directives that are simulated, with their defaults."""

    min_replicas: int = 0
    max_lag_s: int = 10
    memory_bytes: int = 0
    """0: no limit."""
    policy: str = "noeviction"
    samples: int = 5
    syncs: bool = True
    """Whether the append-only file is synced by the server at all."""
    events: str = ""

    @classmethod
    @functools.cache
    def of(cls, config: tuple[tuple[str, str], ...]) -> Limits:
        """Read a configuration. Raises ``NotSimulated``."""
        given: dict[str, Any] = {}
        for written, value in config:
            match _OLD_NAMES.get(written, written), value.lower():
                case "min-replicas-to-write", number:
                    given["min_replicas"] = _number(written, number)
                case "min-replicas-max-lag", number:
                    given["max_lag_s"] = _number(written, number)
                case "maxmemory", size:
                    given["memory_bytes"] = _memory(size)
                case "maxmemory-policy", policy if policy in POLICIES:
                    given["policy"] = policy
                case "maxmemory-samples", number:
                    given["samples"] = max(_number(written, number), 1)
                case "appendfsync", "no":
                    given["syncs"] = False
                case "notify-keyspace-events", _:
                    given["events"] = value
                case _:
                    raise NotSimulated(f"{written} {value} is not simulated")
        return cls(**given)

    @property
    def hold(self) -> bool:
        """Whether there are any that commands have to be checked for."""
        return bool((self.min_replicas and self.max_lag_s) or self.memory_bytes)

    @property
    def evicts(self) -> bool:
        """Whether keys are evicted when the memory is full."""
        return bool(self.memory_bytes) and self.policy != "noeviction"

    def keyspace(self, *told: Any) -> Keyspace:
        """A keyspace that remembers what the policy asks for."""
        return UsedKeyspace(*told) if self.policy.endswith("lru") else Keyspace(*told)

    def lacks_replicas(self, model: RedisModel) -> bool:
        """Whether a master has too few good replicas to write."""
        if not (self.min_replicas and self.max_lag_s):
            return False
        return model.replication.count_good(self.max_lag_s) < self.min_replicas

    def make_room(self, model: RedisModel) -> bool:
        """Evict keys as long as too much memory is used; whether enough is free then."""
        if not self.memory_bytes or model.keys.is_replica:
            return True
        used = used_bytes(model.keys)
        while used > self.memory_bytes:
            key = self._victim(model)
            if key is None:
                return False
            used -= _size(key, model.keys.data[key])
            model.evict(key)
        return True

    def _victim(self, model: RedisModel) -> bytes | None:
        keys = model.keys
        if not self.evicts:
            return None
        candidates = list(keys.data if self.policy.startswith("allkeys") else keys.expires)
        if not candidates:
            return None
        if self.policy.endswith("random"):
            return model.random.choice(candidates)
        drawn = model.random.sample(candidates, min(self.samples, len(candidates)))
        if self.policy == "volatile-ttl":
            return min(drawn, key=lambda key: keys.expires[key])
        assert isinstance(keys, UsedKeyspace)
        return min(drawn, key=lambda key: keys.used_s.get(key, 0))


class UsedKeyspace(Keyspace):
    """A keyspace that remembers in which second each key was used last."""

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        self.used_s: dict[bytes, int] = {}
        self.only_looks = False
        """Whether the command that runs does not count as a use."""

    def get(self, key: bytes) -> Value | None:
        """Return the value, None if there is none (any more)."""
        value = super().get(key)
        if value is not None and not self.only_looks:
            self.used_s[key] = self.now_ms // 1000
        return value

    def put(self, key: bytes, value: Value) -> None:
        """Set a value that never expires."""
        super().put(key, value)
        self.used_s[key] = self.now_ms // 1000


def used_bytes(keys: Keyspace) -> int:
    """How much memory a server with these keys uses: an estimate."""
    return EMPTY_BYTES + sum(_size(key, value) for key, value in keys.data.items())


def _size(key: bytes, value: Value) -> int:
    if isinstance(value, bytes):
        size = len(value)
    elif isinstance(value, Hash):
        size = sum(len(field) + len(content) + KEY_BYTES for field, content in value.items())
    elif isinstance(value, List):
        size = sum(len(element) + KEY_BYTES // 4 for element in value)
    elif isinstance(value, Stream):
        size = sum(len(part) + KEY_BYTES // 4 for content in value.values() for part in content)
    else:
        size = sum(len(member) + KEY_BYTES for member in value)
    return KEY_BYTES + len(key) + size


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise NotSimulated(f"{name} {text} is no whole number")
    return int(text)


def _memory(text: str) -> int:
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise NotSimulated(f"maxmemory {text} is no size such as 8mb")
    size = int(found[1]) * _UNITS[found[2]]
    if 0 < size < MAXMEMORY_MIN:
        raise NotSimulated(
            f"maxmemory {text} is not simulated: it is about what an empty server uses, so versions differ"
        )
    return size
