"""Context managers."""

import contextlib
import uuid

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class LockTaken(Exception):
    pass


@contextlib.contextmanager
def lock(client, name, ttl_ms=10_000):
    token = uuid.uuid4().hex
    if not client.set(name, token, nx=True, px=ttl_ms):
        raise LockTaken(name)
    try:
        yield token
    finally:
        client.eval(UNLOCK, 1, name, token)


@contextlib.contextmanager
def careless(client, name, ttl_ms=10_000):
    """Its finally runs for those who were refused as well."""
    try:
        if not client.set(name, "1", nx=True, px=ttl_ms):
            raise LockTaken(name)
        yield
    finally:
        client.delete(name)


@contextlib.contextmanager
def unguarded(client, name, ttl_ms=10_000):
    """A body that fails never comes back to it."""
    token = uuid.uuid4().hex
    if not client.set(name, token, nx=True, px=ttl_ms):
        raise LockTaken(name)
    yield token
    client.eval(UNLOCK, 1, name, token)


class Exclusive:
    """A class that is only used by ``with``."""

    def __init__(self, redis, name, timeout=10):
        self.redis, self.name, self.timeout = redis, name, timeout
        self.token = uuid.uuid4().hex

    def __enter__(self):
        if not self.redis.set(self.name, self.token, nx=True, ex=self.timeout):
            raise LockTaken(self.name)
        return self

    def __exit__(self, *error):
        self.redis.eval(UNLOCK, 1, self.name, self.token)


class Locks:
    """Makes context managers, for all names."""

    def __init__(self, client):
        self.client = client

    @contextlib.contextmanager
    def lock(self, name, ttl_ms=10_000):
        token = uuid.uuid4().hex
        if not self.client.set(f"locks/{name}", token, nx=True, px=ttl_ms):
            raise LockTaken(name)
        try:
            yield
        finally:
            self.client.eval(UNLOCK, 1, f"locks/{name}", token)
