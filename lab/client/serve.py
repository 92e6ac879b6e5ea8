"""One client at work: it takes orders from the lab over a line, and answers them.

The same code runs in a process of its own (``__main__``) and on a simulated host; they differ in the line.
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
    """What connects a client with the lab."""

    async def command(self) -> Command | None:
        """Wait for the next order; None when the lab is gone."""
        ...

    def answer(self, answer: Answer) -> None:
        """Send an answer; the first one says whether the client is ready."""
        ...

    def broke(self, error: Exception) -> None:
        """End the client, and so the run: its own code failed."""
        ...


async def serve(
    setup: Setup, line: Line, log: Sink, *, record_clock_ns: Callable[[], int] = time.monotonic_ns
) -> None:
    """Be one client until the lab is gone.

    Args:
        setup: who it is and what it works with.
        line: where orders come from and answers go.
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
    telling: asyncio.Task[None] | None = None
    while (command := await line.command()) is not None:
        if command.loop is not None:
            rounds = Rounds(worker, command.loop, random.Random(f"{setup.seed}/{setup.client}/loop"))
            looping = asyncio.create_task(_answer(line, _rounds(rounds, command.id)))
        elif command.verb == "stop":
            if rounds is not None:
                rounds.stop()
        elif command.verb == "clock":
            telling = asyncio.create_task(_answer(line, _time(lock, command.id)))
        else:  # beside this loop, so that a client which waits for the network still tells the time
            working = asyncio.create_task(_answer(line, worker.run(command)))
    for task in (looping, working, telling, heartbeat):
        if task is not None:
            task.cancel()
    if asking(lock) is not None:
        await lock.close()


def _store(setup: Setup, lock: Lock) -> StoreClient:
    """The way to the store; a broken lock may bring another one (``lab.locks.broken``)."""
    kind: type[StoreClient] = getattr(lock, "store_client", StoreClient)
    return kind(
        setup.store.host,
        setup.store.port,
        checks_fences=setup.checks_fences,
        fences_reads=setup.fences_reads,
        timeout_s=setup.store_timeout_s,
    )


async def _time(lock: Lock, command_id: int) -> Answer:
    """What time it is for the lock: for one that is a process of its own, what that process sees."""
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
    except Exception as error:  # noqa: BLE001 - a stall that nobody records would be held against the lock
        line.broke(error)


async def _answer(line: Line, work: Awaitable[Answer]) -> None:
    try:
        line.answer(await work)
    except Exception as error:  # noqa: BLE001 - whatever broke must end the client, and so the run
        line.broke(error)
