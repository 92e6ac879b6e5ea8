"""Client operations as columns: one row per invocation, paired with its completion.

Numbers are int64 nanoseconds or store versions; strings are int32 codes into a list of names, so that ten
million operations fit into a gigabyte and every check is a handful of array operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Index = npt.NDArray[np.int64]

NEVER: Final = 2**62
"""Return stamp of an operation of which no certain completion is known (crashed, timed out)."""
MISSING: Final = -(2**63)
"""An absent number (fence, TTL, claim, version)."""
NONE: Final = -1
"""An absent code (key, grant, token, value, error), and the index of an absent event."""


class Code(IntEnum):
    """A code in a column. Arrays are compared with it as fast as with an integer.

    Of an operand that is no plain integer numpy asks whether it brings array functions of its own, and each
    time that an enumeration says no takes longer than to compare a short column.
    """

    __array_ufunc__ = np.ndarray.__array_ufunc__


class F(Code):
    """What a client asked for."""

    ACQUIRE = 0
    EXTEND = 1
    RELEASE = 2
    HELD = 3
    READ = 4
    WRITE = 5
    CAS = 6


class Status(Code):
    """How it ended: done, known to have had no effect, or nobody knows."""

    OK = 0
    FAIL = 1
    INFO = 2


_CODES: Final = [np.array(code, np.int8) for code in range(len(F))]
"""Each code as an array: of few rows, a column is compared with it three times as fast as with a `Code`."""
F_NAMES: Final[Mapping[str, F]] = {kind.name.lower(): kind for kind in F}
Value = str | int | tuple[Any, ...]

CODE_COLUMNS: Final = ("process", "client", "key", "grant", "token", "value", "error")
NUMBER_COLUMNS: Final = (
    "fence",
    "ttl_ns",
    "claimed_ns",
    "attempt_ns",
    "deadline_ns",
    "wait_ns",
    "refused_by",
    "version_read",
    "version_written",
)


@dataclass(frozen=True, slots=True)
class Names:
    """The strings behind the codes of an `Operations` table; code `i` means element `i`."""

    process: Sequence[str] = ()
    client: Sequence[str] = ()
    key: Sequence[str] = ()
    grant: Sequence[str] = ()
    token: Sequence[str] = ()
    value: Sequence[Value] = ()
    error: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Operations:
    """A table of client operations; every column has shape (n,), rows are ordered by `call_index`.

    `f` holds `F`, `status` holds `Status`. `return_ns` is `NEVER` for `Status.INFO`: the stamp of an info
    completion, which bounds nothing, is kept in `info_ns` (`NEVER` when there was none or not an info).
    `value` of a CAS is a pair (old, new). An absent code is `NONE`, an absent number `MISSING`.
    """

    f: I8
    status: I8
    process: I32
    client: I32
    key: I32
    grant: I32
    token: I32
    value: I32
    error: I32
    call_ns: I64
    return_ns: I64
    info_ns: I64
    call_index: I64
    return_index: I64
    fence: I64
    ttl_ns: I64
    claimed_ns: I64
    attempt_ns: I64
    deadline_ns: I64
    wait_ns: I64
    refused_by: I64
    version_read: I64
    version_written: I64
    names: Names = field(default_factory=Names)

    def __len__(self) -> int:
        return int(self.f.size)

    def take(self, rows: Index | Bools) -> Operations:
        """The same table restricted to the rows (an index array or a mask); names are shared."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def rows(self, kind: F, status: Status | None = None) -> Index:
        """Row numbers of the operations of one kind, optionally of one status, ascending."""
        mask = self.f == _CODES[kind]
        if status is not None:
            mask &= self.status == _CODES[status]
        found: Index = mask.nonzero()[0]  # `np.flatnonzero` takes five times as long where rows are few
        return found

    def name(self, column: str, row: int) -> Any:
        """The string (or value) behind a code column at one row; None when absent."""
        code = int(getattr(self, column)[row])
        return None if code < 0 else getattr(self.names, column)[code]

    @classmethod
    def build(cls, n: int, names: Names = Names(), **columns: npt.ArrayLike) -> Operations:
        """A table of `n` rows from the columns given; the others are absent (and take no memory).

        Raises:
            ValueError: a column of another length, or an unknown column.
        """
        unknown = set(columns) - set(COLUMNS)
        if unknown:
            raise ValueError(f"no such column: {', '.join(sorted(unknown))}")
        table: dict[str, Any] = {}
        for name, (dtype, absent) in COLUMNS.items():
            given = columns.get(name)
            if given is None:
                default = np.arange(n) * 2 if name == "call_index" else np.broadcast_to(dtype(absent), (n,))
                table[name] = default
                continue
            array = np.asarray(given, dtype=dtype)
            if array.shape != (n,):
                raise ValueError(f"column {name} has shape {array.shape}, expected ({n},)")
            table[name] = array
        return cls(**table, names=names)


COLUMNS: Final[Mapping[str, tuple[Any, int]]] = {
    "f": (np.int8, 0),
    "status": (np.int8, 0),
    **dict.fromkeys(CODE_COLUMNS, (np.int32, NONE)),
    "call_ns": (np.int64, 0),
    "return_ns": (np.int64, NEVER),
    "info_ns": (np.int64, NEVER),
    "call_index": (np.int64, NONE),
    "return_index": (np.int64, NONE),
    **dict.fromkeys(NUMBER_COLUMNS, (np.int64, MISSING)),
}
"""Column name → (numpy scalar type, absent value), in the order of the table."""
