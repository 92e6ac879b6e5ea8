"""One run: bring a cluster up, play a scenario, observe, record, tear down."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
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


@contextlib.contextmanager
def many_runs() -> Iterator[None]:
    """Let runs inside, one after the other, share what is the same in all of them; may be nested.

    In virtual time servers and drivers are used again if they are as good as new, and every history is the
    same, byte for byte, as that of a run alone. Nothing of it is left afterwards. For the main thread.
    """
    from lab.drivers.place import asked_once
    from lab.substrates.virtual.session import shared_processes

    with asked_once(), shared_processes():
        yield
