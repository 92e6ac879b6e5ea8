"""One client: it takes commands from the lab over a connection, and answers them.

The same code runs in a process of its own (``__main__``) and on a simulated host, with another ``Line``.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from lab.client.log import Recording, Sink
from lab.client.loop import Rounds
from lab.client.points import Points
from lab.client.worker import Worker
from lab.client_protocol import Answer, Command, Outcome, Setup
from lab.errors import LabError, LockFailed
from lab.locks import lock_class
from lab.locks.base import Indeterminate, Lock, LockError, Surroundings, asking
from lab.locks.failure import awaitable, described, failing_in
from lab.locks.heartbeat import watch_for_stalls
from lab.store import StoreClient, StoreError

GRANTS_OF_A_WORKER: Final = 1000
"""The grants of a client's second task, or second key, are counted from this number on."""


class Line(Protocol):
    """The connection of a client to the lab."""

    async def command(self) -> Command | None:
        """Wait for the next command; None when the lab has ended."""
        ...

    def answer(self, answer: Answer) -> None:
        """Send an answer; the first one says whether the client is ready."""
        ...

    def note(self, error: Exception) -> None:
        """Write the traceback of an error of the lock to the client's log."""
        ...

    def broke(self, error: Exception) -> None:
        """End the client, and so the run, after an error in its own code."""
        ...


class _Workers:
    """A client's workers, one for each task and key, with one lock object, and what they carry out."""

    def __init__(
        self,
        setup: Setup,
        lock: Lock,
        store: StoreClient,
        points: Points,
        recording: Recording,
        another: Callable[..., Recording],
    ) -> None:
        self._setup, self._lock, self._store, self._points = setup, lock, store, points
        self._another = another
        self._recordings = {1: recording}
        self._workers: dict[tuple[int, str], Worker] = {}
        self._under_way: dict[int, tuple[Worker, asyncio.Task[None]]] = {}
        self._loops = False
        self.active = asyncio.Event()
        """Set while a stall could matter: something is under way, or a lease is held."""
        self.active.set()

    def worker(self, task: int, key: str | None) -> Worker:
        """The worker of a task for a key."""
        key = key or self._setup.key
        if (task, key) in self._workers:
            return self._workers[task, key]
        if task not in self._recordings:
            self._recordings[task] = self._another(task=task)
        worker = self._workers[task, key] = Worker(
            self._recordings[task],
            self._lock,
            self._store,
            key=key,
            ttl_ns=self._setup.ttl_ns,
            check_before_write=self._setup.check_before_write,
            points=None if self._workers else self._points,  # the lock stops its first worker only
            grants_from=GRANTS_OF_A_WORKER * len(self._workers),
        )
        return worker

    def begin(self, command: Command, line: Line) -> None:
        """Let a worker carry out a command, as a task: `clock` is answered even while it waits."""
        self.active.set()
        worker = self.worker(command.task, command.key)
        task = asyncio.create_task(_answer(line, command.id, worker.run(command)))
        self._under_way[command.id] = worker, task
        task.add_done_callback(partial(self._ended, command.id))

    def cancel(self, command_id: int) -> None:
        """Cancel a command, if it has not ended."""
        if (found := self._under_way.get(command_id)) is not None:
            worker, task = found
            asyncio.get_running_loop().call_soon(worker.cancel, task)  # once it has begun

    def end(self) -> None:
        """Let nothing go on."""
        for _, task in self._under_way.values():
            task.cancel()

    def _ended(self, command_id: int, _: object) -> None:
        del self._under_way[command_id]
        self.settle()

    def settle(self) -> None:
        """Clear ``active`` if a stall no longer matters."""
        if not self._loops and not self._under_way and all(one.idle for one in self._workers.values()):
            self.active.clear()

    def rounds(self, command: Command) -> Rounds:
        """The rounds of a workload, which go on until the lab ends."""
        self._loops = True
        self.active.set()
        drawn = random.Random(f"{self._setup.seed}/{self._setup.client}/loop")
        assert command.loop is not None
        return Rounds(self.worker(1, None), command.loop, drawn)


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
    own = lock_class(setup.lock)
    around = Surroundings(
        random=random.Random(f"{setup.seed}/{setup.client}"),
        at=points.at,
        stalled=recording.stall,
        sentinels=tuple(setup.sentinels),
    )
    try:
        with failing_in("build", setup.client, own):
            lock = own.build(setup.nodes, setup.options, around, setup.client)
    except LabError as error:
        line.note(error)
        line.answer(Answer(0, Outcome.BROKEN, error.seen))
        return
    store = _store(setup, lock)
    workers = _Workers(
        setup, lock, store, points, recording, partial(Recording, setup.client, log, record_clock_ns)
    )
    heartbeat = asyncio.create_task(
        _beat(line, watch_for_stalls(recording.stall, record_clock_ns, setup.beat_ns, workers.active))
    )
    await _answer(line, 0, _ready(workers.worker(1, None), lock, store, setup))
    workers.settle()
    rounds: Rounds | None = None
    looping: asyncio.Task[None] | None = None
    using: asyncio.Task[None] | None = None
    reading: asyncio.Task[None] | None = None
    while (command := await line.command()) is not None:
        if command.loop is not None:
            rounds = workers.rounds(command)
            looping = asyncio.create_task(_answer(line, command.id, _rounds(rounds, command.id)))
        elif command.verb == "stop":
            if rounds is not None:
                rounds.stop()
        elif command.verb == "clock":
            reading = asyncio.create_task(_answer(line, command.id, _time(lock, command.id)))
        elif command.verb == "cancel":
            workers.cancel(command.id)
        elif command.verb in ("close", "open"):
            using = asyncio.create_task(_answer(line, command.id, used(lock, command)))
        else:
            workers.begin(command, line)
    workers.end()
    for left in (looping, using, reading, heartbeat):
        if left is not None:
            left.cancel()
    if asking(lock) is not None:
        await lock.close()


async def _ready(worker: Worker, lock: Lock, store: StoreClient, setup: Setup) -> Answer:
    """Connect, and warm the lock up. Raises ``LockFailed``."""
    try:
        with failing_in("open", setup.client, type(lock)):
            await awaitable("open", lock.open())
        await store.connect()
        if setup.warm_up is not None:
            await worker.warm_up(setup.warm_up)
    except LockFailed:
        raise
    except LockError as error:
        raise LockFailed(f"{setup.client}'s open raised {described(error)}") from error
    except (StoreError, LabError) as error:
        return Answer(0, Outcome.FAIL, str(error))
    return Answer(0, Outcome.OK, "ready")


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


async def used(lock: Lock, command: Command) -> Answer:
    """Close the lock object, or open it again."""
    try:
        await (lock.close() if command.verb == "close" else lock.open())
    except LockError as error:
        return Answer(command.id, Outcome.FAIL, f"cannot {command.verb} its lock: {error}")
    return Answer(command.id, Outcome.OK, "closed its lock" if command.verb == "close" else "opened its lock")


async def _rounds(rounds: Rounds, command_id: int) -> Answer:
    return Answer(command_id, Outcome.OK, await rounds.run())


async def _beat(line: Line, work: Awaitable[None]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - an unrecorded stall would be blamed on the lock
        line.broke(error)


async def _answer(line: Line, command_id: int, work: Awaitable[Answer]) -> None:
    try:
        line.answer(await work)
    except LockFailed as error:
        line.note(error)
        line.answer(Answer(command_id, Outcome.BROKEN, error.seen))
    except Exception as error:  # noqa: BLE001 - any defect must end the client, and so the run
        line.broke(error)
