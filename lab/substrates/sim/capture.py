"""Putting stand-ins where a function is used or was captured at import, and taking them away again.

``from time import monotonic``, a default argument, a class attribute, ``functools.partial``: all hold the
function itself. They are found through the garbage collector, which knows who refers to what.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

from lab.substrates.sim.errors import SimulationError

Undo = Callable[[], None]

_PASSING: Final = (types.FrameType, types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)
"""What only lives while something runs."""


class Replacement:
    """Real functions replaced by stand-ins, everywhere, until ``undo``.

    Args:
        real: the functions that are replaced.
        stand_ins: what stands in for each of them.
    """

    def __init__(self, real: list[Any], stand_ins: list[Any]) -> None:
        self._real = real
        self._new = {id(old): new for old, new in zip(real, stand_ins, strict=True)}
        # A stand-in holds the real function itself, and must go on doing so.
        self._spared = {id(cell) for new in stand_ins for cell in getattr(new, "__closure__", ()) or ()} | {
            id(real)
        }
        self._undo: list[Undo] = []
        self.left: list[object] = []
        """Holders in which nothing could be replaced."""

    def apply(self) -> None:
        """Replace whatever refers to one of the real functions."""
        tuples: list[tuple[Any, ...]] = []
        for holder in gc.get_referrers(*self._real):
            if id(holder) in self._spared or isinstance(holder, _PASSING):
                continue
            if isinstance(holder, tuple):
                tuples.append(holder)
            else:
                self._mend(holder)
        if tuples:
            self._mend_tuples(tuples)

    def in_modules(self) -> None:
        """Replace the real functions in the module dictionaries only."""
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", None)
            if isinstance(names, dict):
                self._mend_mapping(names)

    def at(self, place: Any, name: str) -> None:
        """Replace one attribute of a module or class."""
        self._set(place, name, place.__dict__[name])

    def undo(self) -> None:
        """Put the real functions back, the last one first."""
        while self._undo:
            self._undo.pop()()

    def _mend(self, holder: Any) -> None:
        if isinstance(holder, dict):
            self._mend_mapping(holder)
        elif isinstance(holder, list):
            for index, value in enumerate(holder):
                if id(value) in self._new:
                    self._undo.append(functools.partial(holder.__setitem__, index, value))
                    holder[index] = self._new[id(value)]
        elif isinstance(holder, types.CellType):
            self._set(holder, "cell_contents", holder.cell_contents)
        elif isinstance(holder, functools.partial):
            self._mend_partial(holder)
        elif isinstance(holder, staticmethod):
            self._mend_static(holder)
        elif not self._mend_attributes(holder):
            self.left.append(holder)

    def _mend_mapping(self, holder: dict[Any, Any]) -> None:
        if self._new.keys().isdisjoint(map(id, holder.values())):
            return
        named = {name: value for name, value in holder.items() if id(value) in self._new}
        if "__module__" in holder and "__name__" not in holder:  # a class's, perhaps: it has caches
            for owner in gc.get_referrers(holder):
                if isinstance(owner, type) and named.items() <= dict(owner.__dict__).items():
                    for name, value in named.items():
                        self._set(owner, name, value)
                    return
        for name, value in named.items():
            self._undo.append(functools.partial(holder.__setitem__, name, value))
            holder[name] = self._new[id(value)]

    def _mend_tuples(self, holders: list[tuple[Any, ...]]) -> None:
        """Default arguments are a tuple that a function refers to; any other tuple cannot be changed."""
        owners: dict[int, list[types.FunctionType]] = {id(holder): [] for holder in holders}
        for owner in gc.get_referrers(*holders):  # all at once: each search goes through all that there is
            if isinstance(owner, types.FunctionType) and id(owner.__defaults__) in owners:
                owners[id(owner.__defaults__)].append(owner)
        for holder in holders:
            mended = tuple(self._new.get(id(value), value) for value in holder)
            for owner in owners[id(holder)]:
                self._undo.append(functools.partial(setattr, owner, "__defaults__", holder))
                owner.__defaults__ = mended
            if not owners[id(holder)]:
                self.left.append(holder)

    def _mend_partial(self, holder: functools.partial[Any]) -> None:
        """A partial object takes a whole new state."""
        state: tuple[Any, ...] = holder.__reduce__()[2]  # type: ignore[assignment]
        function, arguments, options, more = state
        self._undo.append(functools.partial(holder.__setstate__, state))  # type: ignore[attr-defined]
        new = self._new.get(id(function), function), tuple(self._new.get(id(a), a) for a in arguments)
        holder.__setstate__((*new, options, more))  # type: ignore[attr-defined]

    def _mend_static(self, holder: staticmethod[..., Any]) -> None:
        """A static method is made anew in the class that has it."""
        function = self._new[id(holder.__func__)]
        owners = [
            owner
            for names in gc.get_referrers(holder)
            if isinstance(names, dict)
            for owner in gc.get_referrers(names)
            if isinstance(owner, type) and holder in owner.__dict__.values()
        ]
        for owner in owners:
            for name in [name for name, value in owner.__dict__.items() if value is holder]:
                self._undo.append(functools.partial(setattr, owner, name, holder))
                setattr(owner, name, staticmethod(function))
        if not owners:
            self.left.append(holder)

    def _mend_attributes(self, holder: Any) -> bool:
        """Slots and attributes of an object; whether one was found that refers to a real function."""
        found = False
        names = [name for kind in type(holder).__mro__ for name in _slots(kind)]
        for name in (*names, *getattr(holder, "__dict__", {})):
            value = getattr(holder, name, None)
            if id(value) in self._new:
                found = self._set(holder, name, value) or found
        return found

    def _set(self, holder: Any, name: str, value: Any) -> bool:
        try:
            setattr(holder, name, self._new[id(value)])
        except (AttributeError, TypeError, KeyError):
            return False
        self._undo.append(functools.partial(setattr, holder, name, value))
        return True


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def refuse(left: Iterable[object]) -> None:
    """Raise for the first of these holders that belongs to a module; others are gone in a moment."""
    for holder in left:
        for owner in gc.get_referrers(holder):
            if isinstance(owner, dict) and (module := _module_of(owner)):
                raise SimulationError(
                    "a real clock or source of entropy was captured at import where it cannot be replaced",
                    where=f"{module}: a {type(holder).__name__}, {str(holder)[:120]}",
                    expected="a name, an attribute or a default argument, for which another can be put",
                )


def _module_of(names: dict[Any, Any]) -> str | None:
    name = names.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is names else None
