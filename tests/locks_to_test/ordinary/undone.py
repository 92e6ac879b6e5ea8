"""Redlock, one node after the other, whose tries are taken back when they fail."""

import contextlib
import time
import uuid

import redis

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class UndoneEverywhere:
    """Takes back a try that failed from all nodes."""

    def __init__(self, clients: list[redis.Redis], name: str, ttl_ms: int = 10_000):
        self.clients, self.name, self.ttl_ms = clients, f"lock:{name}", ttl_ms
        self.token, self.voted = uuid.uuid4().hex, []

    def acquire(self):
        began, self.voted = time.monotonic(), []
        for client in self.clients:
            with contextlib.suppress(redis.RedisError):
                if client.set(self.name, self.token, nx=True, px=self.ttl_ms):
                    self.voted.append(client)
        left_ms = self.ttl_ms * 0.99 - 2 - (time.monotonic() - began) * 1000
        if len(self.voted) > len(self.clients) // 2 and left_ms > 0:
            return True
        self._delete(self.to_undo())
        return False

    def to_undo(self):
        return self.clients

    def release(self):
        self._delete(self.clients)

    def _delete(self, clients):
        for client in clients:
            with contextlib.suppress(redis.RedisError):
                client.eval(UNLOCK, 1, self.name, self.token)


class UndoneWhereVoted(UndoneEverywhere):
    """Takes it back from those nodes only which said yes."""

    def to_undo(self):
        return self.voted
