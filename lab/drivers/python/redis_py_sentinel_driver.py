"""The lock of redis-py on the master that Sentinels name: ``Sentinel(...).master_for(name).lock(key)``."""

from lock_of_redis_py import RedisLock
from wire import redis_settings, serve


class RedisPySentinel(RedisLock):
    distribution = "redis"

    def open(self, nodes, options):
        from redis.sentinel import Sentinel

        settings = redis_settings(options)
        sentinel = Sentinel(self.sentinels, sentinel_kwargs=settings, **settings)
        self.make_locks_by(sentinel.master_for(self.service).lock, options)


serve(RedisPySentinel())
