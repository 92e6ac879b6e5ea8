"""The locks under test: ``lock_class`` finds one by name or by ``module:Class``."""

from __future__ import annotations

import importlib
from typing import cast

from lab.errors import LabError, did_you_mean
from lab.locks.base import Lock, OptionError, Options

BUILT_IN = {
    "single": "lab.locks.single:Single",
    "setnx-expire": "lab.locks.setnx_expire:SetnxExpire",
    "fixed-value": "lab.locks.careless:FixedValue",
    "plain-del": "lab.locks.careless:PlainDel",
    "failover": "lab.locks.failover:Failover",
    "redlock": "lab.locks.redlock:Redlock",
    "redlock-sequential": "lab.locks.redlock:SequentialRedlock",
    "redlock-counter": "lab.locks.counter:CountingRedlock",
    "redlock-fenced": "lab.locks.fenced:FencedRedlock",
    "redlock-cas": "lab.locks.cas:CasRedlock",
}
MUTANT = "mutant:"
"""How the names of the lab's own broken locks begin: see ``lab.mutants``."""


def is_own(name: str) -> bool:
    """Whether a lock comes with the lab, and its clients need no code of anybody else's."""
    return ":" not in name or name.startswith(MUTANT)


def _place(name: str) -> str:
    if name.startswith(MUTANT):
        return str(importlib.import_module("lab.mutants").place(name))
    return BUILT_IN.get(name, name)


def lock_class(name: str) -> type[Lock]:
    """Return the class of a built-in lock, or of anybody's own, given as ``package.module:Class``.

    Raises:
        LabError: no such lock, no such module, or a class that is no lock.
    """
    place = _place(name)
    module_name, colon, attribute = place.partition(":")
    if not colon:
        near = did_you_mean(name, list(BUILT_IN))
        raise LabError(
            seen=f"the lock {name!r}",
            where="lock.name",
            expected="one of " + ", ".join(BUILT_IN) + ", or your own as package.module:Class",
            hint=f"did you mean {near!r}?" if near else "a class of yours must offer lab.locks.base.Lock",
        )
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise LabError(
            seen=f"the lock {name!r}, which cannot be imported: {error}",
            where="lock.name",
            expected="an importable package.module:Class",
            hint="is its directory on PYTHONPATH?",
        ) from error
    missing = [
        part for part in ("build", "acquire", "extend", "release", "believes") if not hasattr(found, part)
    ]
    if missing:
        raise LabError(
            seen=f"{name}, which lacks {', '.join(missing)}",
            where="lock.name",
            expected="a class that offers lab.locks.base.Lock",
            hint="see the docstrings of lab.locks.base",
        )
    return cast("type[Lock]", found)


def margin_ns(name: str, ttl_ns: int, options: Options) -> int:
    """Return the safety margin of a lock, and so check its options before anything is started.

    Raises:
        LabError: an unknown lock, an unknown option, or a bad value.
    """
    try:
        return lock_class(name).margin_ns(ttl_ns, options)
    except OptionError as error:
        near = did_you_mean(error.option, error.choices)
        raise LabError(
            seen=error.seen,
            where=f"lock.options.{error.option}",
            expected=error.expected,
            hint=f"did you mean {near!r}?" if near else None,
        ) from error
