"""Questions to a mask (a column of booleans), as quickly answered for a few rows as for millions.

A simulated schedule has a few dozen operations, and the checker asks some hundred masks about it. There
`np.flatnonzero`, `.any()`, `.all()` and `.sum()` mostly spend their time on getting ready: four times as
much as what is called here instead. On long columns there is no difference worth the name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from checker.history.operations import Index


def positions(mask: npt.NDArray[Any]) -> Index:
    """Where it holds, ascending."""
    found: Index = mask.nonzero()[0]
    return found


def count(mask: npt.NDArray[Any]) -> int:
    """In how many rows it holds."""
    return int(np.count_nonzero(mask))


def some(mask: npt.NDArray[Any]) -> bool:
    """Whether it holds anywhere."""
    return bool(np.count_nonzero(mask))


def every(mask: npt.NDArray[Any]) -> bool:
    """Whether it holds everywhere."""
    return bool(np.count_nonzero(mask) == mask.size)
