"""django-redis: ``cache.lock(key, timeout=...)`` of Django's cache, on the first node: the lock of redis-py.

``thread_local=False``, the library's own way of using a lease from several threads. ``no_ttl`` is its default
of a lock that lasts until it is released (``timeout=None``).
"""

from django.conf import settings
from django.core.cache import cache
from redis.exceptions import LockError
from wire import REDIS_OPTIONS, Grant, Refused, redis_settings, refused_if, serve


class DjangoRedis:
    distribution = "django-redis"
    node_key = ":1:{key}"
    caps = ("extend", "held")
    options = ("blocking", "blocking_timeout", "sleep", "no_ttl", *REDIS_OPTIONS)

    def open(self, nodes, options):
        host, port = nodes[0]
        pool = {"CONNECTION_POOL_KWARGS": redis_settings(options)}
        backend = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": f"redis://{host}:{port}/0"}
        settings.configure(CACHES={"default": {**backend, "OPTIONS": pool}})
        self.lock = cache.lock
        self.no_ttl = options.get("no_ttl", False)
        self.settings = {
            name: options[name] for name in ("blocking", "blocking_timeout", "sleep") if name in options
        }

    def acquire(self, key, ttl_ms):
        timeout = None if self.no_ttl else ttl_ms / 1000
        lock = self.lock(key, timeout=timeout, thread_local=False, **self.settings)
        if not lock.acquire():
            raise Refused("acquire() returned False")
        return Grant(lock, token=lock.local.token)

    def extend(self, lock, ttl_ms):
        refused_if(LockError, lambda: lock.extend(ttl_ms / 1000, replace_ttl=True))

    def release(self, lock):
        refused_if(LockError, lock.release)

    def held(self, lock):
        return lock.owned(), None


serve(DjangoRedis())
