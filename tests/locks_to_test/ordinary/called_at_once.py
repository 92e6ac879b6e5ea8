"""Decorators whose function may be called twice at once."""

import functools
import uuid

import redis
import redis.asyncio

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def one_token(client: redis.Redis, name: str, ttl_ms: int = 10_000):
    """All calls of a function have the token with which it was decorated."""
    token = uuid.uuid4().hex

    def decorate(function):
        @functools.wraps(function)
        def call():
            if client.set(name, token, nx=True, px=ttl_ms):
                try:
                    return function()
                finally:
                    client.eval(UNLOCK, 1, name, token)

        return call

    return decorate


def token_of_call(client: redis.Redis, name: str, ttl_ms: int = 10_000):
    """Each call has a token of its own."""

    def decorate(function):
        @functools.wraps(function)
        def call():
            token = uuid.uuid4().hex
            if client.set(name, token, nx=True, px=ttl_ms):
                try:
                    return function()
                finally:
                    client.eval(UNLOCK, 1, name, token)

        return call

    return decorate


def last_token(client: redis.asyncio.Redis, name: str, ttl_ms: int = 10_000):
    """All calls of a function share the token of the one that was let in last."""
    kept = {}

    def decorate(function):
        @functools.wraps(function)
        async def call():
            token = uuid.uuid4().hex
            if await client.set(name, token, nx=True, px=ttl_ms):
                kept["token"] = token
                try:
                    return await function()
                finally:
                    await client.eval(UNLOCK, 1, name, kept["token"])

        return call

    return decorate
