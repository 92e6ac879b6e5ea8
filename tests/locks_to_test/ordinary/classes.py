"""Classes with acquire and release, on redis-py."""

import time
import uuid

import redis

UNLOCK = """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
"""
PROLONG = """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
"""


class BareDelete:
    """Whoever comes late deletes what is there."""

    def __init__(self, client, name, ttl=10):
        self.client = client
        self.name = "lock:" + name
        self.ttl = ttl

    def acquire(self):
        return bool(self.client.set(self.name, "locked", nx=True, ex=self.ttl))

    def release(self):
        self.client.delete(self.name)


class CompareThenDelete:
    """The key may change hands between the two commands of its release."""

    def __init__(self, redis_client: redis.Redis, lock_name: str, expire_seconds: int = 10):
        self.redis_client = redis_client
        self.lock_name = lock_name
        self.expire_seconds = expire_seconds
        self.token = str(uuid.uuid4())

    def acquire(self) -> bool:
        return self.redis_client.set(self.lock_name, self.token, nx=True, ex=self.expire_seconds) is True

    def release(self) -> bool:
        if self.redis_client.get(self.lock_name) == self.token:
            self.redis_client.delete(self.lock_name)
            return True
        return False


class InScripts:
    """As the documentation of Redis has it, with an extension."""

    def __init__(self, client: redis.Redis, name: str, ttl_ms: int = 10_000):
        self._client, self._name, self._ttl_ms = client, name, ttl_ms
        self._token = uuid.uuid4().hex
        self._unlock = client.register_script(UNLOCK)
        self._prolong = client.register_script(PROLONG)

    def acquire(self) -> bool:
        return bool(self._client.set(self._name, self._token, nx=True, px=self._ttl_ms))

    def extend(self, ttl_ms: int) -> bool:
        return bool(self._prolong(keys=[self._name], args=[self._token, ttl_ms]))

    def release(self) -> bool:
        return bool(self._unlock(keys=[self._name], args=[self._token]))


class Polling:
    """Waits for the lock, and asks again and again."""

    def __init__(self, conn, key, lease_seconds=10, poll_interval=0.1):
        self.conn = conn
        self.key = key
        self.lease_seconds = lease_seconds
        self.poll_interval = poll_interval
        self.identifier = None

    def acquire(self, blocking=True, timeout=3.0):
        self.identifier = uuid.uuid4().hex
        give_up = time.monotonic() + timeout
        while True:
            if self.conn.set(self.key, self.identifier, nx=True, ex=self.lease_seconds):
                return True
            if not blocking or time.monotonic() > give_up:
                return False
            time.sleep(self.poll_interval)

    def release(self):
        self.conn.eval(UNLOCK, 1, self.key, self.identifier)


class InTwoCommands:
    """A client that dies between the two leaves a key for ever."""

    def __init__(self, r, resource, expire=10):
        self.r = r
        self.resource = resource
        self.expire = expire
        self.value = uuid.uuid4().hex

    def lock(self):
        if self.r.setnx(self.resource, self.value):
            self.r.expire(self.resource, self.expire)
            return True
        return False

    def unlock(self):
        self.r.eval(UNLOCK, 1, self.resource, self.value)


class RenewsWhatIsThere:
    """An extension that asks nobody whose key it is."""

    def __init__(self, client, key, ttl=10):
        self.client, self.key, self.ttl = client, key, ttl
        self.token = uuid.uuid4().hex

    def acquire(self):
        return bool(self.client.set(self.key, self.token, nx=True, ex=self.ttl))

    def renew(self):
        return bool(self.client.expire(self.key, self.ttl))

    def release(self):
        return bool(self.client.eval(UNLOCK, 1, self.key, self.token))
