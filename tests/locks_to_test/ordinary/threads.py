"""Locks that use threads."""

import threading
import uuid

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
PROLONG = UNLOCK.replace("'del', KEYS[1]", "'pexpire', KEYS[1], ARGV[2]")


class Renewed:
    """A thread extends the lease until it is given back."""

    def __init__(self, client, name, ttl_ms=9000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.token = uuid.uuid4().hex
        self.stop = threading.Event()

    def acquire(self):
        if not self.client.set(self.name, self.token, nx=True, px=self.ttl_ms):
            return False
        self.thread = threading.Thread(target=self.renew, daemon=True)
        self.thread.start()
        return True

    def renew(self):
        while not self.stop.wait(self.ttl_ms / 3000):
            self.client.eval(PROLONG, 1, self.name, self.token, self.ttl_ms)

    def release(self):
        self.stop.set()
        self.thread.join()
        self.client.eval(UNLOCK, 1, self.name, self.token)


class Reentrant:
    """Counts, in a hash, how often its thread has it; whose it is, is not asked when it is given back."""

    def __init__(self, client, name, ttl_ms=10_000):
        self.client, self.name, self.ttl_ms = client, name, ttl_ms
        self.owner = f"{uuid.uuid4()}:{threading.get_ident()}"

    def acquire(self):
        with self.client.pipeline() as pipe:
            pipe.watch(self.name)
            holder = pipe.hget(self.name, "owner")
            if holder not in (None, self.owner):
                return False
            pipe.multi()
            pipe.hset(self.name, "owner", self.owner)
            pipe.hincrby(self.name, "count", 1)
            pipe.pexpire(self.name, self.ttl_ms)
            pipe.execute()
            return True

    def release(self):
        if self.client.hincrby(self.name, "count", -1) <= 0:
            self.client.delete(self.name)
