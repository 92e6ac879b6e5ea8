"""A read-write lock that blocks: the writer's key, and readers in a sorted set beside it."""

from __future__ import annotations

import uuid

import redis

from tests.locks_to_test.ordinary.sharing import ENTER, LEAVE


class ReadWriteLock:
    """One method to take it and one to give it back, for readers and for the writer."""

    def __init__(self, client: redis.Redis, name: str, ttl: int = 10) -> None:
        self.client, self.ttl, self.token = client, ttl, uuid.uuid4().hex
        self.keys = f"rw:{name}", f"rw:{name}:readers"

    def read_acquire(self) -> bool:
        return bool(self.client.eval(ENTER, 2, *self.keys, self.token, self.ttl * 1000, "read"))

    def write_acquire(self) -> bool:
        return bool(self.client.eval(ENTER, 2, *self.keys, self.token, self.ttl * 1000, "write"))

    def release(self) -> bool:
        return bool(self.client.eval(LEAVE, 2, *self.keys, self.token))
