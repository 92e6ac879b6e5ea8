"""Many short strings in one buffer: a fifth of the memory of a list; each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import msgspec
import numpy as np
import numpy.typing as npt

Ends = npt.NDArray[np.int64]


class PackedNames(Sequence[Any]):
    """The strings `data[ends[i-1]:ends[i]]` in UTF-8, as the names of a column of `Operations`.

    With `json` each is the JSON of a value (a scalar, or a pair as a tuple).
    """

    __slots__ = ("_data", "_ends", "_json")

    def __init__(self, data: bytes, ends: Ends, *, json: bool = False) -> None:
        self._data, self._ends, self._json = data, ends, json

    @property
    def nbytes(self) -> int:
        """How much memory it takes, in bytes."""
        return len(self._data) + int(self._ends.nbytes)

    def __len__(self) -> int:
        return int(self._ends.size)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        if not 0 <= at < len(self):
            raise IndexError(at)
        start = int(self._ends[at - 1]) if at else 0
        found = self._data[start : int(self._ends[at])]
        if not self._json:
            return found.decode()
        value = msgspec.json.decode(found)
        return tuple(value) if isinstance(value, list) else value
