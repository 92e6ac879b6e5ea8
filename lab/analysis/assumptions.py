"""What every history states that its checker may assume."""

from __future__ import annotations

from typing import Final

RHO: Final = 0.001
"""The bound on clock drift rate: ten times what a bad quartz does."""
EPSILON_NS: Final = 1_000_000
"""The uncertainty of stamps. They come from one clock; what is left is that nodes count expiry in whole
milliseconds."""
