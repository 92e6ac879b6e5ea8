"""``datetime.now`` and ``utcnow``: the two calls of the calendar that ask a real clock on their own.

``datetime.datetime`` is a type of C: its methods cannot be replaced. A class takes its place that makes real
``datetime`` objects and counts every one as its own, but shows the current host's wall clock. (``date.today``
and ``datetime.today`` ask ``time.time``, for which another stands already.)

Not reached: a subclass with a ``now`` of its own that calls the one of its base, and what compiled libraries
keep to themselves.
"""

from __future__ import annotations

import datetime
import gc
import types
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from lab.substrates.sim.host import Host, running_host

REAL: Final = (datetime.datetime,)
"""The real class; in a tuple, where nothing takes its place."""
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
ASKING: Final = ("now", "utcnow")
IMMUTABLE: Final = 1 << 8
"""Py_TPFLAGS_IMMUTABLETYPE."""


class _CountsReal(type):
    """Real ones are instances of the stand-in, and real subclasses its subclasses."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, REAL) if cls is Datetime else type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, REAL) if cls is Datetime else type.__subclasscheck__(cls, subclass)


class Datetime(datetime.datetime, metaclass=_CountsReal):
    """Stands in for ``datetime.datetime``."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """A real one; a subclass that was made of this class makes its own."""
        return (
            REAL[0](*arguments, **options) if cls is Datetime else super().__new__(cls, *arguments, **options)
        )

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        """What the current host's wall clock shows."""
        host = running_host()
        if host is None:
            return _real("now", cls)(tz)
        shown = _shown(host).astimezone(tz)
        return _made(cls, shown if tz is not None else shown.replace(tzinfo=None))

    @classmethod
    def utcnow(cls) -> Any:
        """The same in UTC, without saying so."""
        host = running_host()
        return _real("utcnow", cls)() if host is None else _made(cls, _shown(host).replace(tzinfo=None))


Datetime.__name__ = Datetime.__qualname__ = "datetime"
Datetime.__module__ = "datetime"


def captured_methods() -> list[Any]:
    """``now`` and ``utcnow`` of the real class, where somebody holds the method itself."""
    return [
        each
        for each in gc.get_referrers(*REAL)
        if isinstance(each, types.BuiltinMethodType) and each.__self__ in REAL and each.__name__ in ASKING
    ]


def mend_subclasses() -> list[Callable[[], None]]:
    """Let subclasses show the host's clock that take ``now`` from the real class; return what undoes it."""
    undo: list[Callable[[], None]] = []
    for kind in REAL[0].__subclasses__():
        if kind is not Datetime and not kind.__flags__ & IMMUTABLE:
            for name in ASKING:
                if name not in vars(kind):
                    setattr(kind, name, vars(Datetime)[name])
                    undo.append(partial(delattr, kind, name))
    return undo


def _real(name: str, cls: type[Any]) -> Callable[..., Any]:
    method: Callable[..., Any] = vars(REAL[0])[name].__get__(None, REAL[0] if cls is Datetime else cls)
    return method


def _shown(host: Host) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=host.clock.wall_ns() // 1000)


def _made(cls: type[Any], shown: datetime.datetime) -> Any:
    return shown if cls is Datetime else cls.combine(shown.date(), shown.timetz())
