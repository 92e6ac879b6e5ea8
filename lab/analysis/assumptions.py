"""The assumptions that every history states for its checker."""

from __future__ import annotations

from typing import Final

RHO: Final = 0.001
"""The bound on clock drift rate: ten times that of a bad quartz."""
EPSILON_NS: Final = 1_000_000
"""The uncertainty of stamps. They come from one clock, but nodes count expiry in whole milliseconds."""
