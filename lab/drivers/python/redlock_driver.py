"""redlock of PyPI: ``RedLockFactory(connections).create_lock(resource)``. No extension, nothing to ask."""

from redlock import RedLockFactory
from wire import REDIS_OPTIONS, Grant, Refused, redis_settings, serve


class Redlock:
    distribution = "redlock"
    options = ("retry_times", "retry_delay", *REDIS_OPTIONS)

    def caps(self, options):
        # It counts the tries; without repetitions its clients send each command once.
        return ("single-attempt",) if (options.get("retry_times"), options.get("retries")) == (1, 0) else ()

    def open(self, nodes, options):
        self.factory = RedLockFactory(
            [{"host": host, "port": port, **redis_settings(options)} for host, port in nodes]
        )
        self.settings = {name: options[name] for name in ("retry_times", "retry_delay") if name in options}

    def acquire(self, key, ttl_ms):
        lock = self.factory.create_lock(key, ttl=ttl_ms, **self.settings)
        if not lock.acquire():
            raise Refused("acquire() returned False")
        return Grant(lock, token=lock.lock_key)

    def release(self, lock):
        lock.release()


serve(Redlock())
