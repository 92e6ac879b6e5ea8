"""The consoles of commands: results on stdout, messages on stderr."""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console

_PLAIN: Final[dict[str, Any]] = {"emoji": False, "highlight": False, "soft_wrap": True}
"""Text is not highlighted, wrapped, or scanned for emoji names (``:lock:``)."""


def consoles() -> tuple[Console, Console]:
    """Return the console for results and the one for messages."""
    return Console(**_PLAIN), Console(stderr=True, **_PLAIN)
