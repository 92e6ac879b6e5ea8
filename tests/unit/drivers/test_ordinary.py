"""How an ordinary lock's answers and exceptions are taken, and how it is used."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from lab.drivers.ordinary import Held, OutOfBounds, Refused, Session, now, says_no
from lab.drivers.python.ordinary_driver import Ordinary, Thread
from lab.drivers.python.wire import Grant
from lab.drivers.python.wire import Refused as RefusedOnTheWire
from lab.drivers.shapes import shape_of

NOWHERE = [("127.0.0.1", 1)]

LOCKS = """
import contextlib
calls = []
class Lock:
    answer = True
    def __init__(self, client, name, ttl_ms=1000, retries=3):
        self.token = "t-" + name
        calls.append(("made", name, ttl_ms, retries))
    def acquire(self):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer
    def extend(self, ttl_ms):
        calls.append(("extend", ttl_ms))
    def release(self):
        return self.answer
class Quiet:
    def __init__(self, client, name, ttl_ms=1000): pass
    def acquire(self): calls.append("acquire")
    def release(self): calls.append("release")
class Locks:
    def __init__(self, client): calls.append("made")
    def acquire(self, key, ttl_ms): return ("handle", key)
    def release(self, key, token): calls.append((key, token))
def take(client, key, token, ttl_ms): return True
def give_back(client, key, token): calls.append(token)
@contextlib.contextmanager
def manager(client, key, ttl_ms=1000):
    calls.append("entered")
    yield "the token"
    calls.append("left")
@contextlib.contextmanager
def careful(client, key, ttl_ms=1000):
    calls.append("entered")
    try:
        yield "the token"
    finally:
        calls.append("left")
        if key == "gone":
            raise ValueError("it is not ours any more")
def decorator(client, key, ttl_ms=1000):
    def decorate(function):
        def wrapper():
            if key == "taken":
                return None
            if key == "broken":
                raise ValueError("broken")
            calls.append("before")
            function()
            calls.append("after")
        return wrapper
    return decorate
def with_lock(client, key, ttl_ms, func):
    calls.append("before")
    return func()
async def awaited(func):
    return await func()
def with_lock_later(client, key, ttl_ms, func):
    return awaited(func)
"""

IN_ASYNC = """
calls = []
def decorator(client, key, ttl_ms=1000):
    def decorate(function):
        async def wrapper():
            if key == "taken":
                return
            await function()
            calls.append(variable.get())
        return wrapper
    return decorate
"""


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module with ordinary locks."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "ordinary_locks", raising=False)
    (tmp_path / "ordinary_locks.py").write_text(LOCKS)
    return __import__("ordinary_locks")


def session(name: str, **options: Any) -> Session:
    shape = shape_of(f"ordinary_locks:{name}")
    assert shape is not None
    return Session(shape, NOWHERE, options, "alice")


def acquired(of: Session, key: str = "k") -> Held:
    return now(of.acquire(key, 5000))


def test_each_lease_has_an_object_of_its_own(locks: Any) -> None:
    used = session("Lock", retries=5)
    held = acquired(used)
    acquired(used)
    now(used.extend(held, 7000))
    assert locks.calls == [("made", "k", 5000, 5)] * 2 + [("extend", 7000)]
    assert held.token == "t-k"


@pytest.mark.parametrize("answer", [False, 0, None])
def test_an_answer_that_is_a_no(locks: Any, answer: object) -> None:
    used = session("Lock")
    held = acquired(used)
    locks.Lock.answer = answer
    with pytest.raises(Refused, match=rf"acquire returned {answer!r}"):
        acquired(used)
    with pytest.raises(Refused, match=rf"release returned {answer!r}"):
        now(used.release(held))


def test_a_lock_that_never_answers_says_yes_by_returning(locks: Any) -> None:
    used = session("Quiet")
    now(used.release(acquired(used)))
    assert locks.calls == ["acquire", "release"]


def test_one_object_for_all_keys_gets_back_what_it_returned(locks: Any) -> None:
    used = session("Locks")
    for key in ("one", "other"):
        now(used.release(acquired(used, key)))
    assert locks.calls == ["made", ("one", ("handle", "one")), ("other", ("handle", "other"))]


def test_a_function_that_is_given_the_token_gets_the_same_one_back(locks: Any) -> None:
    used = session("take")
    held = acquired(used)
    now(used.release(held))
    assert locks.calls == [held.given["token"]]


def test_a_manager_is_entered_and_left(locks: Any) -> None:
    used = session("manager")
    held = acquired(used)
    assert (held.token, locks.calls) == ("the token", ["entered"])
    now(used.release(held))
    assert locks.calls == ["entered", "left"]


@pytest.mark.parametrize(
    ("lock", "first", "second"),
    [
        ("manager", ["entered", "left"], ["entered"]),
        ("careful", ["entered", "left"], ["entered", "left"]),
        ("decorator", ["before", "after"], ["before"]),
        ("with_lock", ["before"], ["before"]),
    ],
)
def test_every_second_body_ends_with_an_error_which_is_none_of_the_locks(
    locks: Any, lock: str, first: list[str], second: list[str]
) -> None:
    used = session(lock)
    for _ in range(2):
        now(used.release(acquired(used)))
        now(used.release(acquired(used)))
    assert locks.calls == 2 * (first + second)


def test_an_error_of_the_lock_while_its_body_fails_is_the_locks(locks: Any) -> None:
    used = session("careful")
    for _ in range(2):
        held = acquired(used, "gone")
        with pytest.raises(Refused, match="it is not ours any more"):
            now(used.release(held))


def test_a_decorated_function_lasts_until_the_release(locks: Any) -> None:
    used = session("decorator")
    held = acquired(used)
    assert locks.calls == ["before"]
    now(used.release(held))
    assert locks.calls == ["before", "after"]
    with pytest.raises(Refused, match="it returned without the routine"):
        acquired(used, "taken")
    with pytest.raises(Refused, match="ValueError: broken"):
        acquired(used, "broken")


def test_what_is_to_be_awaited_is_no_refusal_of_a_lock_that_seems_to_block(
    locks: Any, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(TypeError, match="it returned something to await"):
        acquired(session("with_lock_later"))
    gc.collect()
    assert not [str(each.message) for each in recwarn if "never awaited" in str(each.message)]


def test_a_function_is_decorated_once_and_called_for_each_lease(locks: Any) -> None:
    used = session("decorator")
    first = acquired(used)
    second = acquired(used)
    assert list(used._decorated) == [(locks.decorator, "k", 5000, "write")]
    now(used.release(second))  # whose body fails
    assert locks.calls == ["before", "before"]
    now(used.release(first))
    assert locks.calls == ["before", "before", "after"]


@pytest.mark.parametrize(
    ("place", "answer", "fence"),
    [
        ("answer", 7, 7),
        ("answer", b"8", 8),
        ("answer.1", ("t", 9), 9),
        ("answer.number", {"number": 10}, 10),
        ("answer.real", 11, 11),
        ("lock.answer", 12, 12),
        ("builtins:len", "four", 4),
    ],
)
def test_the_fence_is_where_it_is_said_to_be(locks: Any, place: str, answer: object, fence: int) -> None:
    locks.Lock.answer = answer
    assert acquired(fenced(place)).fence == fence


@pytest.mark.parametrize("answer", [True, "seven", 1.5, 2**63])
def test_what_is_said_to_be_a_fence_and_is_none_is_a_mistake(locks: Any, answer: object) -> None:
    locks.Lock.answer = answer
    with pytest.raises(TypeError, match=r"its fence, answer, is .*expected a whole number of 64 bits"):
        acquired(fenced("answer"))


def fenced(place: str) -> Session:
    shape = shape_of("ordinary_locks:Lock")
    assert shape is not None
    said = msgspec.structs.replace(shape.settings, fence=place)
    return Session(shape._replace(fence=place, settings=said), NOWHERE, {}, "alice")


def test_a_function_that_takes_a_function(locks: Any) -> None:
    used = session("with_lock")
    held = acquired(used)
    assert locks.calls == ["before"]
    now(used.release(held))


async def test_an_async_decorator_ends_in_the_context_of_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import contextvars

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ordinary_async.py").write_text(IN_ASYNC)
    module: Any = __import__("ordinary_async")
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    module.variable = variable
    shape = shape_of("ordinary_async:decorator")
    assert shape is not None
    assert shape.is_async
    used = Session(shape, NOWHERE, {}, "alice")
    variable.set("of the acquire")
    held = await used.acquire("k", 1000)
    variable.set("of the release")
    await used.release(held)
    assert module.calls == ["of the release"]
    with pytest.raises(Refused):
        await used.acquire("taken", 1000)
    await used.close()


def used_by(lock: str, monkeypatch: pytest.MonkeyPatch, port: int = 1) -> Session:
    """A session of one of the printed locks; what it replaces is put back after the test."""
    shape = shape_of(f"tests.locks_to_test.ordinary.{lock}")
    assert shape is not None
    for module, name in shape.shared_clients:
        holder = sys.modules[module] if module else shape.target
        monkeypatch.setattr(holder, name, getattr(holder, name))
    for place in shape.settings.replace:
        module, _, name = place.partition(":")
        monkeypatch.setattr(sys.modules[module], name, getattr(sys.modules[module], name))
    return Session(shape, [("127.0.0.1", port)], {"retries": 0}, "alice")


@pytest.mark.parametrize("lock", ["module_client:CronLock", "program:locks", "program:lock_invoice"])
def test_a_client_that_the_program_made_is_replaced(lock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = used_by(lock, monkeypatch)
    with pytest.raises(redis.exceptions.ConnectionError, match=r"connecting to 127\.0\.0\.1:1"):
        acquired(used)
    now(used.close())


def test_a_lock_reaches_nothing_but_the_nodes(locks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        port = elsewhere.getsockname()[1]
        locks.Lock.acquire = lambda _: redis.Redis(host="127.0.0.1", port=port).get("x")
        used = session("Lock")
        with pytest.raises(OutOfBounds, match=rf"connects to \('127.0.0.1', {port}\), which is no node"):
            acquired(used)
        socket.create_connection(("127.0.0.1", port)).close()  # not the lock's: nothing forbids it


def raised(error: BaseException, cause: BaseException | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as caught:  # noqa: BLE001 - whatever it is
        return caught


class Taken(Exception):
    """An exception of a lock's own."""


@pytest.mark.parametrize(
    ("error", "is_no"),
    [
        (raised(Taken("k")), True),
        (raised(RuntimeError("k is taken")), True),
        (raised(TimeoutError("could not get k")), True),
        (raised(TimeoutError()), False),
        (raised(ConnectionResetError(104, "reset")), False),
        (raised(redis.exceptions.TimeoutError("no reply")), False),
        (raised(redis.exceptions.LockError("not owned")), True),
        (raised(redis.exceptions.LockNotOwnedError("not owned")), True),
        (raised(Taken("k"), redis.exceptions.ConnectionError("closed")), False),
        (raised(Taken("k"), KeyError("k")), True),
        (raised(KeyError("k")), False),
        (raised(AttributeError("k")), False),
    ],
)
def test_which_exceptions_are_a_clean_no(error: Exception, is_no: bool) -> None:
    assert says_no(error) is is_no


def driver(name: str) -> Ordinary:
    shape = shape_of(f"ordinary_locks:{name}")
    assert shape is not None
    made = Ordinary(shape)
    made.open(NOWHERE, {})
    return made


@pytest.mark.usefixtures("locks")
def test_a_driver_says_what_the_lock_can_do() -> None:
    assert driver("Lock").caps == ("tasks", "extend")
    assert driver("Quiet").caps == ("tasks",)
    assert driver("Lock").options[0] == "retries"


def test_one_lease_is_used_in_one_thread(locks: Any) -> None:
    threads: list[tuple[str, int]] = []

    def note(name: str) -> Callable[[Any], bool]:
        def call(_: Any) -> bool:
            threads.append((name, threading.get_ident()))
            return True

        return call

    locks.Lock.acquire, locks.Lock.release = note("acquire"), note("release")
    made = driver("Lock")
    first: Grant = made.acquire("a", 1000)
    second: Grant = made.acquire("b", 1000)
    made.release(second.lease)
    made.release(first.lease)
    third: Grant = made.acquire("c", 1000)
    made.release(third.lease)
    (_, of_first), (_, of_second), *rest = threads
    assert of_first != of_second
    assert [each for _, each in rest] == [of_second, of_first, of_first, of_first]
    locks.Lock.acquire = lambda _: False
    with pytest.raises(RefusedOnTheWire):
        made.acquire("d", 1000)


def test_an_exception_of_a_thread_reaches_who_asked_it() -> None:
    def fail() -> None:
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        Thread().do(fail)


def test_a_lock_that_blocks_awaits_nothing() -> None:
    async def waits() -> None:
        await asyncio.sleep(0)

    with pytest.raises(TypeError, match="it awaited something"):
        now(waits())
