"""celery-redbeat: the lock that lets one scheduler run, ``acquire_distributed_beat_lock``; on the first node.

A lease is a scheduler, in a thread of its own as in `celery beat`; its ``tick`` extends the lock and its
``close`` gives it back. Who waits asks again after ``max_interval``, an option, in seconds. By default that
is a fifth of the lock's time, which is the library's own ratio, and at most 5 (the library's default is 300).
"""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from celery import Celery
from redbeat.schedulers import RedBeatScheduler, acquire_distributed_beat_lock, get_redis
from redis.exceptions import LockError
from wire import REDIS_OPTIONS, Grant, redis_settings, refused_if, serve


class RedBeat:
    distribution = "celery-redbeat"
    node_key = "redbeat:{key}"
    ttl_step_ms = 1000  # tick() extends by whole seconds
    caps = ("extend", "held")
    options = ("max_interval", *REDIS_OPTIONS)

    def open(self, nodes, options):
        host, port = nodes[0]
        url = f"redis://{host}:{port}"
        self.app = Celery("lab", broker=url)
        self.app.conf.update(redbeat_redis_url=url, redbeat_redis_options=redis_settings(options))
        self.max_interval = options.get("max_interval")
        self.threads = []

    def close(self):
        get_redis(self.app).close()
        for thread in self.threads:
            thread.shutdown(wait=False)

    def acquire(self, key, ttl_ms):
        thread = ThreadPoolExecutor(max_workers=1)
        self.threads.append(thread)
        return thread.submit(self.begin, thread, key, ttl_ms).result()

    def begin(self, thread, key, ttl_ms):
        seconds = ttl_ms / 1000
        scheduler = RedBeatScheduler(
            self.app,
            lazy=True,
            lock_key=f"redbeat:{key}",
            lock_timeout=seconds,
            max_interval=self.max_interval or min(seconds / 5, 5),
        )
        acquire_distributed_beat_lock(SimpleNamespace(scheduler=scheduler))
        return Grant((thread, scheduler), token=scheduler.lock.local.token)

    def extend(self, lease, ttl_ms):
        thread, scheduler = lease
        scheduler.lock_timeout = ttl_ms / 1000
        thread.submit(refused_if, LockError, scheduler.tick).result()

    def release(self, lease):
        thread, scheduler = lease
        thread.submit(refused_if, LockError, scheduler.close).result()

    def held(self, lease):
        thread, scheduler = lease
        return thread.submit(lambda: scheduler.lock is not None and scheduler.lock.owned()).result(), None


serve(RedBeat())
