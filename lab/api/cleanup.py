"""Ending what killed labs left running, and what is kept up, as ``lab down`` does."""

from __future__ import annotations

from typing import NamedTuple

from lab.errors import ExitCode
from lab.paths import state_dir
from lab.substrates.cleanup import sweep
from lab.substrates.kept import end_kept


class Cleanup(NamedTuple):
    """What was ended, a line for each run, and what to do about engines that did not answer, if any."""

    lines: tuple[str, ...]
    hint: str | None

    @property
    def exit_code(self) -> ExitCode:
        """0: nothing is left; 3: not known."""
        return ExitCode.EXPECTED if self.hint is None else ExitCode.UNKNOWN


def clean_up() -> Cleanup:
    """End all clusters that are kept up, and all processes and containers of killed labs.

    All container engines are asked that they used.
    """
    ended = end_kept()
    swept = sweep(everywhere=True)
    lines = tuple(f"{one.run_id}: {one.words}" for one in ended) + tuple(
        f"{run.run_id}: {run.words}"
        if run.run_id
        else f"whether containers were left is not known: {run.not_removed}"
        for run in swept
    )
    if all(run.not_removed is None for run in swept):
        stays = any(one.why_not is not None for one in ended)
        return Cleanup(lines, "end its lab with Ctrl-C, then repeat lab down" if stays else None)
    kept = any(run.run_id and run.not_removed for run in swept)
    gone = f"; if that engine no longer exists, remove the run's file in {state_dir()}" if kept else ""
    return Cleanup(lines, f"let the engine answer, then repeat lab down{gone}")
