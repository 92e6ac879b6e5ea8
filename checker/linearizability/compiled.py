"""Run one and the same scan interpreted on small inputs and compiled on large ones.

numba is an optional extra and takes a second to import, so it is touched only when an input is large enough
to pay for it. Compiled code is cached per user, so the compilation is paid once per machine and version.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import numpy as np

from checker.linearizability.columns import Column

# Below so many operations the interpreter has answered before numba is imported, or a call into it pays.
COMPILE_FROM_OPS: Final = 600_000
COMPILE_FROM_OPS_WHEN_LOADED: Final = 20_000

Kernel = Callable[..., Any]
_HERE: Final = Path(__file__)


def uses_compiler(operations: int) -> bool:
    """Whether an input of this many operations is worth compiling for, and numba is there and works."""
    least = COMPILE_FROM_OPS_WHEN_LOADED if "numba" in sys.modules else COMPILE_FROM_OPS
    return operations >= least and _numba() is not None


@cache
def _numba() -> Any:
    """The module numba, or None where it is absent or refuses to work with this numpy."""
    try:
        return importlib.import_module("numba")
    except ImportError:
        return None


def as_column(values: Any, compiled: bool) -> Column:
    """An array for a compiled kernel, a list for an interpreted one."""
    if compiled:
        return np.ascontiguousarray(values)
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def filled(length: int, value: int, compiled: bool) -> Column:
    """A column of `length` copies of `value`: int64 array or list."""
    return np.full(length, value, np.int64) if compiled else [value] * length


@cache
def compiled_kernel(kernel: Kernel, *helpers: Kernel, inline: bool = False) -> Kernel:
    """The compiled twin of `kernel`, in which each of `helpers` (called by name) is compiled as well.

    A helper may call those before it; with `inline` it is put into them, which pays where it is small and
    takes many arrays, and the twin holds no lock, so that other threads run beside it. Such a twin may make
    no array: those that it is given are not counted as references, which took two thirds of its time. A
    helper that is no function (an intrinsic of numba) stands for the function of its name.

    The twin shares the kernel's code object: there is one source and no second version to drift away.
    """
    names: dict[str, Kernel] = {}
    for helper in helpers:
        compiles = isinstance(helper, FunctionType)
        names[helper.__name__] = (
            _jit(helper, names, forceinline=inline, _nrt=not inline) if compiles else helper
        )
    return _jit(kernel, names, nogil=inline, _nrt=not inline)


def _jit(function: Kernel, replaced: dict[str, Kernel], **options: bool) -> Kernel:
    numba = _numba()
    assert isinstance(function, FunctionType)
    twin = FunctionType(
        function.__code__, {**function.__globals__, **replaced}, function.__name__, function.__defaults__
    )
    twin.__qualname__ = function.__qualname__
    directory = _cache_directory()
    if directory is None:
        return numba.njit(**options)(twin)  # type: ignore[no-any-return]
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = before or str(directory)
    try:
        return numba.njit(cache=True, **options)(twin)  # type: ignore[no-any-return]
    finally:
        numba.config.CACHE_DIR = before


@cache
def _cache_directory() -> Path | None:
    """A private directory for compiled code, or None where nothing can be written.

    numba compiles anew when the file of a kernel is another one; the way of compiling is in the name.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        way = hashlib.sha256(b"".join(path.read_bytes() for path in (_HERE, _HERE.with_name("machine.py"))))
        name = f"numba-{way.hexdigest()[:12]}"
        directory = (Path(base) if base else Path.home() / ".cache") / "lock-lab" / name
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except (OSError, RuntimeError):
        return None
