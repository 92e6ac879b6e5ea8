"""Ending a lab that runs as a child process: it tears down first."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from typing import Final

ENDS_WITHIN_S: Final = 60.0
"""How long an interrupted lab may take to tear down, in seconds."""


def end_lab(process: subprocess.Popen[bytes]) -> None:
    """Let a lab tear down what it started; kill it only if it does not."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    if process.poll() is None and process.stdin is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
