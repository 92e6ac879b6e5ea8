"""Running a coroutine as the command line does: signals cancel it once, and nothing outlives it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from lab.substrates.interruption import SIGNALS, Interrupted

T = TypeVar("T")


def execute_on(substrate: str, seed: int, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``work`` as this substrate wants it: in real time, or in a simulated world with this seed.

    Raises:
        Interrupted: a signal ended it.
    """
    from lab.substrates import is_simulated

    if not is_simulated(substrate):
        return execute(work())
    from lab.substrates.sim.simulate import simulate

    if substrate == "sim":
        return simulate(work, seed)
    from lab.substrates.virtual.session import SESSION
    from lab.substrates.virtual.world import VirtualWorld

    with SESSION.run() as session:
        conductor = session.conductor if session is not None else None
        return simulate(work, seed, partial(VirtualWorld, conductor=conductor))


def execute(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end. The first signal cancels it; further ones do not hurry its clean-up.

    Raises:
        Interrupted: a signal ended it.
    """

    async def guarded() -> T:
        task = asyncio.ensure_future(work)
        interrupted = False

        def stop() -> None:
            nonlocal interrupted
            if not interrupted:
                interrupted = True
                task.cancel()

        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
        try:
            return await task
        except asyncio.CancelledError:
            if interrupted:
                raise Interrupted from None
            raise
        finally:
            with contextlib.suppress(ValueError):
                for number in SIGNALS:
                    loop.remove_signal_handler(number)

    with asyncio.Runner() as runner:
        return runner.run(guarded())
