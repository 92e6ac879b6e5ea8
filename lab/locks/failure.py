"""An exception of the lock under test that no lock may raise: what it was, and where in the lock's code."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Awaitable
from pathlib import Path
from types import CoroutineType, ModuleType
from typing import Final, TypeVar

from lab.errors import LabError, LockFailed
from lab.locks import base
from lab.locks.base import Lock, LockError

T = TypeVar("T")
FRAMES_MAX: Final = 3
"""How many frames of the lock's own code are kept of an exception."""
LAB: Final = "lab."
WRAPPERS: Final = ("lab/search/guard.py", "lab/locks/failure.py")
"""Files whose frames tell nothing about the lock."""


class failing_in:  # noqa: N801 - a context manager
    """Turn an exception of the lock ``own`` into ``LockFailed``; errors of a lock and of the lab pass.

    Args:
        f: what the client asks of the lock.
        client: its name.
        own: the class of the lock.
    """

    __slots__ = ("_about",)

    def __init__(self, f: str, client: str, own: type) -> None:
        self._about = f, client, own

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raise ``LockFailed`` in place of what no lock may raise."""
        if not isinstance(error, Exception) or isinstance(error, LockError | LabError):
            return
        f, client, own = self._about
        at = place_of(error, own)
        raise LockFailed(
            f"{client}'s {f} raised {described(error)}" + (f" ({at})" if at else ""),
            expected="a result, NotAcquired, LeaseLost or Indeterminate",
        ) from error


def awaitable(f: str, work: Awaitable[T]) -> Awaitable[T]:
    """Return what the method ``f`` of a lock returned. Raises ``TypeError``: it is a blocking method."""
    if type(work) is not CoroutineType and not inspect.isawaitable(work):
        raise TypeError(
            f"{f} returned {work!r} and cannot be awaited: it is no async function (a synchronous lock is "
            "an ordinary class, without lab.locks.base: docs/ordinary-locks.md)"
        )
    return work


def files_of(own: type) -> frozenset[str]:
    """The files with the code of a lock."""
    return frozenset(map(file_of, modules_of(own)))


def modules_of(own: type) -> list[ModuleType]:
    """The modules of a lock: of its classes, and what they import, as far as they are in one directory.

    Of a lock of the lab only those of its classes count.
    """
    of_lab = own.__module__.startswith(LAB)
    found: list[ModuleType] = []
    ahead = [sys.modules[each.__module__] for each in own.__mro__ if each.__module__ in sys.modules]
    directory = Path(file_of(ahead[0])).parent
    for module in ahead:
        is_own = module.__name__.startswith(LAB) if of_lab else Path(file_of(module)).parent == directory
        if module in found or module is base or not is_own or not file_of(module):
            continue
        found.append(module)
        if not of_lab:
            names = [getattr(each, "__module__", None) for each in vars(module).values()]
            ahead += [each for each in vars(module).values() if isinstance(each, ModuleType)]
            ahead += [sys.modules[name] for name in names if isinstance(name, str) and name in sys.modules]
    return found


def file_of(module: ModuleType) -> str:
    """The path of its source; empty if there is none."""
    return getattr(module, "__file__", None) or ""


def place_of(error: BaseException, own: type) -> str:
    """Where an exception came from: the last calls in the files of the lock ``own``, the innermost first.

    If none of them is in these files, the last calls of all.
    """
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.endswith(WRAPPERS)
    ]
    files = files_of(own)
    found = [frame for frame in frames if frame.filename in files] or frames
    return " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
        for frame in reversed(found[-FRAMES_MAX:])
    )


def described(error: BaseException) -> str:
    """One line about an exception."""
    return error.seen if isinstance(error, LabError) else f"{type(error).__name__}: {error}"


def beginning_of(lock: Lock, method: str) -> str:
    """Where a method of a lock is written; empty if that is not known."""
    code = getattr(getattr(getattr(lock, method, None), "__func__", None), "__code__", None)
    return "" if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno} in {code.co_name}"
