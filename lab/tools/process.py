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
"""For a compilation or a download by another program, on a machine that does nothing else."""

BUSY_MAX = 6.0
"""How many times as long a busy machine may take."""


class TimedOut(SourceFailed):
    """A program was ended because it took too long. `hint` says what to do about it."""

    def __init__(self, name: str, command: Sequence[str], timeout_s: float) -> None:
        words = " ".join([name, *command[1:]])
        super().__init__(f"{name} was ended after {timeout_s:g} s, before it had finished: {words[:80]}")
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        busy = f"this machine is busy (load {load:.1f} on {cores} cores): " if load > cores else ""
        self.hint = f"{busy}try again, what {name} has downloaded is kept in its own cache"


def build_timeout_s() -> float:
    """Return how long a compilation or a download may take now: the longer, the busier the machine is."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return BUILD_TIMEOUT_S * min(max(busy, 1.0), BUSY_MAX)


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
    SourceFailed if it cannot start or fails, TimedOut if it takes too long.
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
            raise TimedOut(name, [str(part) for part in command], timeout_s) from cause
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
