"""The lock of redis-py: ``Redis(...).lock(name)``, on the first node."""

from lock_of_redis_py import RedisLock
from wire import redis_clients, serve


class RedisPy(RedisLock):
    distribution = "redis"

    def open(self, nodes, options):
        self.make_locks_by(redis_clients(nodes[:1], options)[0].lock, options)


serve(RedisPy())
