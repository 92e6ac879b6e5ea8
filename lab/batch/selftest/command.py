"""``lab selftest``, between its arguments and its exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.batch.selftest.run import REAL_FULL, SIMULATED, SIMULATED_FULL, chosen, run_selftest
from lab.batch.selftest.task import SelftestTask
from lab.batch.verdicts import own_directory
from lab.errors import ExitCode
from lab.report.consoles import consoles
from lab.report.selftest import print_selftest, selftest_markdown, selftest_progress
from lab.substrates import AUTO, choose
from lab.substrates.execute import Interrupted, execute


@dataclass(frozen=True)
class Asked:
    """The arguments of ``lab selftest``, as they were given."""

    only: tuple[str, ...]
    full: bool
    simulated: int | None
    real: int | None
    seed: int
    on: str
    jobs: int
    out: Path
    markdown: Path | None


def selftest_command(asked: Asked, *, as_json: bool) -> int:
    """0: every mutant was caught and no real lock accused; 1: not; 3: unknown; 130: interrupted.

    Raises:
        LabError: an argument that cannot be (exit code 2).
    """
    data, talk = consoles()
    names = chosen(asked.only)
    if asked.on != AUTO:
        choose(asked.on)
    simulated = (SIMULATED_FULL if asked.full else SIMULATED) if asked.simulated is None else asked.simulated
    real = (REAL_FULL if asked.full else 0) if asked.real is None else asked.real
    ways = len(SelftestTask(names).ways)
    talk.print(
        f"{len(names)} broken locks, {simulated} simulated and {real} real runs · seed {asked.seed}",
        style="dim",
        markup=False,
    )
    try:
        with selftest_progress(talk, ways, simulated + real) as (on_row, on_run):
            ended = execute(
                run_selftest(
                    names,
                    simulated=simulated,
                    real=real,
                    seed=asked.seed,
                    out=own_directory(asked.out, "selftest"),
                    on=asked.on,
                    jobs=asked.jobs,
                    on_row=on_row,
                    on_run=on_run,
                )
            )
    except Interrupted:
        talk.print("interrupted: what was running was stopped", style="yellow")
        return ExitCode.INTERRUPTED
    if asked.markdown is not None:
        asked.markdown.write_text(selftest_markdown(ended), encoding="utf-8")
    if as_json:
        kept = {**msgspec.to_builtins(ended), "caught": ended.caught, "exit_code": int(ended.exit_code)}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    else:
        print_selftest(data, ended)
    for row in ended.rows:
        if row.result != "caught":
            talk.print(f"repeat: {row.repeat}", markup=False)
    return ended.exit_code
