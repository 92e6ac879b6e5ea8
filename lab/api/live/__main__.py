"""``python -m lab.api.live``: one cluster, told over stdin what happens; see ``lab.api.live.protocol``."""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from lab.api.live.protocol import Answer, Begin


def main() -> int:
    """Serve one cluster, from its beginning to its verdict."""
    from lab.errors import LabError
    from lab.substrates.execute import Interrupted

    try:
        return _serve(msgspec.json.decode(_first_line(), type=Begin))
    except LabError as error:
        from lab.api.live.run import problem, tell

        tell(Answer(error=problem(error)))
        return int(error.exit_code)
    except (Interrupted, asyncio.CancelledError):  # nobody tells on
        return 130


def _first_line() -> bytes:
    """The first line, and not a byte more: the rest is for somebody else to read."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        line += byte
    return line


def _serve(begin: Begin) -> int:
    from pathlib import Path

    from lab.api.live.run import LiveRun, loaded_story, tell
    from lab.drivers.place import refusal
    from lab.errors import LabError
    from lab.run.execution import RunOptions
    from lab.run.steps import needed_of
    from lab.substrates import choose, is_simulated
    from lab.substrates.execute import execute

    about = loaded_story(begin.scenario, []).scenario
    service, refuses = about.cluster.service, refusal(about.lock.name)
    on, _ = choose(begin.on, needed_of(about), service=service, refuses=refuses)
    if is_simulated(on):
        raise LabError(
            "a simulated cluster has a time of its own, and no program outside can act in it",
            where="on",
            expected="local or docker",
            hint='Lab().run(scenario, on="sim") simulates a story that is known beforehand',
        )
    story = LiveRun(begin.scenario, RunOptions(begin.seed, Path(begin.out), "", on, "unexpected"))
    lived = execute(story.prepare()())
    story.keep_story(lived.directory)
    result = story.conclude(lived)
    tell(Answer(directory=str(result.directory), exit_code=int(result.exit_code)))
    return int(result.exit_code)


if __name__ == "__main__":
    sys.exit(main())
