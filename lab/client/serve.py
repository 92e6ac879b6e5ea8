"""One client: it takes commands from the lab over a connection, and answers them.

The same code runs in a process of its own (``__main__``) and on a simulated host, with another ``Line``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from lab.client.log import Recording, Sink
from lab.client.loop import Rounds
from lab.client.points import Points
from lab.client.worker import Worker
from lab.client_protocol import Answer, Command, Outcome, Setup
from lab.errors import LabError
from lab.locks import lock_class
from lab.locks.base import Indeterminate, Lock, Surroundings, asking
from lab.locks.heartbeat import watch_for_stalls
from lab.store import StoreClient, StoreError


class Line(Protocol):
    """The connection of a client to the lab."""

    async def command(self) -> Command | None:
        """Wait for the next command; None when the lab has ended."""
        ...

    def answer(self, answer: Answer) -> None:
        """Send an answer; the first one says whether the client is ready."""
        ...

    def broke(self, error: Exception) -> None:
        """End the client, and so the run, after an error in its own code."""
        ...


async def serve(
    setup: Setup, line: Line, log: Sink, *, record_clock_ns: Callable[[], int] = time.monotonic_ns
) -> None:
    """Run one client until the lab closes the connection.

    Args:
        setup: its configuration.
        line: the connection to the lab.
        log: where its operations are recorded.
        record_clock_ns: the history's clock, which all writers of one history share.
    """
    recording = Recording(setup.client, log, record_clock_ns)
    points = Points()
    lock = lock_class(setup.lock).build(
        setup.nodes,
        setup.options,
        Surroundings(
            random=random.Random(f"{setup.seed}/{setup.client}"), at=points.at, stalled=recording.stall
        ),
        setup.client,
    )
    store = _store(setup, lock)
    worker = Worker(
        recording,
        lock,
        store,
        key=setup.key,
        ttl_ns=setup.ttl_ns,
        check_before_write=setup.check_before_write,
        points=points,
    )
    heartbeat = asyncio.create_task(_beat(line, watch_for_stalls(recording.stall, record_clock_ns)))
    try:
        await lock.open()
        await store.connect()
        line.answer(Answer(0, Outcome.OK, "ready"))
    except (StoreError, LabError) as error:
        line.answer(Answer(0, Outcome.FAIL, str(error)))
    rounds: Rounds | None = None
    looping: asyncio.Task[None] | None = None
    working: asyncio.Task[None] | None = None
    reading: asyncio.Task[None] | None = None
    while (command := await line.command()) is not None:
        if command.loop is not None:
            rounds = Rounds(worker, command.loop, random.Random(f"{setup.seed}/{setup.client}/loop"))
            looping = asyncio.create_task(_answer(line, _rounds(rounds, command.id)))
        elif command.verb == "stop":
            if rounds is not None:
                rounds.stop()
        elif command.verb == "clock":
            reading = asyncio.create_task(_answer(line, _time(lock, command.id)))
        else:  # as a task, so that `clock` is answered even while the client waits for the network
            working = asyncio.create_task(_answer(line, worker.run(command)))
    for task in (looping, working, reading, heartbeat):
        if task is not None:
            task.cancel()
    if asking(lock) is not None:
        await lock.close()


def _store(setup: Setup, lock: Lock) -> StoreClient:
    """The store's client; a broken lock may have one of its own (``lab.locks.broken``)."""
    kind: type[StoreClient] = getattr(lock, "store_client", StoreClient)
    return kind(
        setup.store.host,
        setup.store.port,
        checks_fences=setup.checks_fences,
        fences_reads=setup.fences_reads,
        timeout_s=setup.store_timeout_s,
    )


async def _time(lock: Lock, command_id: int) -> Answer:
    """The wall clock that the lock sees: for a lock that is a process of its own, that of the process."""
    asks = asking(lock)
    if asks is None:
        return Answer(command_id, Outcome.OK, str(time.time_ns()))
    try:
        return Answer(command_id, Outcome.OK, str(await asks.wall_clock_ns()))
    except Indeterminate as error:
        return Answer(command_id, Outcome.INFO, str(error))


async def _rounds(rounds: Rounds, command_id: int) -> Answer:
    return Answer(command_id, Outcome.OK, await rounds.run())


async def _beat(line: Line, work: Awaitable[None]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - an unrecorded stall would be blamed on the lock
        line.broke(error)


async def _answer(line: Line, work: Awaitable[Answer]) -> None:
    try:
        line.answer(await work)
    except Exception as error:  # noqa: BLE001 - any defect must end the client, and so the run
        line.broke(error)
