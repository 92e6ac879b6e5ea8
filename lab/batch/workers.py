"""Processes that each run one thing after the other, so that what these have in common is made once."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import msgspec

from lab.batch.preload import Child, Died


class Workers:
    """As many as are asked at once; use it with ``async with``: at its end, they end what they keep.

    Args:
        session: makes the context in which all calls of a process take place.
        function: is called with the arguments of ``call``; its result is passed on as JSON.
    """

    def __init__(
        self, session: Callable[[], AbstractContextManager[object]], function: Callable[..., Any]
    ) -> None:
        self._session, self._function = session, function
        self._idle: list[Child] = []
        self.started = 0
        """How many processes were started."""

    async def __aenter__(self) -> Workers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        idle, self._idle = self._idle, []
        await asyncio.gather(*(worker.finish() for worker in idle))

    async def call(self, *arguments: object) -> bytes:
        """Call the function in one that is free, or in a new one.

        When this is cancelled, it tears down first.

        Raises:
            Died: it ended without a result; the next call has another one.
            OSError: no process can be started.
        """
        worker = self._idle.pop() if self._idle else await self._new()
        try:
            await worker.send(pickle.dumps(arguments))
            answer = await worker.receive()
        except asyncio.CancelledError:
            worker.stop()
            await worker.finish()
            raise
        except Died:
            await worker.finish()
            raise
        self._idle.append(worker)
        return answer

    async def _new(self) -> Child:
        worker = Child(_serve, self._session, self._function)
        try:
            await worker.start()
        except BaseException:
            await worker.close()
            raise
        self.started += 1
        return worker


def _serve(
    pipe: Connection, session: Callable[[], AbstractContextManager[object]], function: Callable[..., Any]
) -> None:
    """Answer one call after the other, until no more can come."""
    with session():
        while True:
            try:
                arguments = pickle.loads(pipe.recv_bytes())
            except EOFError:
                return
            pipe.send_bytes(msgspec.json.encode(function(*arguments)))
