"""Decorators whose own source does not show whether they are for async functions: a helper makes them."""

import functools
import inspect
import uuid

import redis
import redis.asyncio

UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def exclusive(client, name, ttl_ms=10_000):
    """Only one of the async functions with this name runs at a time."""
    return _exclusive(client, name, ttl_ms)


def _exclusive(client, name, ttl_ms):
    def decorate(function):
        @functools.wraps(function)
        async def call(*args, **kwargs):
            token = uuid.uuid4().hex
            if not await client.set(name, token, nx=True, px=ttl_ms):
                return None
            try:
                return await function(*args, **kwargs)
            finally:
                await client.eval(UNLOCK, 1, name, token)

        return call

    return decorate


def of_either_kind(client: redis.Redis, name: str, ttl_ms: int = 10_000):
    """For plain and async functions; its client blocks."""

    def taken(token):
        return client.set(name, token, nx=True, px=ttl_ms)

    def given_back(token):
        client.eval(UNLOCK, 1, name, token)

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            token = uuid.uuid4().hex
            if not taken(token):
                return None
            try:
                return function(*args, **kwargs)
            finally:
                given_back(token)

        @functools.wraps(function)
        async def call_async(*args, **kwargs):
            token = uuid.uuid4().hex
            if not taken(token):
                return None
            try:
                return await function(*args, **kwargs)
            finally:
                given_back(token)

        return call_async if inspect.iscoroutinefunction(function) else call

    return decorate


def of_its_client(client: redis.asyncio.Redis, name: str, ttl_ms: int = 10_000):
    """For async functions, which it makes others of; a plain one stays as it is."""

    def decorate(function):
        return (
            _exclusive(client, name, ttl_ms)(function) if inspect.iscoroutinefunction(function) else function
        )

    return decorate
