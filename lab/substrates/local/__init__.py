"""The ``local`` substrate: processes of this machine."""

from __future__ import annotations

import os
import sys


def missing_reason() -> str | None:
    """Say why this substrate cannot run on this machine, or None if it can be tried."""
    if sys.platform != "linux":
        return f"the local substrate needs Linux (preload shims, /proc), and this is {sys.platform}"
    if not os.access("/proc/self/stat", os.R_OK):
        return "the local substrate needs /proc"
    return None
