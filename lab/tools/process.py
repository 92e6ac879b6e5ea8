"""Subprocesses of tool provisioning: no shell, always a time-out, failures as one readable line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.tools.model import SourceFailed

PROBE_TIMEOUT_S = 20.0
"""For a program that is only asked for its version."""

BUILD_TIMEOUT_S = 600.0
"""For a compilation or a download by another program."""


def run(
    command: Sequence[str | Path],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    name: str | None = None,
) -> str:
    """Run `command` and return its standard output and error, stripped.

    The environment is inherited, with `env` laid over it; `name` is what failures call the program. On
    time-out the whole process group is killed, so that no compiler or downloader is left behind. Raises
    SourceFailed if it cannot start, fails or times out.
    """
    name = name or Path(command[0]).name
    try:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
            text=True,
            errors="replace",
        )
    except OSError as cause:
        raise SourceFailed(f"{name} could not be started: {cause.strerror or cause}") from cause
    with child:
        try:
            output, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as cause:
            raise SourceFailed(f"{name} did not finish within {timeout_s:g} s") from cause
        finally:
            # Also on Ctrl-C: in its own session, the child does not get the terminal's signal.
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    if child.returncode != 0:
        raise SourceFailed(f"{name} failed ({exit_words(child.returncode)}): {last_words(output)}")
    return output.strip()


def exit_words(returncode: int) -> str:
    """Say how a process ended: "exit code 1", or "killed by SIGSEGV" for a negative code."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def last_words(output: str) -> str:
    """The part of a tool's output that tells most: lines that speak of an error, else its last lines."""
    lines_said = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines_said if "error" in line.casefold()]
    return "; ".join((errors or lines_said)[-3:]) or "it said nothing"
