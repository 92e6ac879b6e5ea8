"""A program with one object for its locks, and one connection that a function returns."""

import functools
import uuid

import redis

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Locks:
    def __init__(self, client):
        self.client = client

    def acquire(self, name, ttl):
        token = uuid.uuid4().hex
        return token if self.client.set(name, token, nx=True, ex=ttl) else None

    def release(self, name, token):
        self.client.eval(UNLOCK, 1, name, token)


locks = Locks(redis.Redis(host="redis.example"))


@functools.cache
def get_connection():
    return redis.Redis(host="redis.example")


def lock_invoice(number_name, ttl=10):
    return bool(get_connection().set(f"invoice:{number_name}", 1, nx=True, ex=ttl))


def release_invoice(number_name):
    get_connection().delete(f"invoice:{number_name}")
