"""huey: ``RedisExpireHuey(...).lock_task(name, ttl=...)``, on the first node; whole seconds, no extension."""

from huey import RedisExpireHuey
from huey.exceptions import TaskLockedException
from wire import REDIS_OPTIONS, Grant, redis_settings, refused_if, serve


class Huey:
    distribution = "huey"
    node_key = "huey.r.lab.lab.lock.{key}"
    ttl_step_ms = 1000
    caps = ()
    options = REDIS_OPTIONS

    def open(self, nodes, options):
        host, port = nodes[0]
        self.huey = RedisExpireHuey("lab", host=host, port=port, **redis_settings(options))

    def close(self):
        self.huey.storage.conn.close()

    def acquire(self, key, ttl_ms):
        lock = self.huey.lock_task(key, ttl=ttl_ms // 1000)
        refused_if(TaskLockedException, lock.acquire)
        return Grant(lock)

    def release(self, lock):
        lock.release()


serve(Huey())
