"""Locks on several servers."""

import random
import time
import uuid

import redis

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class OnMost:
    """Redlock."""

    def __init__(self, servers: list[redis.Redis], resource: str, ttl_ms: int = 10_000):
        self.servers, self.resource, self.ttl_ms = servers, resource, ttl_ms
        self.token = uuid.uuid4().hex

    def enough(self, count):
        return count > len(self.servers) // 2

    def acquire(self, retries: int = 3):
        for _ in range(retries):
            start = time.monotonic()
            count = sum(map(self.set_on, self.servers))
            left_ms = self.ttl_ms * 0.99 - 2 - (time.monotonic() - start) * 1000
            if self.enough(count) and left_ms > 0:
                return True
            self.release()
            time.sleep(random.uniform(0, 0.2))
        return False

    def set_on(self, server):
        try:
            return bool(server.set(self.resource, self.token, nx=True, px=self.ttl_ms))
        except redis.RedisError:
            return False

    def release(self):
        for server in self.servers:
            try:
                server.eval(UNLOCK, 1, self.resource, self.token)
            except redis.RedisError:
                pass


class OnHalf(OnMost):
    """Two of five are enough for it."""

    def enough(self, count):
        return count >= len(self.servers) // 2
