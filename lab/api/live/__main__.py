"""``python -m lab.api.live``: one cluster, with its steps from stdin; see ``lab.api.live.cluster``."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import msgspec

from lab.api.child import answers
from lab.api.live.cluster import Begin
from lab.errors import ExitCode, LabError

if TYPE_CHECKING:
    from lab.api.live.run import Answer
    from lab.run.result import RunResult


def main() -> int:
    """Run one cluster to its verdict."""
    from lab.substrates.interruption import Interrupted

    answer = answers()
    try:
        answer(_served(msgspec.json.decode(_first_line(), type=Begin), answer))
    except LabError as error:
        from lab.api.live.run import for_python

        answer(for_python(error))
        return int(error.exit_code)
    except (Interrupted, asyncio.CancelledError):  # the input has ended
        return ExitCode.INTERRUPTED
    return ExitCode.EXPECTED


def _first_line() -> bytes:
    """The first line and no byte more: asyncio reads the rest."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        line += byte
    return line


def _served(begin: Begin, answer: Answer) -> RunResult:
    from pathlib import Path

    from lab.api.live.run import LiveRun, scenario_of
    from lab.api.runs import RunRequest, report
    from lab.substrates import is_simulated
    from lab.substrates.execute import execute

    loaded = scenario_of(begin.scenario, [])
    plan = RunRequest(loaded, seed=begin.seed, substrate=begin.on, out=Path(begin.out)).plan()
    if is_simulated(plan.substrate):
        raise LabError(
            "a simulated cluster runs in virtual time, in which a program outside cannot act",
            where="on",
            expected="local or docker",
            hint='Lab().run(scenario, on="sim") simulates steps that are known beforehand',
        )
    run = LiveRun(begin.scenario, plan, answer)
    recorded = execute(run.prepare()())
    return report(run.conclude(recorded), "unexpected").result


if __name__ == "__main__":
    sys.exit(main())
