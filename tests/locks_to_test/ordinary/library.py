"""What makes a lock of redis-py's own class."""

import redis
from redis.lock import Lock


def order_lock(client: redis.Redis, name: str, ttl: int = 10):
    return client.lock(f"order:{name}", timeout=ttl)


class JobLock(Lock):
    """Locks of jobs, which do not wait."""

    def __init__(self, redis, name, timeout=10):
        super().__init__(redis, name, timeout=timeout, blocking=False)
