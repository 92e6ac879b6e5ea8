"""redlock-ng: ``Redlock(RedlockConfig(...)).acquire(resource, ttl)``."""

from redlock import Redlock, RedlockConfig
from wire import Grant, Refused, serve

TIMES = ("socket_timeout", "socket_connect_timeout")
RETRIES = ("retry_count", "retry_delay_min", "retry_delay_max")


class RedlockNg:
    distribution = "redlock-ng"
    options = (*TIMES, *RETRIES)

    def caps(self, options):
        # It counts the tries after the first; its clients repeat nothing.
        once = ("single-attempt",) if options.get("retry_count") == 0 else ()
        return ("extend", "validity", "held", *once)

    def open(self, nodes, options):
        masters = [f"redis://{host}:{port}/0" for host, port in nodes]
        config = RedlockConfig(masters=masters, **{name: options[name] for name in TIMES if name in options})
        self.manager = Redlock(config, **{name: options[name] for name in RETRIES if name in options})

    def acquire(self, key, ttl_ms):
        lock = self.manager.acquire(key, ttl_ms)
        if lock is None:
            raise Refused("acquire() returned None")
        return Grant(lock, token=lock.value, claimed_ms=lock.validity)

    def extend(self, lock, ttl_ms):
        if not self.manager.extend(lock, ttl_ms):
            raise Refused("extend() returned False")

    def release(self, lock):
        self.manager.release(lock)

    def held(self, lock):
        return lock.valid, None


serve(RedlockNg())
