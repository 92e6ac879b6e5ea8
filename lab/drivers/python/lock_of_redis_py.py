"""The lock of redis-py, however its client is made.

``thread_local=False``, the library's own way of using a lease from several threads. ``no_ttl`` is its default
of a lock that lasts until it is released (``timeout=None``). With ``one_object`` all leases of a key are of
one lock object; they follow each other.
"""

from redis.exceptions import LockError
from wire import REDIS_OPTIONS, Grant, Refused, refused_if


class RedisLock:
    caps = ("extend", "held")
    options = ("blocking", "blocking_timeout", "sleep", "no_ttl", "one_object", *REDIS_OPTIONS)

    def make_locks_by(self, lock, options):
        """``lock(name, timeout=..., ...)`` is what makes the library's lock."""
        self.lock = lock
        self.no_ttl = options.get("no_ttl", False)
        self.objects = {} if options.get("one_object") else None
        self.settings = {
            name: options[name] for name in ("blocking", "blocking_timeout", "sleep") if name in options
        }

    def acquire(self, key, ttl_ms):
        timeout = None if self.no_ttl else ttl_ms / 1000
        lock = None if self.objects is None else self.objects.get((key, ttl_ms))
        if lock is None:
            lock = self.lock(key, timeout=timeout, thread_local=False, **self.settings)
            if self.objects is not None:
                self.objects[key, ttl_ms] = lock
        if not lock.acquire():
            raise Refused("acquire() returned False")
        return Grant(lock, token=lock.local.token)

    def extend(self, lock, ttl_ms):
        refused_if(LockError, lambda: lock.extend(ttl_ms / 1000, replace_ttl=True))

    def release(self, lock):
        refused_if(LockError, lock.release)

    def held(self, lock):
        return lock.owned(), None
