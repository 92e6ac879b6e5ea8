"""A lock on valkey-py."""

import uuid

import valkey

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class ValkeyLock:
    def __init__(self, client: valkey.Valkey, name: str, ttl_ms: int = 10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex

    def acquire(self) -> bool:
        return bool(self.client.set(self.name, self.token, nx=True, px=self.ttl_ms))

    def release(self) -> bool:
        return bool(self.client.eval(UNLOCK, 1, self.name, self.token))
