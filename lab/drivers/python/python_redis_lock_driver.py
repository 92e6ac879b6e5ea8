"""python-redis-lock: ``redis_lock.Lock(client, name, expire=...)``, on the first node; whole seconds only."""

import redis_lock
from wire import REDIS_OPTIONS, Grant, Refused, redis_clients, refused_if, serve


class PythonRedisLock:
    distribution = "python-redis-lock"
    node_key = "lock:{key}"
    ttl_step_ms = 1000
    options = ("auto_renewal", "blocking", "timeout", "one_object", *REDIS_OPTIONS)

    def caps(self, options):
        return ("extend", "held", *(("renews",) if options.get("auto_renewal") else ()))

    def open(self, nodes, options):
        self.client = redis_clients(nodes[:1], options)[0]
        self.auto_renewal = options.get("auto_renewal", False)
        self.objects = {} if options.get("one_object") else None
        self.how = {name: options[name] for name in ("blocking", "timeout") if name in options}

    def acquire(self, key, ttl_ms):
        lock = None if self.objects is None else self.objects.get((key, ttl_ms))
        if lock is None:
            lock = redis_lock.Lock(self.client, key, expire=ttl_ms // 1000, auto_renewal=self.auto_renewal)
            if self.objects is not None:
                self.objects[key, ttl_ms] = lock
        if not lock.acquire(**self.how):
            raise Refused("acquire() returned False")
        return Grant(lock, token=lock.id)

    def extend(self, lock, ttl_ms):
        refused_if(redis_lock.NotAcquired, lambda: lock.extend(ttl_ms // 1000))

    def release(self, lock):
        refused_if(redis_lock.NotAcquired, lock.release)

    def held(self, lock):
        return lock.get_owner_id() == lock.id, None


serve(PythonRedisLock())
