"""walrus: ``Database(...).lock(name, ttl=...)``, on the first node; no extension, no question to ask."""

import walrus
from wire import REDIS_OPTIONS, Grant, Refused, redis_settings, serve


class Walrus:
    distribution = "walrus"
    node_key = "lock:{key}"
    caps = ()
    options = ("block", *REDIS_OPTIONS)

    def open(self, nodes, options):
        host, port = nodes[0]
        self.database = walrus.Database(host=host, port=port, **redis_settings(options))
        self.block = options.get("block", True)

    def acquire(self, key, ttl_ms):
        lock = self.database.lock(key, ttl=ttl_ms)
        if not lock.acquire(block=self.block):
            raise Refused("acquire() returned False")
        return Grant(lock, token=lock._lock_id)

    def release(self, lock):
        if not lock.release():
            raise Refused("release() returned False")


serve(Walrus())
