"""The use of an ordinary lock as one client uses it: with its own client library, and nothing added.

The code is async; a lock that blocks is used by ``now``, which runs it to its end, as nothing in it waits.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from lab.client_protocol import Mode
from lab.drivers.messages import FENCE_MAX, ONE_OBJECT
from lab.drivers.shapes import ANSWER, READ, Parameter, Shape, Use, class_of_clients, class_of_sentinel

T = TypeVar("T")
OPTIONS_OF_CLIENTS: Final = ("socket_timeout", "socket_connect_timeout", "retries")
"""Options of redis-py and valkey-py that can be set as if they were the lock's."""
MISTAKES: Final = (
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
)
"""Errors that no lock raises to say no."""
TOKENS: Final = (
    *("token", "identifier", "value", "uuid", "id", "lockid", "lockvalue", "uniqueid", "owner", "ownerid"),
    *("nonce", "secret"),
)
"""What the attribute of a lock's object is called that holds the value of its key."""


class Refused(Exception):
    """The lock's clean no."""


class BodyFailed(Exception):
    """With this bodies of a client end now and then: a lock is given back then, too."""


class BodyCancelled(asyncio.CancelledError):
    """With this bodies of an async lock end: their task was cancelled, and the lock is given back."""


Ending = BodyFailed | BodyCancelled


class OutOfBounds(AssertionError):
    """The lock's code connects to something that the lab did not give it."""


@dataclass(slots=True)
class Held:
    """What was acquired: the lock's object, what the call returned, and the token, if the lock shows it.

    ``shape`` is how, which may differ for readers. ``failure`` is what the body ends with, where the lock has
    one: None if it ends well. ``fence`` is its fencing token, if it has one.
    """

    shape: Shape
    lock: Any
    given: dict[str, Any]
    answer: Any = None
    token: str = ""
    routine: Routine | None = None
    failure: Ending | None = None
    fence: int | None = None


class Session:
    """One client's ordinary lock.

    Args:
        shape: how the lock is used.
        nodes: the hosts and ports of the nodes.
        options: those of the lock, and of its client.
        owner: the client's name.
        sentinels: the hosts and ports of the Sentinels, where there are some: they name the node that a
            lock uses which is given its client.
        service: by which name they know it.
    """

    def __init__(
        self,
        shape: Shape,
        nodes: Sequence[tuple[str, int]],
        options: Mapping[str, Any],
        owner: str,
        sentinels: Sequence[tuple[str, int]] = (),
        service: str = "",
    ) -> None:
        self._shape, self._nodes, self._options, self._owner = shape, nodes, options, owner
        self._sentinels, self._service = sentinels, service
        self._sentinel: Any = None
        """The client library's ``Sentinel``, if the lock can use one."""
        if sentinels and without_master(shape) is None:
            kind = class_of_sentinel(shape.library, is_async=shape.is_async)
            self._sentinel = kind(list(sentinels), **_of_client(shape, options))
            self.clients = [self._sentinel.master_for(service)]
        else:
            make = client_maker(shape, options)
            self.clients = [make(host, port) for host, port in nodes]
        _stand_in(shape, len(self.clients))
        _guard()
        self._objects: dict[tuple[Any, str], Any] = {}
        """Those of locks whose object is used again, by what makes them and their keys."""
        self._one: dict[Any, Any] = {}
        """The object of a lock that is told the key when it is acquired, by what makes it."""
        self._decorated: dict[tuple[Any, ...], Callable[[], Any]] = {}
        """Functions that were decorated once and are called for each lease, by what decorated them."""
        self._begun: Routine | None = None
        """That of the decorated function which was called last."""
        self._bodies = 0
        """How many bodies have begun."""

    async def acquire(self, key: str, ttl_ms: int, mode: Mode = "write") -> Held:
        """Take the lock, as a reader or not. Raises ``Refused``, and what the lock raises otherwise.

        Raises ``TypeError`` if there is no whole number where its fence is said to be.
        """
        held = await self._acquired(key, ttl_ms, mode)
        with _Use(self):
            held.fence = await _fence(held)
        return held

    async def _acquired(self, key: str, ttl_ms: int, mode: Mode) -> Held:
        shape = self._shape.of(mode)
        given = {"key": key, "ttl_ms": ttl_ms, "token": uuid.uuid4().hex, "mode": mode}
        with _Use(self):
            if shape.style == "two functions":
                assert shape.made is not None
                answer = _unless_no(await self._call(shape.target, shape.made, given), shape.made)
                return Held(shape, None, given, answer, _token(answer, None))
            if shape.style == "decorator":
                held = Held(shape, None, given)
                held.routine = (RoutineTask if shape.is_async else RoutineThread)()
                await held.routine.begin(self._with_body(shape, held.routine, given))
                held.answer, held.failure = held.routine.given, self._next_end()
                return held
            lock = self._lock(shape, given)
            held = Held(shape, lock, given)
            if shape.style == "context manager":
                if shape.acquire is not None:  # a method that returns what is entered
                    lock = held.lock = getattr(lock, shape.acquire.name)(
                        **self._arguments(shape.acquire, given)
                    )
                enter = lock.__aenter__ if shape.is_async else lock.__enter__
                held.answer = await _result(enter())
                if held.answer is False:  # any other value is what the routine gets
                    await _result((lock.__aexit__ if shape.is_async else lock.__exit__)(None, None, None))
                    raise Refused("it entered with False")
                held.failure = self._next_end()
            else:
                assert shape.acquire is not None
                answer = await self._call(getattr(lock, shape.acquire.name), shape.acquire, given)
                held.answer = _unless_no(answer, shape.acquire)
            held.token = _token(held.answer, lock)
            return held

    async def extend(self, held: Held, ttl_ms: int) -> None:
        """Extend a lease. Raises ``Refused``, and what the lock raises otherwise."""
        shape, given = held.shape, {**held.given, "ttl_ms": ttl_ms}
        assert shape.extend is not None
        given["token"] = held.answer if held.lock is None else _own_token(held)
        call = shape.extends or getattr(held.lock, shape.extend.name)
        more = {"replace_ttl": True} if "replace_ttl" in shape.extend.options else {}
        with _Use(self):
            _unless_no(await self._call(call, shape.extend, given, more), shape.extend)

    async def release(self, held: Held) -> None:
        """Give it back. Raises ``Refused``, and what the lock raises otherwise."""
        shape, lock = held.shape, held.lock
        with _Use(self):
            if held.routine is not None:
                await held.routine.end(held.failure)
            elif shape.style == "two functions":
                assert shape.release is not None
                given = {**held.given, "token": held.given["token"] if held.answer is True else held.answer}
                _unless_no(await self._call(shape.releases, shape.release, given), shape.release)
            elif shape.style == "context manager":
                await self._leave(lock, held.failure)
            else:
                assert shape.release is not None
                given = {**held.given, "token": _own_token(held)}
                call = getattr(lock, shape.release.name)
                _unless_no(await self._call(call, shape.release, given), shape.release)

    def _next_end(self) -> Ending | None:
        """How the body that begins is to end: every second one fails, or where that can be is cancelled."""
        self._bodies += 1
        if self._bodies % 2:
            return None
        seconds, which = self._bodies // 2, f"body {self._bodies} of {self._owner}"
        is_cancelled = self._shape.is_async and (seconds + ord(self._owner[-1])) % 2
        return BodyCancelled(f"{which} is cancelled") if is_cancelled else BodyFailed(f"{which} fails")

    async def _leave(self, lock: Any, failure: Ending | None) -> None:
        """Leave a context, with what its body ended with; that comes out again, or not, as the lock likes."""
        leave = lock.__aexit__ if self._shape.is_async else lock.__exit__
        try:
            await _result(leave(type(failure) if failure is not None else None, failure, None))
        except (Exception, BodyCancelled) as error:
            if failure is None or not is_of_body(error, failure):
                raise

    async def owned(self, held: Held) -> bool:
        """Whether the lock says that this client holds it."""
        found = getattr(held.lock, held.shape.owned)
        with _Use(self):
            return bool(await _result(found()))

    def reaches(self, address: object) -> bool:
        """Whether a socket may be connected there: to a node or Sentinel, or where a node's name may lead."""
        places = [address[:2]] if isinstance(address, tuple) else []
        known = (*self._nodes, *self._sentinels)
        return any(place == node or not node[0][:1].isdigit() for place in places for node in known)

    async def close(self) -> None:
        """Close the clients."""
        for each in (*self.clients, *(self._sentinel.sentinels if self._sentinel is not None else ())):
            close = getattr(each, "aclose", None) or getattr(each, "close", None)
            if close is not None:
                await _result(close())

    def _lock(self, shape: Shape, given: Mapping[str, Any]) -> Any:
        """What is acquired: the lock's object, or what that gives to a reader or to a writer."""
        lock = self._object(shape, given)
        if shape.through is None:
            return lock
        found = getattr(lock, shape.through.name)
        return found(**self._arguments(shape.through, given)) if inspect.isroutine(found) else found

    def _object(self, shape: Shape, given: Mapping[str, Any]) -> Any:
        """The lock's object: a new one for each lease, or one for all if only its acquire gets the key.

        With the option ``one_object`` one for all leases of a key.
        """
        if shape.made is None:
            return shape.target
        if "key" in shape.made.roles():
            if not self._options.get(ONE_OBJECT):
                return shape.target(**self._arguments(shape.made, given))
            key = shape.target, given["key"]
            if key not in self._objects:
                self._objects[key] = shape.target(**self._arguments(shape.made, given))
            return self._objects[key]
        if shape.target not in self._one:
            self._one[shape.target] = shape.target(**self._arguments(shape.made, given))
        return self._one[shape.target]

    def _with_body(self, shape: Shape, routine: Routine, given: Mapping[str, Any]) -> Callable[[], Any]:
        """What runs the body of this routine under the lock.

        A function is decorated once for a key and a TTL, and called for each lease, also while another call
        of it goes on: each call runs the body of the routine in whose thread or task it is.
        """
        assert shape.made is not None
        if "body" in shape.made.roles():
            arguments = self._arguments(shape.made, {**given, "body": routine.body})
            return lambda: shape.target(**arguments)
        made_with = shape.target, given["key"], given["ttl_ms"], given["mode"]
        if made_with not in self._decorated:
            self._decorated[made_with] = self._lock(shape, given)(self._body(is_async=shape.is_async))
        self._begun = routine
        return self._decorated[made_with]

    def _body(self, *, is_async: bool) -> Callable[..., Any]:
        """A function to decorate. In a thread that the lock made itself, it belongs to the last call."""

        def body(*given: Any, **named: Any) -> Any:
            routine = _ROUTINE.get(self._begun)
            assert routine is not None
            return routine.body(*given, **named)

        async def body_async(*given: Any, **named: Any) -> Any:
            routine = _ROUTINE.get(self._begun)
            assert routine is not None
            return await routine.body(*given, **named)

        return body_async if is_async else body

    async def _call(
        self, call: Any, use: Use, given: Mapping[str, Any], more: Mapping[str, Any] | None = None
    ) -> Any:
        by_position = [self._value(each, given) for each in use.parameters if each.by_position]
        return await _result(call(*by_position, **self._arguments(use, given), **(more or {})))

    def _arguments(self, use: Use, given: Mapping[str, Any]) -> dict[str, Any]:
        chosen = {name: self._options[name] for name in use.options if name in self._options}
        filled = {each.name: self._value(each, given) for each in use.parameters if not each.by_position}
        return {**chosen, **filled}

    def _value(self, parameter: Parameter, given: Mapping[str, Any]) -> Any:
        host, port = self._nodes[0]
        match parameter.role:
            case "client":
                return self.clients[0]
            case "clients":
                return list(self.clients)
            case "url":
                return f"redis://{host}:{port}"
            case "urls":
                return [f"redis://{each}:{number}" for each, number in self._nodes]
            case "host":
                return host
            case "port":
                return port
            case "sentinel":
                return self._sentinel
            case "service":
                return self._service
            case "ttl_s":
                return given["ttl_ms"] // 1000
            case "ttl_timedelta":
                return timedelta(milliseconds=given["ttl_ms"])
            case "owner":
                return self._owner
            case "permits":
                return self._shape.permits
            case "reads" | "writes":
                return (given["mode"] == READ) == (parameter.role == "reads")
            case role:
                return given[role]


def client_maker(shape: Shape, options: Mapping[str, Any]) -> Callable[[str, int], Any]:
    """What makes the lock's client: the user's function, or the library's class with its own defaults."""
    if shape.settings.client:
        module, _, name = shape.settings.client.partition(":")
        own: Callable[[str, int], Any] = getattr(importlib.import_module(module), name)
        return own
    named = _of_client(shape, options)
    kind = class_of_clients(shape.library, is_async=shape.is_async)
    return lambda host, port: kind(host=host, port=port, **named)


def without_master(shape: Shape) -> str | None:
    """Why a lock cannot be given a client of the master that Sentinels name; None: it can."""
    if shape.settings.client:
        return "gets its client from a function that takes one host and one port"
    roles = shape.made.roles() if shape.made is not None else set()
    if given := sorted(roles & {"clients", "url", "urls", "host"}):
        return f"is given {given[0]}, not a client"
    return None


def _of_client(shape: Shape, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the lock's client is told besides where it connects."""
    named: dict[str, Any] = {name: options[name] for name in OPTIONS_OF_CLIENTS[:2] if name in options}
    if "retries" in options:
        part = ".asyncio" if shape.is_async else ""
        retry = importlib.import_module(f"{shape.library}{part}.retry").Retry
        backoff = importlib.import_module(f"{shape.library}.backoff").NoBackoff
        named["retry"] = retry(backoff(), options["retries"])
    return {"decode_responses": shape.decodes, **named}


def now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing but what blocks."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise TypeError("it awaited something, though its lock blocks")


class Routine:
    """A routine that the lock calls; it lasts from the acquire to the release.

    ``given`` is the first argument that it was called with, if any.
    """

    given: Any = None

    def body(self, *_: Any, **__: Any) -> Any:
        """What the lock calls once it is acquired."""
        raise NotImplementedError

    async def begin(self, run: Callable[[], Any]) -> None:
        """Let the lock run the body; return when that has begun. Raises ``Refused``: it never did."""
        raise NotImplementedError

    async def end(self, failure: Ending | None) -> None:
        """Let the body end, with this error or well, and wait for the lock to end."""
        raise NotImplementedError


def is_of_body(error: BaseException, failure: Ending | None) -> bool:
    """Whether an error is what a body ended with, as it was or wrapped, and none of the lock's own."""
    return failure is not None and failure in (error, error.__cause__)


class RoutineThread(Routine):
    """That of a lock that blocks: in a thread of its own."""

    def __init__(self) -> None:
        self._changed, self._go_on = threading.Event(), threading.Event()
        self._entered = False
        self._error: BaseException | None = None
        self._failure: Ending | None = None
        self._thread: threading.Thread | None = None

    def body(self, *given: Any, **_: Any) -> Any:
        self.given, self._entered = given[0] if given else None, True
        self._changed.set()
        self._go_on.wait()
        if self._failure is not None:
            raise self._failure
        return True

    async def begin(self, run: Callable[[], Any]) -> None:
        self._thread = threading.Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()
        self._changed.wait()
        if not self._entered:
            if self._error is not None:
                raise self._error
            raise Refused("it returned without the routine")

    async def end(self, failure: Ending | None) -> None:
        assert self._thread is not None
        self._failure = failure
        self._go_on.set()
        self._thread.join()
        if self._error is not None and not is_of_body(self._error, failure):
            raise self._error

    def _run(self, run: Callable[[], Any]) -> None:
        _ROUTINE.set(self)
        try:
            answer = run()
            if inspect.isawaitable(answer):
                _give_up(answer)
                raise TypeError("it returned something to await, though its lock seems to block")
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits for it
            self._error = error
        self._changed.set()


class RoutineTask(Routine):
    """That of an async lock: in a task of its own, which belongs to the release once that has begun."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[None] = loop.create_future()
        self._go_on: asyncio.Future[contextvars.Context] = loop.create_future()
        self._failure: Ending | None = None
        self._task: asyncio.Task[Any] | None = None

    async def body(self, *given: Any, **_: Any) -> Any:
        self.given = given[0] if given else None
        self._entered.set_result(None)
        context = await self._go_on
        for variable, value in context.items():
            variable.set(value)
        if self._failure is not None:
            raise self._failure
        return True

    async def begin(self, run: Callable[[], Any]) -> None:
        context = contextvars.copy_context()
        context.run(_ROUTINE.set, self)
        self._task = asyncio.get_running_loop().create_task(_run(run), context=context)
        try:
            await asyncio.wait((self._task, self._entered), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancelled(self._task)
            raise
        if not self._entered.done():
            await self._task
            raise Refused("it returned without the routine")

    async def end(self, failure: Ending | None) -> None:
        assert self._task is not None
        if not self._go_on.done():
            self._failure = failure
            self._go_on.set_result(contextvars.copy_context())
        try:
            await self._task  # which is cancelled if this is
        except Exception as error:
            if not is_of_body(error, failure):
                raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not isinstance(failure, BodyCancelled) or (task is not None and task.cancelling()):
                raise


def _give_up(awaitable: Any) -> None:
    """Await it never, without a warning that it never was."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()


async def _run(run: Callable[[], Any]) -> Any:
    return await _result(run())


async def _cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and wait until it has ended, as whoever awaits its code does."""
    task.cancel()
    await asyncio.wait((task,))


class _Use:
    """While the lock's code runs: whose clients it uses, and what it raises to say no becomes ``Refused``."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._session)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        _CURRENT.reset(self._token)
        if isinstance(error, Exception) and not isinstance(error, Refused) and says_no(error):
            raise Refused(f"{type(error).__name__}: {error}") from error


def says_no(error: Exception) -> bool:
    """Whether a lock's exception is a clean no, and not the end of a command whose effect is not known.

    It is if the client library's lock raises it as such, or if the lock's own code raised it and none of the
    errors that led to it is the client library's.
    """
    if any(each.__name__ == "LockError" for each in type(error).__mro__):
        return True
    if isinstance(error, MISTAKES):
        return False
    chain: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in chain:
        chain.append(each)
        each = each.__cause__ or each.__context__
    failed = [one for one in chain if isinstance(one, OSError) and not _is_own_time_out(one)]
    return not failed and not any(map(is_of_client, chain))


def _is_own_time_out(error: BaseException) -> bool:
    """Whether code raised a ``TimeoutError`` by name; the system's has a number, asyncio's no text."""
    return type(error) is TimeoutError and bool(error.args) and error.errno is None


def is_of_client(error: BaseException) -> bool:
    """Whether it is an error of the client library: a command failed, or nothing is known of it."""
    return any(each.__module__ in ("redis.exceptions", "valkey.exceptions") for each in type(error).__mro__)


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _unless_no(answer: Any, use: Use) -> Any:
    """The answer. Raises ``Refused``: it is a no."""
    if answer is False or (type(answer) is int and answer == 0) or (answer is None and use.answers):
        raise Refused(f"{use.name} returned {answer!r}")
    return True if answer is None else answer


def _own_token(held: Held) -> Any:
    """What a method gets that is to know the token: what acquire returned, or what it was given."""
    return held.given["token"] if held.answer is True else held.answer


def _token(answer: Any, lock: Any) -> str:
    """The value of the key, as far as the lock shows it."""
    if isinstance(answer, str | bytes):
        return _text(answer)
    for holder in (answer, lock):
        places = [holder, getattr(holder, "local", None)]
        for place in places:
            named = {name.replace("_", ""): one for name, one in getattr(place, "__dict__", {}).items()}
            for name in TOKENS:
                if isinstance(named.get(name), str | bytes | uuid.UUID):
                    return _text(named[name])
    return ""


async def _fence(held: Held) -> int | None:
    """The fencing token; None if it has none. Raises ``TypeError``: what is said to be one is no number."""
    place, settings = held.shape.fence, held.shape.settings
    if not place:
        return None
    if ":" in place:
        module, _, name = place.partition(":")
        of = held.lock if held.answer in (None, True) else held.answer
        found = await _result(getattr(importlib.import_module(module), name)(of))
    else:
        first, *parts = place.split(".")
        found = held.answer if first == ANSWER else held.lock
        for part in parts:
            if isinstance(found, Mapping):
                found = found[part]
            else:
                found = found[int(part)] if part.isdigit() else getattr(found, part)
        if callable(found):
            found = await _result(found())
    number = _text(found) if isinstance(found, str | bytes) else found
    try:
        fence = None if isinstance(found, bool | float) else int(number)
    except (TypeError, ValueError):
        fence = None
    if settings.fence and (fence is None or abs(fence) > FENCE_MAX):
        raise TypeError(f"its fence, {place}, is {found!r}; expected a whole number of 64 bits")
    return fence if fence is not None and abs(fence) <= FENCE_MAX else None


def _text(token: object) -> str:
    return token.decode(errors="replace") if isinstance(token, bytes) else str(token)


_ROUTINE: contextvars.ContextVar[Routine | None] = contextvars.ContextVar("_ROUTINE")
"""Whose call of a decorated function this is."""
_CURRENT: contextvars.ContextVar[Session] = contextvars.ContextVar("_CURRENT")
"""Who uses the lock now."""
_ALONE: list[Session] = []
"""The only user in a process that is the lock's own: its threads have no context."""
_guarded: list[Callable[[str, tuple[Any, ...]], None]] = []
"""The audit hook, once it is there: it stays for as long as the process."""


def belongs_to(session: Session) -> None:
    """Say that the process is the lock's own: whatever thread runs in it works for this session."""
    _ALONE[:] = [session]


def _user() -> Session | None:
    return _CURRENT.get(_ALONE[0] if _ALONE else None)


def _guard() -> None:
    """Let locks connect to the lab's nodes only: a client of the program's own may lead to real data."""
    if not _guarded:
        _guarded.append(_refuse_others)
        sys.addaudithook(_refuse_others)


def _refuse_others(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect" or (user := _user()) is None:
        return
    address = arguments[1]
    if not user.reaches(address):
        raise OutOfBounds(
            f"the lock connects to {address!r}, which is no node of the lab: which client is that? "
            "docs/ordinary-locks.md, section 'What the lab cannot see'"
        )


@dataclass(frozen=True, slots=True)
class _Current:
    """Stands for a client that a program made for all its locks: for each user of the lock, its own."""

    index: int

    def __getattr__(self, name: str) -> Any:
        user = _user()
        if user is None:
            raise RuntimeError("a client of the lab was used outside of the lock's calls")
        return getattr(user.clients[self.index], name)


def _stand_in(shape: Shape, nodes: int) -> None:
    """Put clients of the lab in the place of those that the program made."""
    for module, name in shape.shared_clients:
        holder = sys.modules[module] if module else shape.target
        several = isinstance(getattr(holder, name), list | tuple)
        made = [_Current(index) for index in range(nodes if several else 1)]
        setattr(holder, name, made if several else made[0])
    for place in shape.settings.replace:
        module, _, name = place.partition(":")
        function = getattr(importlib.import_module(module), name)
        for each in list(sys.modules.values()):
            if vars(each).get(name) is function:
                setattr(each, name, lambda *_, **__: _Current(0))
