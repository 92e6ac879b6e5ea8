"""One run: bring a cluster up, play a scenario, observe, record, tear down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.run.events import Listener
    from lab.run.request import RunRequest
    from lab.run.result import RunResult


def run(
    request: RunRequest, listener: Listener | None = None, meanwhile: Callable[[], None] | None = None
) -> RunResult:
    """Run one scenario to its verdict; history and verdict are kept in the run's directory.

    Simulated runs patch clocks and sockets, and real ones handle signals: a program that has threads or an
    event loop of its own calls ``lab.api.lab.Lab.run``, which does this in another process.

    Args:
        request: the scenario and its options.
        listener: is called with the plan, each event of the output, and the result.
        meanwhile: called in a thread while a real cluster comes up; done before the first step.

    Raises:
        LabError: bad input, or a missing tool; nothing was run.
        UnknownOutcome: the harness failed before there was a history.
        Interrupted: a signal ended it; everything was torn down, the history is kept.
    """
    from lab.run.events import Listener
    from lab.run.execution import Run  # imported late: most users of this package run nothing
    from lab.substrates.execute import execute_on

    listener = listener or Listener()
    plan = request.plan()
    listener.planned(plan)
    one = Run(plan, listener.event, meanwhile)
    result = one.conclude(execute_on(plan.substrate, plan.seed, one.prepare()))
    listener.ended(result)
    return result
