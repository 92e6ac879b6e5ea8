"""``python -m lab.api.live``: one cluster, told over stdin what happens; see ``lab.api.live.cluster``."""

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
    """Serve one cluster, from its beginning to its verdict."""
    from lab.substrates.interruption import Interrupted

    answer = answers()
    try:
        answer(_served(msgspec.json.decode(_first_line(), type=Begin), answer))
    except LabError as error:
        from lab.api.live.run import in_the_words_of_python

        answer(in_the_words_of_python(error))
        return int(error.exit_code)
    except (Interrupted, asyncio.CancelledError):  # nobody tells on
        return ExitCode.INTERRUPTED
    return ExitCode.EXPECTED


def _first_line() -> bytes:
    """The first line, and not a byte more: the rest is for somebody else to read."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        line += byte
    return line


def _served(begin: Begin, answer: Answer) -> RunResult:
    from pathlib import Path

    from lab.api.live.run import LiveRun, loaded_story
    from lab.api.runs import report
    from lab.run.request import RunRequest
    from lab.substrates import is_simulated
    from lab.substrates.execute import execute

    about = loaded_story(begin.scenario, [])
    plan = RunRequest(about, seed=begin.seed, substrate=begin.on, out=Path(begin.out)).plan()
    if is_simulated(plan.substrate):
        raise LabError(
            "a simulated cluster has a time of its own, and no program outside can act in it",
            where="on",
            expected="local or docker",
            hint='Lab().run(scenario, on="sim") simulates a story that is known beforehand',
        )
    story = LiveRun(begin.scenario, plan, answer)
    lived = execute(story.prepare()())
    return report(story.conclude(lived), "unexpected").result


if __name__ == "__main__":
    sys.exit(main())
