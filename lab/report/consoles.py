"""The consoles of commands: results on stdout, messages on stderr."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from rich.console import Console

_PLAIN: Final[dict[str, Any]] = {"emoji": False, "highlight": False, "soft_wrap": True}
"""Text is not highlighted, wrapped, or scanned for emoji names (``:lock:``)."""


class Messages(Console):
    """Messages on stderr. If nobody reads them any more, what goes on ends as it would, without them."""

    def on_broken_pipe(self) -> None:
        """Say nothing from now on; rich would end the process, with its servers left running."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def consoles() -> tuple[Console, Console]:
    """Return the console for results and the one for messages."""
    return Console(**_PLAIN), Messages(stderr=True, **_PLAIN)
