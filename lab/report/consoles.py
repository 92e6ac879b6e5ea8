"""Where commands write: data on stdout, talk on stderr."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

_PLAIN: Final[dict[str, Any]] = {"emoji": False, "highlight": False, "soft_wrap": True}
"""Nothing of what is said is coloured by guess, wrapped, or taken for the name of a picture (``:lock:``)."""


def consoles() -> tuple[Console, Console]:
    """Return the console for data and the one for talk."""
    return Console(**_PLAIN), Console(stderr=True, **_PLAIN)
