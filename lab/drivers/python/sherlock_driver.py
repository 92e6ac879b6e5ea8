"""sherlock: ``sherlock.RedisLock(name, client=..., expire=...)``, on the first node; whole seconds only.

``no_expire`` is its ``expire=None``, for a lock that lasts until it is released; ``float_expire`` is the name
of a client that gives the seconds as a float. ``locked()`` says whether anybody has the lock, so there is no
question to ask of a lease.
"""

import sherlock
from wire import REDIS_OPTIONS, Grant, Refused, redis_clients, refused_if, serve


class Sherlock:
    distribution = "sherlock"
    ttl_step_ms = 1000
    caps = ("extend",)
    options = ("blocking", "timeout", "retry_interval", "no_expire", "float_expire", *REDIS_OPTIONS)

    def open(self, nodes, options):
        self.client = redis_clients(nodes[:1], options)[0]
        self.blocking = options.get("blocking", True)
        self.no_expire = options.get("no_expire", False)
        self.seconds = float if options.get("float_expire") == self.client_name else int
        self.settings = {name: options[name] for name in ("timeout", "retry_interval") if name in options}

    def acquire(self, key, ttl_ms):
        expire = None if self.no_expire else self.seconds(ttl_ms / 1000)
        lock = sherlock.RedisLock(key, client=self.client, expire=expire, **self.settings)
        if not refused_if(sherlock.LockTimeoutException, lambda: lock.acquire(self.blocking)):
            raise Refused("acquire() returned False")
        return Grant(lock, token=lock._owner)

    def extend(self, lock, ttl_ms):
        lock.expire = self.seconds(ttl_ms / 1000)
        if not refused_if(sherlock.LockException, lock.renew):
            raise Refused("renew() returned False")

    def release(self, lock):
        refused_if(sherlock.LockException, lock.release)


serve(Sherlock())
