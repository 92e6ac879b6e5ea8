"""Two functions: one takes the lock, the other gives it back."""

import time
import uuid

import redis


def acquire_lock(conn, lockname, acquire_timeout=2, lock_timeout=10):
    """Returns the identifier, or False."""
    identifier = str(uuid.uuid4())
    end = time.time() + acquire_timeout
    while time.time() < end:
        if conn.set("lock:" + lockname, identifier, nx=True, ex=lock_timeout):
            return identifier
        time.sleep(0.05)
    return False


def release_lock(conn, lockname, identifier):
    """Deletes the key, if it is ours, in a transaction that is called off when it changes."""
    name = "lock:" + lockname
    with conn.pipeline() as pipe:
        while True:
            try:
                pipe.watch(name)
                if pipe.get(name) != identifier:
                    pipe.unwatch()
                    return False
                pipe.multi()
                pipe.delete(name)
                pipe.execute()
                return True
            except redis.WatchError:
                continue


class ByHash:
    """Its key is made of a hash, which is another one in each process."""

    def __init__(self, client, ttl_ms=10_000):
        self.client, self.ttl_ms = client, ttl_ms

    def acquire(self, name, token):
        return bool(self.client.set(f"job:{hash(name)}", token, nx=True, px=self.ttl_ms))

    def release(self, name, token):
        if self.client.get(f"job:{hash(name)}") == token.encode():
            self.client.delete(f"job:{hash(name)}")
