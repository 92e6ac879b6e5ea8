"""Two hash seeds under which sets of the usual names come in different orders.

Under 1 and 2, say, {"A", "E"} come in one order: what goes through them would not be noticed.
"""

from __future__ import annotations

from typing import Final

HASH_SEEDS: Final = ("3", "6")
