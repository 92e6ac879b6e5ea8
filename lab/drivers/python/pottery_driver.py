"""pottery: ``Redlock(key=..., masters={...}, auto_release_time=...)``."""

from pottery import Redlock
from pottery.exceptions import ExtendUnlockedLock, QuorumNotAchieved, ReleaseUnlockedLock, TooManyExtensions
from wire import REDIS_OPTIONS, Grant, Refused, redis_clients, serve

NO = (ExtendUnlockedLock, QuorumNotAchieved, ReleaseUnlockedLock, TooManyExtensions)


class Pottery:
    distribution = "pottery"
    node_key = "redlock:{key}"
    options = ("blocking", "timeout", "num_extensions", "raise_on_redis_errors", *REDIS_OPTIONS)

    def caps(self, options):
        # Without blocking it tries once, and without retries so do its clients.
        once = options.get("blocking") is False and options.get("retries") == 0
        return ("extend", "held", *(("single-attempt",) if once else ()))

    def open(self, nodes, options):
        self.masters = set(redis_clients(nodes, options))
        self.how = {name: options[name] for name in ("blocking", "timeout") if name in options}
        names = ("num_extensions", "raise_on_redis_errors")
        self.settings = {name: options[name] for name in names if name in options}

    def acquire(self, key, ttl_ms):
        lock = Redlock(key=key, masters=self.masters, auto_release_time=seconds(ttl_ms), **self.settings)
        if not lock.acquire(**self.how):
            raise Refused("acquire() returned False")
        return Grant(lock, token=lock._uuid)

    def extend(self, lock, ttl_ms):
        lock.auto_release_time = seconds(ttl_ms)
        with_a_no(lock.extend)

    def release(self, lock):
        with_a_no(lock.release)

    def held(self, lock):
        left_s = lock.locked()
        return left_s > 0, left_s * 1000


def seconds(ttl_ms):
    """What the library turns into exactly so many ms again."""
    return (ttl_ms + 1e-6) / 1000


def with_a_no(call):
    try:
        call()
    except NO as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


serve(Pottery())
