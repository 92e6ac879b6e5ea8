"""aioredlock: ``await Aioredlock(connections).lock(resource, lock_timeout)``, on an event loop of its own."""

from aioredlock import Aioredlock, LockError
from aioredlock.errors import LockRuntimeError
from wire import Grant, Loop, Refused, serve


class Driver:
    distribution = "aioredlock"
    caps = ("extend", "held", "lost", "cancel")
    options = ("retry_count", "retry_delay_min", "retry_delay_max")

    def __init__(self):
        self.loop = Loop()

    def wait_for(self, work):
        """Its ``LockRuntimeError`` is "an unexpected event", its other lock errors are normal operation."""
        try:
            return self.loop.wait_for(work)
        except LockRuntimeError:
            raise
        except LockError as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    def open(self, nodes, options):
        async def make():
            connections = [{"host": host, "port": port} for host, port in nodes]
            return Aioredlock(connections, **options)

        self.manager = self.wait_for(make())

    def close(self):
        self.wait_for(self.manager.redis.clear_connections())

    def acquire(self, key, ttl_ms):
        lock = self.wait_for(self.manager.lock(key, seconds(ttl_ms)))
        return Grant(lock, token=lock.id)

    def extend(self, lock, ttl_ms):
        if not lock.valid:
            raise Refused("the lock is not valid")
        self.wait_for(self.manager.extend(lock, seconds(ttl_ms)))

    def release(self, lock):
        self.wait_for(self.manager.unlock(lock))

    def lost(self, lock):
        """An extension that fails releases the lock, and its object says so."""
        return not lock.valid

    def held(self, lock):
        return lock.valid, None


def seconds(ttl_ms):
    """What the library turns into exactly so many ms again."""
    return (ttl_ms + 1e-6) / 1000


serve(Driver())
