"""The protocol for drivers in Python: a driver is a class with a few methods, and ``serve`` does the rest.

It runs in the environment of the library under test, so it uses nothing but the standard library. Each
command runs in a thread of its own: ``clock`` and ``held`` are answered while ``acquire`` waits.
"""

import functools
import gc
import importlib.metadata
import json
import logging
import os
import random
import sys
import threading
import time
import traceback

if "LOCK_LAB_VTIME" in os.environ:
    # redis-py asks for its own version with each client that is made, and reads and parses a file for it. A
    # search makes thousands of them, and in virtual time nothing shows that it takes less.
    importlib.metadata.version = functools.cache(importlib.metadata.version)

MESSAGE_MAX = 300
"""How much of an error is told; all of it is in the log."""


class Refused(Exception):
    """The library's clean no. ``silent``: no node said no, they only kept silent."""

    def __init__(self, message, silent=False):
        super().__init__(message)
        self.silent = silent


def refused_if(error, call):
    """What ``call`` returns. ``error`` is the library's exception for a clean no; others go through."""
    try:
        return call()
    except error as no:
        raise Refused(f"{type(no).__name__}: {no}") from no


_COMMAND = threading.local()
"""``number``: the command that this thread carries out."""
_CANCELLED = set()
"""The numbers of the commands that were cancelled."""


class Loop:
    """An event loop in a thread of its own, for a library of asyncio. A driver that calls its library by
    nothing but ``wait_for`` can ``cancel``.
    """

    def __init__(self):
        import asyncio

        self._asyncio, self._loop, self._tasks = asyncio, asyncio.new_event_loop(), {}
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def wait_for(self, work):
        """What this coroutine returns, or raises; ``CancelledError`` if the command is cancelled."""
        number = _COMMAND.number

        async def run():
            task = self._tasks[number] = self._asyncio.current_task()
            if number in _CANCELLED:  # before it began
                task.cancel()
            try:
                return await work
            finally:
                del self._tasks[number]

        return self._asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def cancel(self, number):
        def cancel():
            if number in self._tasks:
                self._tasks[number].cancel()

        self._loop.call_soon_threadsafe(cancel)


def _addresses(places):
    split = (place.rpartition(":")[::2] for place in places)
    return [(host, int(port)) for host, port in split]


class Grant:
    """What the library gave: its own object for the lease, and what it says about it."""

    def __init__(self, lease, token=None, claimed_ms=None, fence=None):
        self.lease = lease
        self.token = token.decode(errors="replace") if isinstance(token, bytes) else token
        self.claimed_ms = claimed_ms
        self.fence = fence


def redis_settings(options):
    """The keywords for a redis-py client that the options name; without them it has its own defaults."""
    named = {name: options[name] for name in ("socket_timeout", "socket_connect_timeout") if name in options}
    if "retries" in options:
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        named["retry"] = Retry(NoBackoff(), options["retries"])
    return named


REDIS_OPTIONS = ("socket_timeout", "socket_connect_timeout", "retries")


def redis_clients(nodes, options):
    """One client of redis-py for each node, as the library's users make them."""
    import redis

    clients = [redis.Redis(host=host, port=port, **redis_settings(options)) for host, port in nodes]
    _CLIENTS.extend(clients)
    return clients


_CLIENTS = []
"""The clients that ``close`` closes."""
_RETRIES = []
"""What repeats commands no more since ``close``, and how often it did: it may be everybody's default."""


def _stop_retrying():
    """Let redis-py repeat no more what fails: what is pending ends soon, with its error."""
    module = sys.modules.get("redis.retry")
    if not hasattr(module, "AbstractRetry"):  # no redis-py, or one that is older than these methods
        return
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, module.AbstractRetry)}
    for each in objects:
        if type(each) in kinds:
            _RETRIES.append((each, each.get_retries()))
            each.update_retries(0)


def _retry_again():
    while _RETRIES:
        each, retries = _RETRIES.pop()
        each.update_retries(retries)


def serve(driver):
    """Answer commands until the input ends. A driver offers

    - ``distribution``: what its library is called where it comes from; ``caps``: its capabilities, a tuple or
      a method that takes the options; ``options``: the names it takes; perhaps ``node_key``, ``key``,
      ``ttl_step_ms``, ``permits``
    - ``open(nodes, options)``, where a node is a pair of host and port; ``sentinels`` (such pairs) and
      ``service`` are set before
    - ``acquire(key, ttl_ms)`` → ``Grant``, and with the lease that it made: ``extend(lease, ttl_ms)`` → ms or
      None, ``release(lease)``, ``held(lease)`` → (bool or None, ms or None); one that can ``read-write`` has
      ``acquire(key, ttl_ms, mode)``, "read" or "write"
    - ``lost(lease)``: whether the library has told its user that the lease is gone; asked when an extension
      was refused

    which raise ``Refused`` for a clean no, and whatever the library raises otherwise. ``client_name`` is set
    before ``open``. One that can ``cancel`` has a ``loop``, see ``Loop``; one with the option ``one_object``
    lets one lock object of the library serve all leases of a key, and so can ``one-object``.
    """
    server = _Server(driver)
    for line in sys.stdin:
        threading.Thread(target=server.answer, args=(json.loads(line),), daemon=True).start()
    os._exit(0)  # nobody waits for threads that a library left behind


class _Server:
    def __init__(self, driver):
        self._driver = driver
        self._leases = {}
        self._turn = threading.Lock()
        self._pending = 0
        self._closed = False

    def answer(self, command):
        _COMMAND.number = command["id"]
        with self._turn:
            self._pending += 1
        try:
            answer = {"ok": True, **self._carry_out(command)}
        except Refused as error:
            print(error, file=sys.stderr)  # noqa: T201
            answer = _failed("refused", error) | ({"silent": True} if error.silent else {})
        except Exception as error:
            if not self._closed:
                traceback.print_exc()
            late = isinstance(error, TimeoutError) or type(error).__name__ == "TimeoutError"
            answer = _failed("timeout" if late else "error", error)
        self.say({"id": command["id"], **answer})

    def say(self, message):
        line = json.dumps(message) + "\n"
        with self._turn:
            self._pending -= "id" in message
            sys.stdout.write(line)
            sys.stdout.flush()

    def _carry_out(self, command):
        op = command["op"]
        if op not in ("hello", "open", "acquire", "extend", "release", "held", "clock", "cancel", "close"):
            raise UnknownOp(f"{op!r} is none of the protocol's")
        return getattr(self, f"_{op}")(command)

    def _hello(self, command):
        driver, options = self._driver, command["options"]
        for name in options:
            if name not in driver.options:
                raise UnknownOption(f"{name!r}: there are {', '.join(sorted(driver.options))}")
        caps = driver.caps(options) if callable(driver.caps) else driver.caps
        more = ("node_key", "key", "ttl_step_ms", "permits")
        about = {name: getattr(driver, name) for name in more if hasattr(driver, name)}
        caps = [*caps, "clock", "tasks", *(["one-object"] if "one_object" in driver.options else [])]
        return {"lib": driver.distribution, "version": _version(driver), "caps": caps, **about}

    def _open(self, command):
        random.seed()  # after a ``close``, as a program that was started anew
        _retry_again()
        logging.disable(logging.NOTSET)
        self._closed = False
        _CANCELLED.clear()
        self._driver.client_name = command["client"]
        self._driver.sentinels = _addresses(command.get("sentinels", ()))
        self._driver.service = command.get("service")
        self._driver.open(_addresses(command["nodes"]), command["options"])
        return {}

    def _close(self, command):
        self._closed = True
        if self._pending > 1:
            logging.disable()  # of what ends from now on: to format tracebacks takes long
            _stop_retrying()
        if hasattr(self._driver, "close"):
            self._driver.close()
        while _CLIENTS:
            _CLIENTS.pop().close()
        self._leases.clear()
        return {}

    def _acquire(self, command):
        mode = [command["mode"]] if "mode" in command else []
        grant = self._driver.acquire(command["key"], command["ttl_ms"], *mode)
        with self._turn:
            handle = f"h{len(self._leases) + 1}"
            self._leases[handle] = grant.lease
        return {
            "lease": handle,
            "token": grant.token,
            "claimed_ms": grant.claimed_ms,
            "fence": grant.fence,
        }

    def _extend(self, command):
        lease = self._lease(command)
        try:
            return {"claimed_ms": self._driver.extend(lease, command["ttl_ms"])}
        except Refused:
            if hasattr(self._driver, "lost") and self._driver.lost(lease):
                self.say({"event": "lost", "lease": command["lease"]})
            raise

    def _release(self, command):
        self._driver.release(self._lease(command))
        return {}

    def _held(self, command):
        held, claimed_ms = self._driver.held(self._lease(command))
        return {"held": held, "claimed_ms": claimed_ms}

    def _cancel(self, command):
        loop = getattr(self._driver, "loop", None)
        if not isinstance(loop, Loop):
            raise UnknownOp("this driver cannot cancel")
        _CANCELLED.add(command["command"])
        loop.cancel(command["command"])
        return {}

    def _clock(self, command):
        return {"wall_ms": time.time() * 1000}

    def _lease(self, command):
        if command["lease"] not in self._leases:
            raise UnknownLease(repr(command["lease"]))
        return self._leases[command["lease"]]


class UnknownOp(Exception):
    """A command that the protocol does not know."""


class UnknownOption(Exception):
    """An option that the driver does not take."""


class UnknownLease(Exception):
    """A lease that the driver never gave."""


def _version(driver):
    """What is installed of the library; a class of your own has no version."""
    try:
        return importlib.metadata.version(driver.distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a package"


def _failed(kind, error):
    return {"ok": False, "kind": kind, "error": type(error).__name__, "message": str(error)[:MESSAGE_MAX]}
