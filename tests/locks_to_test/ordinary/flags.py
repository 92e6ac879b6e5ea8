"""Two functions and a flag, as a task queue has them: who gave it back is not asked."""

from redis import Redis


def try_lock(r: Redis, job: str, ttl: int = 10) -> bool:
    return bool(r.set(f"running:{job}", 1, nx=True, ex=ttl))


def unlock(r: Redis, job: str) -> None:
    r.delete(f"running:{job}")
