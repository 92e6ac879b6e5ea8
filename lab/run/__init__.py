"""One run: bring a cluster up, play a scenario, observe, record, tear down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.run.narration import Listener
    from lab.run.request import RunRequest
    from lab.run.result import RunResult


def run(
    request: RunRequest, listener: Listener | None = None, meanwhile: Callable[[], None] | None = None
) -> RunResult:
    """Run one scenario to its verdict; history and verdict are kept in a directory of the run's own.

    Simulated runs patch clocks and sockets, and real ones handle signals: a program that has threads or an
    event loop of its own calls ``lab.api.lab.Lab.run``, which does this in another process.

    Args:
        request: what is to be run.
        listener: hears the plan, the narration line by line, and the result.
        meanwhile: called in a thread while a real cluster comes up; over before the story begins.

    Raises:
        LabError: bad input, or a missing tool; nothing was run.
        UnknownOutcome: the harness failed before there was a history.
        Interrupted: a signal ended it; everything was torn down, the history is kept.
    """
    from lab.run.execution import Run  # most of this package's users never run anything
    from lab.run.narration import Listener
    from lab.substrates.execute import execute_on

    hears = listener or Listener()
    plan = request.plan()
    hears.planned(plan)
    one = Run(plan, hears.told, meanwhile)
    result = one.conclude(execute_on(plan.substrate, plan.seed, one.prepare()))
    hears.ended(result)
    return result
