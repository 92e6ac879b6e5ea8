"""``cache.lock(key, timeout=...)`` of django-redis, on the first node: the lock of redis-py."""

from django.conf import settings
from django.core.cache import CacheHandler
from django_redis.pool import ConnectionFactory
from lock_of_redis_py import RedisLock
from wire import redis_settings, serve


class DjangoRedis(RedisLock):
    distribution = "django-redis"
    node_key = ":1:{key}"

    def open(self, nodes, options):
        host, port = nodes[0]
        pool = {"CONNECTION_POOL_KWARGS": redis_settings(options)}
        backend = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": f"redis://{host}:{port}/0"}
        caches = CacheHandler({"default": {**backend, "OPTIONS": pool}})
        self.make_locks_by(lambda *given, **named: caches["default"].lock(*given, **named), options)

    def close(self):
        # The library keeps its pools for as long as its process lives.
        while ConnectionFactory._pools:
            ConnectionFactory._pools.popitem()[1].disconnect()


settings.configure()
serve(DjangoRedis())
