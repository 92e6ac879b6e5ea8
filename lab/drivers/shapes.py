"""The shapes of ordinary locks: code that knows nothing of the lab, and how it is used.

A lock is recognised by what it offers (``acquire`` and ``release``, a context manager, two functions, a
function that makes one of these, a decorator, a function that takes a function) and by what its parameters
are called. What cannot be seen is never guessed: it is asked for, in one error, with the lines to add to
``pyproject.toml``. docs/ordinary-locks.md has a template of each shape.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

import msgspec

from lab.client_protocol import Mode
from lab.durations import DurationError, parse_duration_ns
from lab.errors import LabError

Role = Literal[
    "client",
    "clients",
    "url",
    "urls",
    "host",
    "port",
    "sentinel",
    "service",
    "key",
    "ttl_s",
    "ttl_ms",
    "ttl_timedelta",
    "owner",
    "token",
    "body",
    "permits",
    "reads",
    "writes",
    "mode",
    "ttl",
]
"""What a parameter is given. ``sentinel``: the client library's ``Sentinel``, which names the master by a
``service``; ``reads``, ``writes``: whether a reader, or the writer, of a read-write lock asks; ``mode``: that
as "read" or "write"; ``ttl``: a TTL whose unit is not known."""
ROLES: Final[tuple[Role, ...]] = tuple(each for each in get_args(Role) if each != "ttl")
"""Those that can be said of a parameter."""
Style = Literal["object", "context manager", "two functions", "function", "decorator"]
Library = Literal["redis", "valkey"]

NAMES: Final[Mapping[str, frozenset[str]]] = {
    role: frozenset(names.split())
    for role, names in {
        "clients": "clients redisclients conns connections servers nodes instances masters redises "
        "redislist connectionlist valkeys redisconnections redisinstances redisnodes lockservers",
        "client": "client redis redisclient rediscli conn connection redisconn redisconnection r rdb rds rc "
        "cache server node instance master valkey valkeyclient backend cli db redisinstance",
        "urls": "urls redisurls uris",
        "url": "url redisurl uri redisuri dsn connectionstring valkeyurl",
        "host": "host hostname redishost",
        "port": "port redisport",
        "sentinel": "sentinel sentinelclient redissentinel",
        "service": "service servicename mastername mastergroup mastergroupname sentinelservice",
        "key": "key name resource lockname lockkey resourcename resourceid resourcekey keyname rediskey lock "
        "job jobname task taskname entity lockid",
        "owner": "owner ownerid holder holderid clientid workerid instanceid nodeid identity processid",
        "token": "token identifier value lockvalue uuid uniqueid id nonce lockidentifier handle lease",
        "body": "func fn function body callback work callable action",
        "permits": "permits maxpermits numpermits maxleases maxholders maxlocks maxconcurrent maxconcurrency "
        "concurrency limit slots capacity size",
        "reads": "reads read reader shared readonly isread isreader isshared isreadonly forread forreading",
        "writes": "writes write writer exclusive iswrite iswriter isexclusive forwrite forwriting",
    }.items()
}
"""By which names parameters are known, in small letters and without underscores."""
TTL: Final = frozenset(
    [
        "ttl",
        "expire",
        "expiry",
        "expiration",
        "expires",
        "expirein",
        "expiresin",
        "expireafter",
        "expiretime",
        "lease",
        "leasetime",
        "leaseduration",
        "lockttl",
        "locktimeout",
        "lockexpire",
        "lockexpiry",
        "ex",
        "px",
        "duration",
        "autoreleasetime",
        "validity",
        "maxage",
        "lifetime",
        "holdtime",
        "leaselength",
        "lockduration",
        "timetolive",
        "leaseperiod",
        "expirytime",
        "timeouts",
    ]
)
"""The names of a TTL, without a unit; ``timeout`` is one where nothing else is, except in a method."""
IN_MS: Final = frozenset(("ms", "msec", "msecs", "millis", "milliseconds", "px"))
IN_S: Final = frozenset(("s", "sec", "secs", "seconds", "ex"))
S_MAX: Final = 600
MS_MIN: Final = 1000
"""A default of at most ``S_MAX`` counts seconds, one of at least ``MS_MIN`` milliseconds."""

WAITS: Final = frozenset(
    [
        "blockingtimeout",
        "acquiretimeout",
        "acquisitiontimeout",
        "waittimeout",
        "waittime",
        "timetowait",
        "maxwait",
        "maxwaittime",
    ]
)
"""The names of how long an acquire may wait, without a unit; also ``timeout`` and ``wait`` of its method."""

ACQUIRE: Final = ("acquire", "lock", "take", "obtain", "try_acquire", "try_lock", "acquire_lock", "get_lock")
RELEASE: Final = ("release", "unlock", "free", "give_back", "release_lock")
EXTEND: Final = ("extend", "renew", "refresh", "prolong", "extend_lock", "keep_alive")
GIVES: Final[Mapping[Mode, tuple[str, ...]]] = {
    "read": ("read_lock", "reader_lock", "reader", "rlock", "shared_lock", "for_reading"),
    "write": ("write_lock", "writer_lock", "writer", "wlock", "exclusive_lock", "for_writing"),
}
"""What gives the lock for readers, or for the writer, of an object that has both, in the same order."""
WORDS: Final[Mapping[Mode, tuple[str, ...]]] = {
    "read": ("read", "reader", "shared"),
    "write": ("write", "writer", "exclusive"),
}
"""How methods, functions and classes for readers and for the writer are told apart, in the same order."""
OWNED: Final = ("owned", "is_owned", "is_held", "held", "is_acquired", "acquired")
"""Whether *this* client holds it; ``locked`` is not asked, as it says so of any client."""
FENCES: Final = frozenset(("fence", "fencetoken", "fencingtoken", "fencenumber", "fencingnumber"))
"""What the attribute of a lock's object is called that holds its fencing token."""
ANSWER: Final = "answer"
OBJECT: Final = "lock"
"""How ``fence`` names what the acquire returned, and the lock's object."""
BEGINNINGS: Final = ("acquire", "lock", "take", "obtain", "try", "get", "grab")
"""How the name of a function that takes a lock begins, if another one in its module gives it back."""
ENDINGS: Final = ("release", "unlock", "free", "give_back", "drop", "return")
BACKGROUND: Final = frozenset(
    ("Thread", "Timer", "create_task", "ensure_future", "TaskGroup", "run_in_executor", "start_new_thread")
)
"""Calls by which a lock may renew its lease by itself."""
PAUSES: Final = ("sleep", "wait", "wait_for")
"""Calls by which a loop waits."""
NOWHERE: Final = ("127.0.0.1", 1)
"""Nowhere: clients that are made to look at a lock connect with their first command, which is never sent."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``[tool.lock-lab.locks."module:name"]`` in ``pyproject.toml`` says of a lock.

    ``parameters``: what a parameter is given. ``ttl``: how long the lock keeps its key if it takes no TTL
    ("30s", or "none": until the release). ``release``, ``extend``: the function for it, as ``module:name``.
    ``client``: a function that makes a client of a host and a port. ``replace``: functions that return the
    client, as ``module:name``; while the lab runs they return its own. ``renews``: whether the lock renews
    its lease by itself. ``reentrant``: whether its holder may take it again. ``key``: under which
    name the key lies on the nodes, such as "lock:{key}".
    ``permits``: how many clients may hold it at once. ``readers``: what readers take instead, as
    ``module:name``, of a read-write lock; or whether a parameter says that they share it. ``fence``: where
    the fencing token is (see ``Shape.fence``); False: it has none.
    """

    parameters: dict[str, str] = {}
    ttl: str = ""
    release: str = ""
    extend: str = ""
    client: str = ""
    replace: tuple[str, ...] = ()
    renews: bool | None = None
    reentrant: bool | None = None
    key: str = ""
    permits: Annotated[int, msgspec.Meta(ge=1)] | None = None
    readers: bool | str | None = None
    fence: bool | str | None = None


class Parameter(NamedTuple):
    """A parameter that the lab fills in. ``by_position``: it cannot be given by its name."""

    name: str
    role: Role
    by_position: bool = False


class Use(NamedTuple):
    """How a callable is called: what its parameters are given, and which of them are options of the lock.

    ``answers``: it returns something, so that None is a no; one that never does says no by an exception.
    """

    name: str
    parameters: tuple[Parameter, ...]
    options: Mapping[str, str | int | float | bool]
    answers: bool = True

    def roles(self) -> set[str]:
        """What it is given."""
        return {each.role for each in self.parameters}


class Shared(NamedTuple):
    """A variable with a client, or several, which is not passed to the lock."""

    module: str
    """Empty: it is the object's."""
    name: str


class Shape(NamedTuple):
    """How an ordinary lock is used.

    ``made``: how ``target`` is called, before the lock is acquired, or as that; None: it is the lock itself.
    ``lasts_ns``: how long it keeps its key if it takes no TTL; 0: until the release; None: it takes one.
    ``through``: what of the object gives the lock, and how that is called, if the object is not the lock.
    ``readers``: the shape that readers use, where it is another one. ``fence``: where its fencing
    token is once it is acquired: ``lock.NAME``, an attribute of its object; ``answer``, what the acquire
    returned, ``answer.NAME`` or ``answer.1``, a part of that; or ``module:name``, a function of what the
    acquire returned, or of the object if that says no more than yes. Empty: it has none.
    """

    lock: str
    target: Any
    style: Style
    is_async: bool
    made: Use | None
    acquire: Use | None
    release: Use | None
    extend: Use | None
    owned: str
    releases: Any
    extends: Any
    library: Library
    decodes: bool
    shared_clients: tuple[Shared, ...]
    node_key: str
    lasts_ns: int | None
    renews: bool
    settings: Settings
    through: Use | None = None
    readers: Shape | None = None
    fence: str = ""

    def of(self, mode: str) -> Shape:
        """The shape that a reader uses, or the writer."""
        return self.readers if mode == READ and self.readers is not None else self

    @property
    def extend_takes_ttl(self) -> bool:
        """Whether its extension is told for how long; else that is for as long as the lease was asked."""
        return self.extend is not None and any(role.startswith("ttl") for role in self.extend.roles())

    @property
    def read_write(self) -> bool:
        """Whether readers share it."""
        return self.readers is not None or bool(self._roles() & ASKED_FOR)

    @property
    def options(self) -> dict[str, str | int | float | bool]:
        """The options that it takes, with their defaults."""
        taken: dict[str, str | int | float | bool] = {}
        for use in (self.made, self.through, self.acquire):
            taken.update({} if use is None else use.options)
        return taken | (self.readers.options if self.readers is not None else {})

    @property
    def permits(self) -> int:
        """How many clients may hold it at once."""
        return self.settings.permits or 1

    @property
    def is_scope(self) -> bool:
        """Whether ``with`` can be used on one object, and on the same object inside of that."""
        of_class = self.made is None or inspect.isclass(self.target)
        entered = hasattr(self.target, "__enter__") or hasattr(self.target, "__aenter__")
        return of_class and entered and "key" in self._roles()

    @property
    def serves_again(self) -> bool:
        """Whether what ``target`` makes can be entered a second time: the context of a generator cannot."""
        made = inspect.unwrap(self.target) if inspect.isfunction(self.target) else self.target
        return not (inspect.isgeneratorfunction(made) or inspect.isasyncgenfunction(made))

    def wait_ns(self, options: Mapping[str, str | int | float | bool]) -> int | None:
        """How long an acquire with these options may wait, as the lock says; None: it does not say."""
        for use, more in ((self.acquire, frozenset(("timeout", "wait"))), (self.made, frozenset[str]())):
            for name, default in use.options.items() if use is not None else ():
                value = options.get(name, default)
                if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                    unit_ns = _unit_of_wait(name, value, WAITS | more)
                    if unit_ns:
                        return round(value * unit_ns)
        return None

    @property
    def in_seconds(self) -> bool:
        """Whether its TTL is counted in whole seconds."""
        uses = [use for use in (self.made, self.through, self.acquire, self.extend) if use is not None]
        return any("ttl_s" in use.roles() for use in uses) or (
            self.readers is not None and self.readers.in_seconds
        )

    @property
    def asks(self) -> str:
        """What tells it which node to use: "sentinels", or nothing."""
        return "sentinels" if any("sentinel" in use.roles() for use in self._uses()) else ""

    def words(self) -> str:
        """How it is used, in one line."""
        what = {"object": "an object", "function": "a function that makes a lock"}.get(self.style, self.style)
        if self.style in ("object", "two functions"):
            own = (self.through, self.acquire, self.extend, self.release)
            what = f"{what} ({', '.join(use.name for use in own if use is not None)})"
        given = [f"{each.name} = {each.role}" for use in self._uses() for each in use.parameters]
        client = self.settings.client or f"{self.library}{'.asyncio' if self.is_async else ''} client"
        replies = (
            "" if self.settings.client else f" that {'decodes replies' if self.decodes else 'gives bytes'}"
        )
        lasts = {None: "", 0: "; no TTL"}.get(
            self.lasts_ns, f"; a TTL of {(self.lasts_ns or 0) / 1e9:g} s of its own"
        )
        renews = "; renews itself" if self.renews else ""
        key = f"; its key is {self.node_key}" if self.node_key != "{key}" else ""
        permits = f"; {self.permits} permits" if self.permits > 1 else ""
        fence = f"; its fence is {self.fence}" if self.fence else ""
        parameters = ", ".join(dict.fromkeys(given)) or "no parameters"
        words = f"{what}; {parameters}; {client}{replies}{lasts}{renews}{permits}{key}{fence}"
        if self.readers is not None:
            return f"{words}; for readers: {self.readers.words()}"
        return f"{words}; readers share it" if self.read_write else words

    def _roles(self) -> set[str]:
        uses = (self.made, self.through, self.acquire)
        return {role for use in uses if use is not None for role in use.roles()}

    def _uses(self) -> Iterator[Use]:
        uses = (self.made, self.through, self.acquire, self.extend, self.release)
        yield from (use for use in uses if use is not None)


READ: Final = "read"
ASKED_FOR: Final = frozenset(("reads", "writes", "mode"))
"""The roles of parameters that say whether a reader asks."""
OF_THE_LAB: Final = ("build", "margin_ns", "believes")
"""What classes have that offer ``lab.locks.base.Lock``, and ordinary locks have not."""
_KNOWN: dict[str, tuple[Any, Shape | LabError]] = {}
"""What was found by these names, and what came of the look at it."""


def shape_of(name: str, settings: Settings | None = None) -> Shape | None:
    """The shape of the ordinary lock with this name, ``module:attribute``; None if it means no such lock.

    Args:
        name: a lock's name; a class with the lab's own interface is no ordinary lock.
        settings: what is said of it, by default that of the nearest ``pyproject.toml``.

    Raises:
        LabError: what is there has no shape that the lab knows, or more has to be said of it.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not attribute.isidentifier() or not module_name.replace(".", "_").isidentifier():
        return None
    try:
        module = importlib.import_module(module_name)
    except Exception:  # noqa: BLE001 - whoever needs the lock says what is wrong with it
        return None
    found = getattr(module, attribute, None)
    if found is None or any(hasattr(found, part) for part in OF_THE_LAB):
        return None
    known = _KNOWN.get(name)
    if known is None or known[0] is not found:
        try:
            said = settings_of(name) if settings is None else settings
            shape: Shape | LabError = _Look(name, module, found, said).shape()
        except LabError as error:
            shape = error
        known = _KNOWN[name] = found, shape
    if isinstance(known[1], LabError):
        raise known[1]
    return known[1]


def is_blocking(name: str) -> bool:
    """Whether a name means an ordinary lock that blocks, so that it needs a process of its own."""
    try:
        shape = shape_of(name)
    except LabError:
        return False
    return shape is not None and not shape.is_async


def settings_of(name: str) -> Settings:
    """What the nearest ``pyproject.toml`` from here upwards says of a lock. Raises ``LabError``."""
    for directory in (here := Path.cwd(), *here.parents):
        path = directory / "pyproject.toml"
        if path.is_file():
            break
    else:
        return Settings()
    try:
        table = tomllib.loads(path.read_text())
        said = table.get("tool", {}).get("lock-lab", {}).get("locks", {}).get(name, {})
        return msgspec.convert(said, Settings)
    except (ValueError, OSError, AttributeError) as error:  # tomllib's and msgspec's errors are ValueErrors
        raise LabError(
            f"what is said of {name}: {error}",
            where=f"{path}, {_table(name)}",
            expected="the keys " + ", ".join(Settings.__struct_fields__),
            hint="docs/ordinary-locks.md says what they mean",
        ) from error


class _Look:
    """One look at what a name means."""

    def __init__(
        self, name: str, module: ModuleType, found: Any, settings: Settings, mode: Mode | None = None
    ) -> None:
        self._name, self._module, self._found, self._settings = name, module, found, settings
        self._mode = mode
        """Of an object that has one thing for readers and one for writers: which of them is looked at."""
        self._home = inspect.getmodule(found) or module
        """Where its code is: the name may only import it."""
        is_code = inspect.isclass(found) or inspect.isroutine(found)
        self._code: Any = inspect.unwrap(found) if is_code else type(found)
        """What its source is that of."""
        self._key_names: set[str] = set()
        """What parameters for the lock's name are called."""
        self._missing: list[tuple[str, str]] = []
        """What has to be said, and the line that says it."""

    def shape(self) -> Shape:
        """Its shape. Raises ``LabError``."""
        found, settings = self._found, self._settings
        partner = self._partner()
        if inspect.isclass(found):
            made = self._use(_own_init(found), "its constructor", bound=True)
            style = "object" if self._is_two_in_one(found) else self._style_of(found)
        elif partner is not None:
            style, made = "two functions", self._use(found, found.__name__)
        elif inspect.isroutine(found):
            style, made = "function", self._use(found, found.__name__)
            if "body" in made.roles():
                style = "decorator"
            elif _is_manager(found):
                style = "context manager"
        else:
            style, made = "object" if self._is_two_in_one(found) else self._style_of(found), None
        self._ask_for_readers()
        is_async = self._is_async(partner)
        shared = () if made is not None and made.roles() & _REACHES else tuple(self._shared_clients())
        lock = found
        if style == "function":
            assert made is not None
            lock, style, is_async = self._of_function(made, is_async)
        readers = self._readers(lock)
        mode = self._mode or ("write" if readers is not None else None)
        through = None
        if mode is not None and self._gives(lock, mode):
            lock, through, is_async = self._given(lock, mode, made)
            style = self._style_of(lock) if not _is_manager(lock) else "context manager"
        methods = self._methods(lock, mode) if style == "object" else {}
        if through is None and style == "context manager" and _gives_manager(lock):
            methods = {"acquire": ACQUIRE}  # a method, which returns what is entered
        inside = self._run_inside()
        uses = {
            part: self._method(
                lock, [each for each in names if each not in inside and not _goes_on(lock, each)]
            )
            for part, names in methods.items()
        }
        if style == "two functions":
            uses = {"release": self._use(partner, partner.__name__, ends=True)}
        extends = _object_at(settings.extend, "extend") if settings.extend else None
        if extends is not None:
            uses["extend"] = self._use(extends, extends.__name__, ends=True)
        if (extend := uses.get("extend")) is not None and not _can_extend(extend):
            uses["extend"] = None
        is_scope = style == "context manager" and "acquire" not in uses and not inspect.isroutine(lock)
        has_object = style == "object" or is_scope
        owned = _first(lock, OWNED) if has_object else ""
        before = [use for use in (made, through, uses.get("acquire")) if use is not None]
        lasts_ns = self._lasts_ns(before)
        if not shared and not any(use.roles() & _REACHES for use in before) and not settings.replace:
            line = f'replace = ["{self._module.__name__}:FUNCTION_THAT_RETURNS_IT"]'
            self._missing.append(("how it comes to its client", line))
        if before and not any("key" in use.roles() for use in before):
            self._missing.append(("which parameter is the lock's name", 'parameters = {PARAMETER = "key"}'))
        self._complain()
        self._check_client(is_async=is_async)
        return Shape(
            self._name,
            found,
            style,
            is_async,
            made,
            uses.get("acquire"),
            uses.get("release"),
            uses.get("extend"),
            owned,
            partner,
            extends,
            self._library(),
            self._decodes(),
            shared,
            self._node_key(),
            lasts_ns,
            self._renews(),
            settings,
            through,
            readers,
            self._fence(lock, style),
        )

    def _fence(self, lock: Any, style: Style) -> str:
        """Where its fencing token is: as said, or an attribute that its code sets. Raises ``LabError``."""
        said = self._settings.fence
        if said is False:
            return ""
        of_object = style in ("object", "context manager") and not inspect.isroutine(lock)
        if isinstance(said, str):
            first, dot, rest = said.partition(".")
            if ":" in said:
                _object_at(said, "fence")
                return said
            parts = rest.split(".") if dot else []
            is_place = first == ANSWER or (first == OBJECT and parts and of_object)
            if is_place and all(part.isidentifier() or part.isdigit() for part in parts):
                return said
        elif said is None:
            if not of_object:
                return ""
            names = [each for each in _attributes(lock) if _plain(each) in FENCES]
            return f"{OBJECT}.{names[0]}" if names else ""
        raise LabError(
            f"the fence as {said!r}",
            where=f"pyproject.toml, {_table(self._name)}, key fence",
            expected=f'"{ANSWER}" (what acquire returned, or the body gets), "{ANSWER}.NAME", "{ANSWER}.1", '
            + (f'"{OBJECT}.NAME" (an attribute of its object), ' if of_object else "")
            + '"module:function", or false',
            hint="docs/ordinary-locks.md, Fencing tokens",
        )

    def _is_two_in_one(self, lock: Any) -> bool:
        """Whether an object has one thing for readers and another one for writers."""
        if inspect.isroutine(lock) or self._settings.readers is False:
            return False
        return bool(self._gives(lock, "read")) or _has_both(lock)

    def _gives(self, lock: Any, mode: Mode) -> str:
        """What of an object gives the lock for readers, or for the writer; empty: nothing does."""
        if _has_both(lock):
            return ""
        pairs = zip(GIVES["read"], GIVES["write"], strict=True)
        pair = next((each for each in pairs if all(hasattr(lock, name) for name in each)), ("", ""))
        return pair[mode == "write"]

    def _given(self, lock: Any, mode: Mode, made: Use | None) -> tuple[Any, Use, bool]:
        """The lock that an object gives for one of the modes, how that is called, and whether it is async.

        A context manager is known before it is called; anything else is looked at once it was.
        """
        name = self._gives(lock, mode)
        of_class = inspect.isclass(lock)
        method = getattr(lock, name)
        if callable(method) and _is_manager(method):
            is_async = inspect.isasyncgenfunction(inspect.unwrap(method))
            return method, self._use(method, name, bound=of_class, is_method=True), is_async
        is_async = self._imports(".asyncio") and not self._imports("")
        if of_class:
            assert made is not None
            lock = self._made(made, is_async)
        through, given = Use(name, (), {}), getattr(lock, name)
        if inspect.isroutine(given):
            through = self._use(given, name, is_method=True)
            given = self._made(through, is_async, given)
        acquire = getattr(given, _first(given, ACQUIRE), None)
        is_async = inspect.iscoroutinefunction(acquire) or (acquire is None and hasattr(given, "__aenter__"))
        return given, through, is_async

    def _methods(self, lock: Any, mode: Mode | None) -> dict[str, tuple[str, ...]]:
        """The names of methods of an object that is a lock, or of one that is both in one."""
        if mode is None or not _has_both(lock):
            return {"acquire": ACQUIRE, "release": RELEASE, "extend": EXTEND}
        return {part: (*_names_for(part, mode), *usual) for part, usual in _USUAL.items()}

    def _readers(self, lock: Any) -> Shape | None:
        """The shape that readers use, where it is another one. Raises ``LabError``."""
        said = self._settings.readers
        if self._mode is not None or said is False:
            return None
        if self._is_two_in_one(lock):
            return _Look(self._name, self._module, self._found, self._settings, "read").shape()
        if not isinstance(said, str):
            return None
        module, _, _ = said.partition(":")
        found = _object_at(said, "readers")
        own = msgspec.structs.replace(self._settings, readers=False, release="", extend="")
        return _Look(said, importlib.import_module(module), found, own).shape()

    def _ask_for_readers(self) -> None:
        """Ask about a function or class beside this one, of which one is for readers and one for writers."""
        if self._settings.readers is not None or self._mode is not None:
            return
        for reads, writes in zip(WORDS["read"], WORDS["write"], strict=True):
            for one, other in ((writes, reads), (reads, writes)):
                name = getattr(self._found, "__name__", "")
                twin = name.replace(one, other).replace(one.capitalize(), other.capitalize())
                if twin != name and callable(getattr(self._home, twin, None)):
                    place = f"{self._module.__name__}:{twin}"
                    line = f'readers = "{place}"'
                    if one == reads:
                        line = f"readers = false  # if they share nothing; else name {place} to the lab"
                    self._missing.append((f"what readers take: there is {twin} as well", line))
                    return

    def _partner(self) -> Any:
        """The function that gives back what this one takes, if it is one that takes a lock."""
        if self._settings.release:
            return _object_at(self._settings.release, "release")
        name = getattr(self._found, "__name__", "")
        if not inspect.isfunction(self._found) or _is_manager(self._found):
            return None
        begin = next((each for each in BEGINNINGS if name.startswith(each)), None)
        if begin is None:
            return None
        functions = {
            each: one
            for each, one in vars(self._home).items()
            if inspect.isfunction(one) and one is not self._found
        }
        rest = name.removeprefix(begin)
        same = [each for each in functions if each in [f"{ending}{rest}" for ending in ENDINGS]]
        others = [each for each in functions if each.startswith(ENDINGS)]
        chosen = same or others
        return functions[chosen[0]] if len(chosen) == 1 else None

    def _style_of(self, lock: Any) -> Style:
        """What is done with an object, or the objects of a class."""
        if _gives_manager(lock):
            return "context manager"
        if _first(lock, ACQUIRE) and _first(lock, RELEASE):
            return "object"
        if hasattr(lock, "__enter__") or hasattr(lock, "__aenter__"):
            return "context manager"
        name = lock.__name__ if inspect.isclass(lock) else type(lock).__name__
        raise LabError(
            f"{self._name}: {name} is no lock that the lab knows how to use",
            where=self._where(),
            expected="acquire and release, a context manager, two functions, a function that makes one of "
            "these, a decorator, or lab.locks.base.Lock",
            hint="docs/ordinary-locks.md has a template of each; or derive it from lab.locks.base.BaseLock",
        )

    def _made(self, made: Use, is_async: bool, target: Any = None) -> Any:
        """What a function makes, to see what that is; its client is connected to nothing."""
        self._complain(only_names=True)
        try:
            return _sample(target or self._found, made, self._library(), is_async)
        except Exception as error:
            raise LabError(
                f"{self._name}, which was called to see what it makes: {type(error).__name__}: {error}",
                where=self._where(),
                expected="a function that makes a lock and sends nothing, or one that takes the lock, and "
                "another that gives it back",
                hint=self._lines([f'release = "{self._module.__name__}:FUNCTION"']),
            ) from error

    def _method(self, lock: Any, names: Iterable[str]) -> Use | None:
        name = _first(lock, names)
        if not name:
            return None
        of_class = inspect.isclass(lock)
        ends = name in (*RELEASE, *EXTEND, *_OF_TWO["release"], *_OF_TWO["extend"])
        return self._use(getattr(lock, name), name, bound=of_class, ends=ends, is_method=True)

    def _use(
        self, call: Any, name: str, *, bound: bool = False, ends: bool = False, is_method: bool = False
    ) -> Use:
        """How a callable is called. ``bound``: it has ``self``; ``ends``: it gets what acquire returned."""
        if call is None:
            return Use(name, (), {})
        try:
            parameters = list(inspect.signature(call).parameters.values())
        except (TypeError, ValueError):
            return Use(name, (), {})
        if bound and parameters and not inspect.ismethod(call):
            parameters = parameters[1:]
        taken = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        has_ttl = any(_plain(each.name) in TTL or _unit(each.name) is not None for each in taken)
        given: list[Parameter] = []
        options: dict[str, str | int | float | bool] = {}
        for each in taken:
            role = self._role(each, has_ttl=has_ttl, is_method=is_method, ends=ends)
            required = each.default is each.empty
            if role == "ttl":
                self._missing.append(
                    (f"the unit of {each.name} of {name}", f'parameters = {{{each.name} = "ttl_s"}}')
                )
            elif role == "permits" and not (required and self._settings.permits):
                options |= self._permits(each, name, given)
            elif role in ASKED_FOR and not self._is_said(each.name) and self._settings.readers is not True:
                options |= self._no_readers(each, name)
            elif role in ("owner", "token", "body", "host", "port", "url") and not required and not ends:
                continue  # it has a default of its own
            elif role is not None:
                self._key_names |= {each.name} if role == "key" else set()
                given.append(Parameter(each.name, role, each.kind is each.POSITIONAL_ONLY))
            elif required:
                self._missing.append(
                    (f"what {each.name} of {name} is given", f'parameters = {{{each.name} = "key"}}')
                )
            elif isinstance(each.default, str | int | float | bool):
                options[each.name] = each.default
        return Use(name, tuple(given), options, _answers(call))

    def _permits(
        self, parameter: inspect.Parameter, of: str, given: list[Parameter]
    ) -> dict[str, str | int | float | bool]:
        """Give a parameter that may say how many clients hold it at once what is said of that; else ask.

        Returns the option that it is of a lock that is said to have one holder.
        """
        default, permits = parameter.default, self._settings.permits
        if permits is None and default != 1:
            number = default if type(default) is int and default > 1 else 3
            what = f"how many clients may hold it at once: {of} has a parameter {parameter.name}"
            self._missing.append((what, f"permits = {number}"))
        elif permits is not None and permits > 1:
            given.append(Parameter(parameter.name, "permits", parameter.kind is parameter.POSITIONAL_ONLY))
        elif permits == 1 and isinstance(default, str | int | float | bool):
            return {parameter.name: default}
        return {}

    def _is_said(self, parameter: str) -> bool:
        return parameter in self._settings.parameters

    def _no_readers(self, parameter: inspect.Parameter, of: str) -> dict[str, str | int | float | bool]:
        """The option that a parameter is which might say that a reader asks, and does not; else ask."""
        name, default = parameter.name, parameter.default
        if self._settings.readers is None:
            self._missing.append((f"whether readers share it: {of} has a parameter {name}", "readers = true"))
        elif default is parameter.empty:
            self._missing.append((f"what {name} of {of} is given", f'parameters = {{{name} = "key"}}'))
        elif isinstance(default, str | int | float | bool):
            return {name: default}
        return {}

    def _role(
        self, parameter: inspect.Parameter, *, has_ttl: bool, is_method: bool, ends: bool
    ) -> Role | None:
        """What a parameter is given; None if nothing says so."""
        said = self._settings.parameters.get(parameter.name)
        if said is not None:
            if said not in ROLES:
                raise LabError(
                    f"the parameter {parameter.name} as {said!r}",
                    where=f"pyproject.toml, {_table(self._name)}, key parameters.{parameter.name}",
                    expected="one of " + ", ".join(ROLES),
                )
            return said
        plain, unit = _plain(parameter.name), _unit(parameter.name)
        optional = parameter.default is not parameter.empty
        waits = plain == "timeout" and (has_ttl or (is_method and optional and not ends))
        if unit is not None or plain in TTL or (plain in ("timeout", "additionaltime") and not waits):
            return self._ttl(parameter, unit)
        annotation = str(parameter.annotation)
        if "Sentinel" in annotation:
            return "sentinel"
        if "Redis" in annotation or "Valkey" in annotation:
            several = any(
                word in annotation for word in ("list", "List", "Sequence", "Iterable", "tuple", "set")
            )
            return "clients" if several else "client"
        if ends and plain in ("lock", "lease"):
            return "token"  # what acquire returned
        for role, names in NAMES.items():
            if plain in names:
                return role  # type: ignore[return-value]
        return None

    def _ttl(self, parameter: inspect.Parameter, unit: Role | None) -> Role:
        default = parameter.default
        if "timedelta" in str(parameter.annotation) or type(default).__name__ == "timedelta":
            return "ttl_timedelta"
        if unit is not None:
            return unit
        if isinstance(default, float) or "float" in str(parameter.annotation):
            return "ttl_s"
        if isinstance(default, int) and not isinstance(default, bool):
            if 0 < default <= S_MAX:
                return "ttl_s"
            if default >= MS_MIN:
                return "ttl_ms"
        if self._home.__name__.partition(".")[0] in ("redis", "valkey") or self._is_of_client_library():
            return "ttl_s"
        return self._ttl_by_use(parameter.name)

    def _is_of_client_library(self) -> bool:
        """Whether it is a subclass of the client library's own lock, whose TTLs are seconds."""
        bases = self._found.__mro__ if inspect.isclass(self._found) else ()
        return any(each.__module__ in ("redis.lock", "redis.asyncio.lock", "valkey.lock") for each in bases)

    def _ttl_by_use(self, name: str) -> Role:
        """The unit by the argument that it becomes: ``px=ttl``, ``ex=ttl``, ``expire(key, ttl)``."""
        for call in (each for each in ast.walk(self._tree()) if isinstance(each, ast.Call)):
            by_name = {each.arg: each.value for each in call.keywords}
            for argument, role in (("px", "ttl_ms"), ("ex", "ttl_s"), ("timeout", "ttl_s")):
                if argument in by_name and _is_name(by_name[argument], name):
                    return role  # type: ignore[return-value]
            called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if called in ("expire", "pexpire", "setex", "psetex") and any(
                _is_name(each, name) for each in call.args
            ):
                return "ttl_ms" if called.startswith("p") else "ttl_s"
        return "ttl"

    def _lasts_ns(self, uses: list[Use]) -> int | None:
        """How long a lock without a TTL keeps its key."""
        if any(each.role.startswith("ttl") for use in uses for each in use.parameters):
            return None
        said = self._settings.ttl
        if not said:
            if not any("unit" in what for what, _ in self._missing):
                self._missing.append(("how long it keeps its key, as it takes no TTL", 'ttl = "30s"'))
            return 0
        if said == "none":
            return 0
        try:
            return parse_duration_ns(said)
        except DurationError as error:
            raise LabError(
                f"the TTL {said!r}",
                where=f"pyproject.toml, {_table(self._name)}, key ttl",
                expected='a duration with its unit, such as "30s", or "none"',
            ) from error

    def _shared_clients(self) -> Iterator[Shared]:
        """Clients in variables of the program's modules, and of the lock's object if that is named itself."""
        root = Path(getattr(self._module, "__file__", None) or "/").parents[self._module.__name__.count(".")]
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file and Path(file).is_relative_to(root) and "site-packages" not in file:
                yield from (
                    Shared(module.__name__, each) for each, one in vars(module).items() if _are_clients(one)
                )
        if not inspect.isclass(self._found) and not inspect.isroutine(self._found):
            held = getattr(self._found, "__dict__", {})
            yield from (Shared("", each) for each, one in held.items() if _are_clients(one))

    def _is_async(self, partner: Any) -> bool:
        found = self._found
        if inspect.isclass(found) or not inspect.isroutine(found):
            names = _names_for("acquire", self._mode or "write") if self._is_two_in_one(found) else ()
            acquire = getattr(found, _first(found, (*names, *ACQUIRE)), None)
            if acquire is not None and _is_manager(acquire):
                return inspect.isasyncgenfunction(inspect.unwrap(acquire))
            return inspect.iscoroutinefunction(acquire) or (acquire is None and hasattr(found, "__aenter__"))
        inner = inspect.unwrap(found)
        if any(map(inspect.iscoroutinefunction, (found, inner, partner))) or inspect.isasyncgenfunction(
            inner
        ):
            return True
        if partner is not None or inspect.isgeneratorfunction(inner):
            return False
        waits = any(isinstance(each, ast.AsyncFunctionDef | ast.Await) for each in ast.walk(self._tree()))
        return waits or (self._imports(".asyncio") and not self._imports(""))

    def _of_function(self, made: Use, is_async: bool) -> tuple[Any, Style, bool]:
        """What a function makes, how that is used, and whether it is async. Raises ``LabError``.

        ``is_async`` is what its source looks like. What a decorator makes says more: if that is of the other
        kind, it is made again, with such a client.
        """
        lock = self._made(made, is_async)
        if not inspect.isroutine(lock):
            return lock, "object" if self._is_two_in_one(lock) else self._style_of(lock), is_async
        if self._decorates(lock, is_async) is not is_async:
            lock, is_async = self._made(made, not is_async), not is_async
        return lock, "decorator", is_async

    def _decorates(self, decorator: Any, is_async: bool) -> bool:
        """Whether what it makes of a function is async; of one that makes either what its client is.

        ``is_async`` counts if it makes plain functions alone, which may return something to await.
        """
        try:
            of_plain, of_async = (
                inspect.iscoroutinefunction(decorator(each)) for each in (_plain_body, _body)
            )
        except Exception:  # noqa: BLE001 - what is wrong with it is seen when it is used
            return is_async
        if of_plain == of_async:
            return of_async or is_async
        said = self._client_is_async()
        return self._imports(".asyncio") and not self._imports("") if said is None else said

    def _client_is_async(self) -> bool | None:
        """Whether its client is one for asyncio, by the type of the parameter; None: it has no such type."""
        try:
            given = inspect.signature(self._found, eval_str=True).parameters.values()
        except (NameError, TypeError, ValueError):
            return None
        places = [str(getattr(each.annotation, "__module__", "")) for each in given]
        said = {".asyncio" in place for place in places if place.partition(".")[0] in ("redis", "valkey")}
        return said.pop() if len(said) == 1 else None

    def _check_client(self, *, is_async: bool) -> None:
        """Raises ``LabError``: its code is async and its client blocks, by its type, or the other way."""
        said = self._client_is_async()
        if self._settings.client or said in (None, is_async):
            return
        library = self._library()
        awaited, blocking = f"{library}.asyncio.Redis", f"{library}.Redis"
        code, client = ("async", blocking) if is_async else ("plain", awaited)
        raise LabError(
            f"{code} code whose client is of the type {client}",
            where=self._name,
            expected=f"{awaited} in async code, {blocking} in code that blocks, as the lab makes its client",
            hint="correct the type, or say what makes its client: "
            f'{_table(self._name)} client = "module:function"',
        )

    def _imports(self, part: str) -> bool:
        """Whether its module has the client library, or its part for asyncio, or classes of that."""
        places = {f"{library}{part}" for library in ("redis", "valkey")}
        for one in vars(self._home).values():
            place = one.__name__ if isinstance(one, ModuleType) else getattr(one, "__module__", None) or ""
            inside = str(place).removesuffix(".client").removesuffix(".lock").removesuffix(".sentinel")
            if inside in places:
                return True
        return False

    def _node_key(self) -> str:
        """Under which name the key lies on the nodes: as said, or by what the code puts before its name."""
        if self._settings.key:
            return self._settings.key
        found = {f"{prefix}{{key}}" for prefix in _prefixes(self._tree(), self._key_names)}
        return found.pop() if len(found) == 1 else "{key}"

    def _library(self) -> Library:
        for one in vars(self._home).values():
            place = one.__name__ if isinstance(one, ModuleType) else getattr(one, "__module__", None) or ""
            if str(place).partition(".")[0] == "valkey":
                return "valkey"
        return "redis"

    def _decodes(self) -> bool:
        """Whether its client decodes replies: its module says so, or has no bytes to compare them with."""
        source = _source_of(self._home)
        if "decode_responses=True" in source.replace(" ", ""):
            return True
        if self._home.__name__.partition(".")[0] in ("redis", "valkey"):
            return False
        tree = ast.parse(source) if source else ast.Module([], [])
        for each in ast.walk(tree):
            if isinstance(each, ast.Attribute) and each.attr in ("decode", "encode"):
                return False
            if isinstance(each, ast.Constant) and isinstance(each.value, bytes):
                return False
            if isinstance(each, ast.Name) and each.id == "bytes":
                return False
        return True

    def _renews(self) -> bool:
        if self._settings.renews is not None:
            return self._settings.renews
        for name in _calls_in(self._tree()):
            if name in BACKGROUND:
                self._missing.append(
                    (f"whether it renews its lease by itself: it has a {name}", "renews = true")
                )
                self._complain()
        return False

    def _run_inside(self) -> set[str]:
        """What the lock runs in threads or tasks itself: ``Thread(target=self.renew)`` is for it alone."""
        found: set[str] = set()
        for call in (each for each in ast.walk(self._tree()) if isinstance(each, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in BACKGROUND:
                given = [*call.args, *(each.value for each in call.keywords)]
                parts = [part for each in given for part in ast.walk(each)]
                found |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
        return found

    def _tree(self) -> ast.AST:
        """The code of the target; of a library's own nothing is read."""
        if self._home.__name__.partition(".")[0] in ("redis", "valkey"):
            return ast.Module([], [])
        try:
            return ast.parse(textwrap.dedent(inspect.getsource(self._code)))
        except (OSError, TypeError, SyntaxError):
            return ast.Module([], [])

    def _complain(self, *, only_names: bool = False) -> None:
        """Raise one error for all that has to be said."""
        missing = [each for each in self._missing if not only_names or each[0].startswith(_NAMED)]
        if not missing:
            return
        raise LabError(
            f"{self._name}: not known: {'; '.join(what for what, _ in missing)}",
            where=self._where(),
            expected="parameters with usual names (client, key, ttl_ms, timeout_s …), or what they mean",
            hint=self._lines([line for _, line in missing]),
        )

    def _lines(self, lines: list[str]) -> str:
        table, inside = _table(self._name), "parameters = {"
        named = [each.removeprefix(inside).removesuffix("}") for each in lines if each.startswith(inside)]
        others = [each for each in lines if not each.startswith(inside)]
        joined = [f"{inside}{', '.join(named)}}}"] if named else []
        roles = f"  # one of {', '.join(ROLES)}" if named else ""
        return "\n".join(["add to pyproject.toml:", table, *[f"{each}{roles}" for each in joined], *others])

    def _where(self) -> str:
        try:
            return f"{inspect.getsourcefile(self._code)}:{inspect.getsourcelines(self._code)[1]}"
        except (OSError, TypeError):
            return self._name


_NAMED: Final = ("what ", "how many ", "whether readers ")
"""How what has to be said of a parameter begins."""
_REACHES: Final = frozenset(("client", "clients", "url", "urls", "host", "sentinel"))
"""What a lock is given to reach its nodes."""


def _table(name: str) -> str:
    """The heading under which ``pyproject.toml`` says something of a lock."""
    return f'[tool.lock-lab.locks."{name}"]'


def is_of_permits(name: str) -> bool:
    """Whether a parameter, or an option, with this name may be how many clients hold a lock at once."""
    return _plain(name) in NAMES["permits"]


_USUAL: Final = {"acquire": ACQUIRE, "release": RELEASE, "extend": EXTEND}
_VERBS: Final = {"acquire": ("acquire", "lock"), "release": ("release", "unlock"), "extend": EXTEND[:3]}


def _names_for(part: str, mode: Mode) -> tuple[str, ...]:
    """What a method for readers, or for the writer, is called, of an object that is both in one."""
    return tuple(
        name
        for word in WORDS[mode]
        for verb in _VERBS[part]
        for name in (f"{verb}_{word}", f"{word}_{verb}", f"{verb}_{word}_lock")
    )


_OF_TWO: Final = {part: (*_names_for(part, "read"), *_names_for(part, "write")) for part in _VERBS}


def _has_both(lock: Any) -> bool:
    """Whether an object has methods for readers and methods for writers, and gives back what both took."""
    takes = bool(_first(lock, _names_for("acquire", "read"))) and bool(
        _first(lock, (*_names_for("acquire", "write"), *ACQUIRE))
    )
    gives_back = all(_first(lock, (*_names_for("release", mode), *RELEASE)) for mode in WORDS)
    return takes and gives_back


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _unit(name: str) -> Role | None:
    """The unit of a TTL, as its name says it: ``ttl_ms``, ``lease_seconds``, ``px``."""
    *stem, last = name.lower().strip("_").split("_")
    of_ttl = not stem or "".join(stem) in TTL or "".join(stem) in ("timeout", "lock", "ttl")
    if last in IN_MS and of_ttl:
        return "ttl_ms"
    if last in IN_S and of_ttl and (stem or last in ("ex", "seconds")):
        return "ttl_s"
    return None


def _unit_of_wait(name: str, value: float, names: frozenset[str]) -> int:
    """The unit of a parameter for how long an acquire may wait, in nanoseconds; 0: not known."""
    *stem, last = name.lower().strip("_").split("_")
    by_name = 1_000_000 if last in IN_MS else 1_000_000_000 if last in IN_S else 0
    if by_name and "".join(stem) in names:
        return by_name
    if _plain(name) not in names:
        return 0
    if isinstance(value, float) or value <= S_MAX:
        return 1_000_000_000
    return 1_000_000 if value >= MS_MIN else 0


def _first(lock: Any, names: Iterable[str]) -> str:
    return next((each for each in names if callable(getattr(lock, each, None))), "")


def _own_init(found: type) -> Any:
    """Its constructor, if it has one of its own."""
    return next((vars(each)["__init__"] for each in found.__mro__[:-1] if "__init__" in vars(each)), None)


def _attributes(lock: Any) -> Iterator[str]:
    """What objects of a class have as attributes, as far as its code, and that of those above it, says so."""
    for kind in (lock if inspect.isclass(lock) else type(lock)).__mro__[:-1]:
        yield from (name for name, one in vars(kind).items() if not callable(one))
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
        except (OSError, TypeError, SyntaxError):
            continue
        for each in ast.walk(tree):
            if (
                isinstance(each, ast.Attribute)
                and isinstance(each.ctx, ast.Store)
                and _is_name(each.value, "self")
            ):
                yield each.attr


def _is_manager(found: Any) -> bool:
    """Whether it was made by ``contextlib.contextmanager`` or ``asynccontextmanager``."""
    inner = inspect.unwrap(found)
    return inner is not found and (inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner))


def _answers(call: Any) -> bool:
    """Whether some ``return`` in it has a value; of code that cannot be read, yes."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(call))))
    except (OSError, TypeError, SyntaxError):
        return True
    return any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(tree))


def _goes_on(lock: Any, name: str) -> bool:
    """Whether a method is no call of its user's: it starts a thread or a task, or waits in a loop for good.

    One that asks again in a loop until it has an answer returns that.
    """
    if name not in EXTEND:
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(lock, name)))))
    except (AttributeError, OSError, TypeError, SyntaxError):
        return False
    loops = [each for each in ast.walk(tree) if isinstance(each, ast.While)]
    waits = any(called in PAUSES for loop in loops for called in _calls_in(loop))
    answers = any(isinstance(each, ast.Return) and each.value is not None for each in ast.walk(tree))
    return (waits and not answers) or any(called in BACKGROUND for called in _calls_in(tree))


def _calls_in(tree: ast.AST) -> Iterator[str]:
    """The names of what is called, without the objects that they are methods of."""
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        yield call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _gives_manager(lock: Any) -> bool:
    """Whether its method for acquiring returns a context manager."""
    name = _first(lock, ACQUIRE)
    return bool(name) and _is_manager(getattr(lock, name))


def _can_extend(use: Use) -> bool:
    """Whether it sets a lease to a length, and does not only add to what is left of it."""
    adds = [each.name for each in use.parameters if _plain(each.name).startswith("additional")]
    return not adds or "replace_ttl" in use.options


def _is_client(one: Any) -> bool:
    kinds = [each for each in type(one).__mro__ if each.__module__.partition(".")[0] in ("redis", "valkey")]
    return any(each.__name__ in ("Redis", "Valkey") for each in kinds)


def _prefixes(tree: ast.AST, names: set[str]) -> Iterator[str]:
    """What is put before one of these variables, in ``"lock:" + name`` or ``f"lock:{name}"``."""

    def is_key(node: ast.AST) -> bool:
        return any(_is_name(node, name) for name in names)

    for each in ast.walk(tree):
        match each:
            case ast.BinOp(left=ast.Constant(value=str(prefix)), op=ast.Add(), right=right) if is_key(right):
                yield prefix
            case ast.BinOp(left=ast.Constant(value=str(pattern)), op=ast.Mod(), right=right) if is_key(right):
                yield pattern.removesuffix("%s")
            case ast.JoinedStr(values=[ast.Constant(value=str(prefix)), ast.FormattedValue(value=name)]):
                if is_key(name):
                    yield prefix


def _are_clients(one: Any) -> bool:
    return _is_client(one) or (isinstance(one, list | tuple) and bool(one) and all(map(_is_client, one)))


def _is_name(node: ast.AST, name: str) -> bool:
    """Whether it is this variable, or the attribute that a constructor keeps it in, as it stands."""
    if isinstance(node, ast.Name):
        return node.id == name
    return isinstance(node, ast.Attribute) and node.attr.strip("_") == name.strip("_")


def class_of_clients(library: Library, *, is_async: bool) -> Any:
    """The class of the client library that speaks to one node."""
    module = importlib.import_module(f"{library}.asyncio" if is_async else library)
    return module.Redis if library == "redis" else module.Valkey


def class_of_sentinel(library: Library, *, is_async: bool) -> Any:
    """The class of the client library that asks Sentinels."""
    return importlib.import_module(f"{library}{'.asyncio' if is_async else ''}.sentinel").Sentinel


def _plain_body() -> None:
    """What a decorator is given, to see what it makes of it."""


async def _body() -> None:
    """What a decorator for async functions is given."""


def _sample(target: Any, made: Use, library: Library, is_async: bool) -> Any:
    """What a function makes of a client that is connected to nothing: called once, to see what that is."""
    host, port = NOWHERE
    client = class_of_clients(library, is_async=is_async)(host=host, port=port)
    url = f"{library}://{host}:{port}"
    values: dict[str, Any] = dict.fromkeys(("key", "owner", "token"), "look")
    values |= {"client": client, "clients": [client], "url": url, "urls": [url], "host": host, "port": port}
    values |= {"sentinel": class_of_sentinel(library, is_async=is_async)([NOWHERE]), "service": "look"}
    values |= {"reads": True, "writes": False, "mode": READ}
    values |= {"ttl_s": 10, "ttl_ms": 10_000, "ttl_timedelta": timedelta(seconds=10), "permits": 2}
    found = target(**{each.name: values[each.role] for each in made.parameters})
    if inspect.isawaitable(found):
        if inspect.iscoroutine(found):
            found.close()
        raise TypeError("it is async, and what it gives is not known before it is awaited")
    return found


@functools.cache
def _source_of(module: ModuleType) -> str:
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return ""


def _object_at(place: str, key: str) -> Any:
    """What ``module:name`` means. Raises ``LabError``."""
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise LabError(
            f"{place!r}: {error}", where=f"pyproject.toml, key {key}", expected="module:function"
        ) from error
