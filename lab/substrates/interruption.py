"""The signals that end a run, and what is raised when one did."""

from __future__ import annotations

import signal
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """The user, or the system, asked the run to stop; everything was torn down."""
