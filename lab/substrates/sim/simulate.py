"""Running a coroutine in a world of its own, to its end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

from lab.substrates.interruption import SIGNALS, Interrupted
from lab.substrates.sim.loop import host_with_loop
from lab.substrates.sim.network import Network
from lab.substrates.sim.patches import simulating
from lab.substrates.sim.world import World

T = TypeVar("T")

LAB = "lab"
"""The host on which the run itself, its observer and its nemesis live."""


def simulate(
    work: Callable[[], Coroutine[Any, Any, T]], seed: int, make_world: Callable[[int], World] = World
) -> T:
    """Call ``work`` on a host of a new world, and let the world go on until it is done.

    ``make_world`` makes the world from its seed.

    The first signal cancels it, as ``lab.substrates.execute`` does; its clean-up takes place in virtual time.

    Raises:
        Interrupted: a signal ended it.
        SimulationError: simulated code reached out of the simulation.
    """
    with simulating():
        world = make_world(seed)
        loop = host_with_loop(world, LAB, Network(world))
        try:
            task = loop.create_task(loop.host.run(work))
            with _signals() as interrupted:

                def over() -> bool:
                    if len(interrupted) == 1:
                        interrupted.append(0)
                        task.cancel()
                    return task.done()

                world.run_until(over)
        finally:
            loop.bury()
            world.end()
        if task.cancelled() and interrupted:
            raise Interrupted
        if world.violations:
            raise world.violations[0]
        return task.result()


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Yield the list of signals that came; they interrupt nothing by themselves."""
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if not came:
            came.append(number)

    before = {}
    with contextlib.suppress(ValueError):  # not the main thread: nobody sends it signals
        for number in SIGNALS:
            before[number] = signal.signal(number, note)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
