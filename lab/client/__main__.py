"""One client as a process of its own, so that it can be stopped, killed and given another clock.

It takes orders over stdin and answers over stdout (see ``protocol``); end of input ends it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import time
import traceback
from pathlib import Path

import msgspec

from lab.client.log import EventLog, Recording
from lab.client.loop import Rounds
from lab.client.points import Points
from lab.client.protocol import Answer, Command, Outcome, Setup
from lab.client.worker import Worker
from lab.heartbeat import watch_for_stalls
from lab.locks import lock_class
from lab.locks.base import Surroundings
from lab.store import StoreClient, StoreError


async def _stdin_lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


def _answer(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


async def _serve(setup: Setup, lines: asyncio.StreamReader) -> None:
    recording = Recording(setup.client, EventLog(Path(setup.log_path)))
    points = Points()
    lock = lock_class(setup.lock).build(
        setup.nodes,
        setup.options,
        Surroundings(random=random.Random(f"{setup.seed}/{setup.client}"), at=points.at),
        setup.client,
    )
    store = StoreClient(
        setup.store.host, setup.store.port, checks_fences=setup.checks_fences, timeout_s=setup.store_timeout_s
    )
    worker = Worker(
        recording,
        lock,
        store,
        key=setup.key,
        ttl_ns=setup.ttl_ns,
        check_before_write=setup.check_before_write,
        points=points,
    )
    heartbeat = asyncio.create_task(watch_for_stalls(recording.stall))
    await lock.open()
    try:
        await store.connect()
        _answer(Answer(0, Outcome.OK, "ready"))
    except StoreError as error:
        _answer(Answer(0, Outcome.FAIL, str(error)))
    gc.collect()
    gc.freeze()  # what start-up left behind need not be walked again while a story runs
    rounds: Rounds | None = None
    looping: asyncio.Task[None] | None = None
    working: asyncio.Task[None] | None = None
    while line := await lines.readline():
        command = msgspec.json.decode(line, type=Command)
        if command.loop is not None:
            rounds = Rounds(worker, command.loop, random.Random(f"{setup.seed}/{setup.client}/loop"))
            looping = asyncio.create_task(_loop(rounds, command.id))
        elif command.verb == "stop":
            if rounds is not None:
                rounds.stop()
        elif command.verb == "clock":
            _answer(Answer(command.id, Outcome.OK, str(time.time_ns())))
        else:  # beside this loop, so that a client which waits for the network still tells the time
            working = asyncio.create_task(_work(worker, command))
    for task in (looping, working, heartbeat):
        if task is not None:
            task.cancel()


async def _work(worker: Worker, command: Command) -> None:
    try:
        _answer(await worker.run(command))
    except Exception:  # noqa: BLE001 - whatever broke must end the client, and so the run
        traceback.print_exc()
        os._exit(1)


async def _loop(rounds: Rounds, command_id: int) -> None:
    try:
        _answer(Answer(command_id, Outcome.OK, await rounds.run()))
    except Exception:  # noqa: BLE001 - whatever broke must end the client, and so the run
        traceback.print_exc()
        os._exit(1)


async def _main() -> None:
    lines = await _stdin_lines()
    first = await lines.readline()
    if first:
        await _serve(msgspec.json.decode(first, type=Setup), lines)


if __name__ == "__main__":
    asyncio.run(_main())
