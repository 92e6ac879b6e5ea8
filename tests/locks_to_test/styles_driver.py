"""A correct synchronous lock on one node behind the protocol: it claims nothing, and extends nothing."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any, ClassVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lab.drivers.python import wire

Grant: Any = wire.Grant
Refused: Any = wire.Refused
serve: Any = wire.serve

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Driver:
    """One client of the lock."""

    distribution = "no-such-distribution"
    caps: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[str, ...]] = ()
    key = "order:{}"

    def open(self, nodes: list[tuple[str, int]], options: dict[str, Any]) -> None:
        host, port = nodes[0]
        self.redis = redis.Redis(host=host, port=port, socket_timeout=0.5, retry=Retry(NoBackoff(), 0))

    def acquire(self, key: str, ttl_ms: int) -> Any:
        if not key.startswith("order:"):
            raise ValueError(key)
        token = uuid.uuid4().hex
        try:
            granted = self.redis.set(key, token, nx=True, px=ttl_ms)
        except redis.RedisError:
            with contextlib.suppress(redis.RedisError):
                self.redis.eval(DELETE, 1, key, token)
            raise
        if not granted:
            raise Refused("taken")
        return Grant((key, token), token)

    def release(self, lease: tuple[str, str]) -> None:
        if not self.redis.eval(DELETE, 1, *lease):
            raise Refused("not ours")

    def close(self) -> None:
        self.redis.close()


if __name__ == "__main__":
    serve(Driver())
