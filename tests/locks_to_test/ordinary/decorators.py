"""A decorator, and a function that takes a function."""

import functools
import uuid

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def exclusive(client, name, ttl=10):
    """Only one of the functions with this name runs at a time; the others return None."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            token = uuid.uuid4().hex
            if not client.set(name, token, nx=True, ex=ttl):
                return None
            try:
                return function(*args, **kwargs)
            finally:
                client.eval(UNLOCK, 1, name, token)

        return wrapper

    return decorate


def run_once(client, name, ttl_ms, func):
    """Runs a function unless it runs elsewhere; a number of the process is no token."""
    import os

    if client.set(name, os.getpid(), nx=True, px=ttl_ms):
        try:
            return func()
        finally:
            if client.get(name) == str(os.getpid()):
                client.delete(name)
    return None
