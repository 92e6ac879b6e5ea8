"""The locks under test: ``lock_class`` finds one by name, by ``module:Class``, or behind a driver."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from random import Random
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from lab.addresses import Address
from lab.drivers import CLASS_IN_FILE, PREFIX, is_driver
from lab.drivers.shapes import shape_of
from lab.errors import LabError, did_you_mean
from lab.locks.base import Lock, OptionError, Options, OptionValue, Surroundings
from lab.locks.capacity import Capacity

BUILT_IN = {
    "single": "lab.locks.single:Single",
    "observed-lease": "lab.locks.observed:ObservedLease",
    "setnx-expire": "lab.locks.setnx_expire:SetnxExpire",
    "fixed-value": "lab.locks.careless:FixedValue",
    "plain-del": "lab.locks.careless:PlainDel",
    "failover": "lab.locks.failover:Failover",
    "sentinel": "lab.locks.sentinel:SentinelLock",
    "cluster": "lab.locks.cluster:ClusterLock",
    "redlock": "lab.locks.redlock:Redlock",
    "redlock-sequential": "lab.locks.redlock:SequentialRedlock",
    "redlock-counter": "lab.locks.counter:CountingRedlock",
    "redlock-fenced": "lab.locks.fenced:FencedRedlock",
    "redlock-cas": "lab.locks.cas:CasRedlock",
    "redlock-hyperf": "lab.locks.hyperf:HyperfRedlock",
    "etcd": "lab.locks.etcd:EtcdLock",
    "zookeeper": "lab.locks.zookeeper:ZooKeeperLock",
    "postgres": "lab.locks.postgres:PostgresLock",
}
_AROUND: Final = {
    "sentinels": (
        "asks Sentinels for the master, and there are none",
        "a scenario whose cluster has Sentinels: `lab list --sentinel` shows some",
        "cluster: {nodes: 2, replicas: {B: A}, sentinels: 3}",
    ),
    "cluster": (
        "follows the redirections of a Redis Cluster, and the nodes are none",
        "a scenario whose nodes are a Redis Cluster: `lab list --cluster` shows some",
        "cluster: {nodes: 6, replicas: {D: A, E: B, F: C}, sharded: true}",
    ),
}
MUTANT = "mutant:"
"""The prefix of the names of the lab's own broken locks: see ``lab.locks.broken``."""
PARTS = (
    *("name", "hands_out_fences", "build", "margin_ns"),
    *("open", "close", "acquire", "extend", "release", "believes"),
)
"""What a class needs to be a lock; a test holds this to ``lab.locks.base.Lock``."""
_NOWHERE: Final = tuple(Address(name, "127.0.0.1", 1) for name in "ABCDE")
"""Nodes of a lock that is made to see which options it takes, and is never opened."""


def is_own(name: str) -> bool:
    """Whether a lock comes with the lab, so that its clients import no other code."""
    if is_driver(name):
        return name.startswith(PREFIX)
    return ":" not in name or name.startswith(MUTANT)


def _place(name: str) -> str:
    if name.startswith(MUTANT):
        return str(importlib.import_module("lab.locks.broken").place(name))
    return BUILT_IN.get(name, name)


def lock_class(name: str) -> type[Lock]:
    """Return the class of a built-in lock, or of a user's own.

    That is given as ``package.module:Class``, as ``package.module:name`` of an ordinary lock, as
    ``driver:NAME``, or as the command line of a driver, which contains a slash or a space.

    Raises:
        LabError: no such lock, module or driver, or a class that is no lock.
    """
    if is_driver(name):
        from lab.locks.driver import driver_class

        return driver_class(name)
    place = _place(name)
    module_name, colon, attribute = place.partition(":")
    if not colon:
        near = did_you_mean(name, list(BUILT_IN))
        raise LabError(
            seen=f"the lock {name!r}",
            where="lock.name",
            expected="one of " + ", ".join(BUILT_IN) + ", or your own as package.module:Class or ./driver",
            hint=_hint_for_word(name, near),
        )
    if in_file := CLASS_IN_FILE.fullmatch(name):
        raise _by_its_file(name, *in_file.groups())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may raise anything
        raise _not_importable(name, module_name, error) from error
    found = getattr(module, attribute, None)
    if found is None:
        raise _no_such_class(name, module, attribute)
    missing = [part for part in PARTS if not hasattr(found, part)]
    if not missing:
        return cast("type[Lock]", found)
    shape = shape_of(name)
    if shape is None:
        raise _no_lock(name, found, missing)
    from lab.locks.ordinary import ordinary_class

    return ordinary_class(name, shape)


def _no_lock(name: str, found: Any, missing: list[str]) -> LabError:
    """The error of a class that has some parts of the lab's interface, and lacks others."""
    return LabError(
        seen=f"{name}, which lacks {', '.join(missing)}",
        where="lock.name",
        expected="a class that offers lab.locks.base.Lock",
        hint="derive it from lab.locks.base.BaseLock, which has all but acquire and release",
    )


def _hint_for_word(name: str, near: str | None) -> str:
    """What to write in place of a word that is no lock."""
    if near:
        return f"did you mean {near!r}?"
    if name.isidentifier() and importlib.util.find_spec(name) is not None:
        return f"{name} is a module: write {name}:Class"
    return "a class of yours must offer lab.locks.base.Lock"


def _by_its_file(name: str, directory: str | None, module: str, attribute: str) -> LabError:
    """The error of a class that is given by the path of its file."""
    path = f", with PYTHONPATH={directory}" if directory not in (None, ".") else ""
    return LabError(
        seen=f"the lock {name!r}, a class by its file",
        where="lock.name",
        expected="package.module:Class, as Python imports it",
        hint=f"write {module}:{attribute}{path}",
    )


def _not_importable(name: str, module: str, error: Exception) -> LabError:
    """The error of a module that is missing, or that fails when it is imported; the hints differ."""
    parents = [module.rsplit(".", depth)[0] for depth in range(module.count(".") + 1)]
    missing = isinstance(error, ModuleNotFoundError) and error.name in parents
    if name in BUILT_IN:
        hint = "pip install 'lock-lab[consensus]'"
    elif missing or isinstance(error, ValueError):
        hint = "is its directory on PYTHONPATH?"
    else:
        hint = f"the module itself fails: python -c 'import {module}' shows where"
    what = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return LabError(
        seen=f"the lock {name!r}, which cannot be imported: {what}",
        where="lock.name",
        expected="an importable package.module:Class",
        hint=hint,
    )


def _no_such_class(name: str, module: ModuleType, attribute: str) -> LabError:
    """The error of a module without this class or function, with those that it has."""
    known = {name: one for name, one in vars(module).items() if isinstance(one, type | FunctionType)}
    own = [name for name, one in known.items() if one.__module__ == module.__name__]
    near = did_you_mean(attribute, list(known))
    there = f"it has {', '.join(own)}" if own else "it defines no class and no function"
    return LabError(
        seen=f"the lock {name!r}: the module {module.__name__} has no {attribute!r}",
        where="lock.name",
        expected="package.module:name, and a class or a function that the module has",
        hint=" ".join([*([f"did you mean {near!r}?"] if near else []), f"{there} ({module.__file__})"]),
    )


def name_of(lock: str | Callable[..., Any]) -> str:
    """Return the name of a lock, which may be given as its class or function: ``module:name``.

    Raises:
        LabError: one inside a function or a class, which no other run could find.
    """
    if isinstance(lock, str):
        return lock
    if "." in lock.__qualname__:
        raise LabError(
            seen=f"the lock {lock.__module__}.{lock.__qualname__}",
            where="lock",
            expected="a class or a function at the top level of its module",
            hint="it is imported by its module and its name",
        )
    return f"{lock.__module__}:{lock.__qualname__}"


def service_of(name: str) -> str:
    """Return what kind of servers a lock talks to. Raises ``LabError`` for an unknown lock."""
    return str(getattr(lock_class(name), "service", "redis"))


def lacks_around(name: str, around: str = "") -> tuple[str, str, str] | None:
    """What a lock needs that tells it which node to ask, if that is not there (``around``).

    What it does and lacks, what is expected, and a cluster that has it; None: it lacks nothing. Raises
    ``LabError`` for an unknown lock.
    """
    if name.startswith(PREFIX):
        # By its name: a client in a container is given a command line, and has no registry.
        registry = importlib.import_module("lab.drivers.registry")
        needed = str(registry.row(name.removeprefix(PREFIX)).asks)
    elif (shape := shape_of(name)) is not None:
        needed = shape.asks
    else:
        needed = getattr(lock_class(name), "asks", "")
    return None if needed in ("", around) else _AROUND[needed]


def refuse_alone(name: str, where: str, around: str = "", hint: str = "") -> None:
    """Refuse a lock that asks Sentinels or a Redis Cluster, where there is none. Raises ``LabError``."""
    if (lack := lacks_around(name, around)) is not None:
        does, expected, cluster = lack
        raise LabError(f"the lock {name} {does}", where=where, expected=expected, hint=hint or cluster)


def capacity_of(name: str) -> Capacity:
    """How many may hold a lock at once, as its class or its settings say: one if nothing does.

    Raises ``LabError``: there is no such lock, or what it says is no number of permits, or both of a
    semaphore and of a read-write lock.
    """
    shape = None if name in BUILT_IN or name.startswith((MUTANT, PREFIX)) else shape_of(name)
    own = lock_class(name) if shape is None else shape
    said, read_write = getattr(own, "permits", 1), getattr(own, "read_write", False) is True
    if not isinstance(said, int) or isinstance(said, bool) or said < 1:
        raise LabError(f"{said!r} as the permits of {name}", where="permits", expected="a positive number")
    if read_write and said > 1:
        raise LabError(
            f"{name}, a read-write lock of {said} permits",
            where="permits",
            expected="permits of a semaphore, or readers that share a lock",
        )
    return Capacity(said, read_write)


def margin_ns(name: str, ttl_ns: int, options: Options) -> int:
    """Return the safety margin of a lock.

    Raises:
        LabError: an unknown lock, an unknown option, or a bad value.
    """
    with option_errors():
        return lock_class(name).margin_ns(ttl_ns, options)


def check_options(name: str, ttl_ns: int, options: Options) -> None:
    """Check the options of a lock as its clients will: by making it, which neither opens nor asks it.

    Those of a driver are checked when it is asked ``hello``.

    Raises:
        LabError: an unknown lock, an unknown option, or a bad value.
    """
    with option_errors():
        _make(name, ttl_ns, options)


def refused_options(name: str, ttl_ns: int, options: Options) -> tuple[str, ...]:
    """Those of the options of another lock that this one does not take; a driver is taken to have none.

    Raises ``LabError``: there is no such lock.
    """
    left: dict[str, OptionValue] = dict(options)
    if is_driver(name):
        return tuple(left)
    refused: list[str] = []
    while True:
        try:
            _make(name, ttl_ns, left)
        except OptionError as error:
            if error.option not in left:
                return tuple(refused)
            refused.append(error.option)
            del left[error.option]
        else:
            return tuple(refused)


def _make(name: str, ttl_ns: int, options: Options) -> None:
    """Make a lock to see whether it takes these options. Raises ``OptionError``."""
    own = lock_class(name)
    if not is_driver(name):
        try:
            own.build(_NOWHERE, options, Surroundings(random=Random(0)), "options")
        except OptionError:
            raise
        except Exception:  # noqa: BLE001 - it may need a loop, or nodes: its client shows what it raises
            pass
    own.margin_ns(ttl_ns, options)


def key_pattern(lock: object) -> str:
    """The pattern of a lock's keys, ``{}`` in it being the name: ``"{}"`` if it takes any name.

    Raises:
        LabError: its ``key`` is no text with ``{}`` in it.
    """
    pattern = getattr(lock, "key", "{}")
    if not isinstance(pattern, str) or pattern.count("{}") != 1:
        raise LabError(
            f"{pattern!r} as the pattern of keys",
            where="key",
            expected="a text with {} in it once, such as order:{}",
        )
    return pattern


@contextlib.contextmanager
def option_errors() -> Iterator[None]:
    """Add the key of the scenario to the error of a bad option."""
    try:
        yield
    except OptionError as error:
        near = did_you_mean(error.option, error.choices)
        raise LabError(
            seen=error.seen,
            where=f"lock.options.{error.option}",
            expected=error.expected,
            hint=f"did you mean {near!r}?" if near else None,
        ) from error
