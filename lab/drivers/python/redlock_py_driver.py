"""redlock-py: ``Redlock(connections).lock(resource, ttl)``. It has no extension and no question to ask."""

from redlock import Redlock
from wire import REDIS_OPTIONS, Grant, Refused, redis_settings, serve


class RedlockPy:
    distribution = "redlock-py"
    caps = ("validity",)
    options = ("retry_count", "retry_delay", *REDIS_OPTIONS)

    def open(self, nodes, options):
        self.manager = Redlock(
            [{"host": host, "port": port, **redis_settings(options)} for host, port in nodes],
            retry_count=options.get("retry_count"),
            retry_delay=options.get("retry_delay"),
        )

    def acquire(self, key, ttl_ms):
        lock = self.manager.lock(key, ttl_ms)
        if not lock:
            raise Refused("lock() returned False")
        return Grant(lock, token=lock.key, claimed_ms=lock.validity)

    def release(self, lock):
        self.manager.unlock(lock)


serve(RedlockPy())
