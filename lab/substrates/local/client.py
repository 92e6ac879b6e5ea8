"""One client as a real process on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time

import msgspec

from lab.client.protocol import Answer, Command, Outcome, Setup
from lab.errors import UnknownOutcome
from lab.substrates.base import ClockReading
from lab.substrates.local.clock import LocalClock, reading
from lab.substrates.local.machine import LocalMachine
from lab.substrates.local.processes import Nursery

START_TIMEOUT_S = 20.0
CLOCK_TIMEOUT_S = 5.0


class LocalClient(LocalMachine):
    """Talks JSON lines with ``python -m lab.client``, and stops, continues or kills its process group."""

    def __init__(self, name: str, nursery: Nursery, clock: LocalClock) -> None:
        super().__init__(name, clock)
        self._nursery = nursery
        self._clock_questions = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._listener: asyncio.Task[None] | None = None

    async def launch(self) -> None:
        """Start the process, so that it imports what it needs while the rest of the cluster comes up."""
        self.child = await self._nursery.start(
            f"client-{self.name}",
            [sys.executable, "-m", "lab.client"],
            environment=self.clock.environment,
            talks=True,
        )

    async def start(self, setup: Setup) -> None:
        """Tell the process who it is and wait until it is connected."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                answer = await self._exchange(0, msgspec.json.encode(setup))
        except TimeoutError as error:
            raise UnknownOutcome(f"client {self.name} was not ready after {START_TIMEOUT_S:.0f} s") from error
        if answer.outcome is not Outcome.OK:
            raise UnknownOutcome(f"client {self.name} could not start: {answer.text}")

    async def order(self, command: Command) -> Answer:
        """Send one command and wait for its answer, for as long as it takes."""
        return await self._exchange(command.id, msgspec.json.encode(command))

    async def tell(self, command: Command) -> None:
        """Send a command that has no answer of its own; a client that is gone hears nothing."""
        process = self.running().process
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(msgspec.json.encode(command) + b"\n")
            await process.stdin.drain()

    def close(self) -> None:
        """Let go of what steps its clock."""
        self.clock.close()

    async def _told_time(self) -> ClockReading:
        """Ask the process what time it is; it answers whatever else it is doing."""
        self._clock_questions += 1
        question = Command(-self._clock_questions, "clock")
        before_ns = time.time_ns()
        try:
            async with asyncio.timeout(CLOCK_TIMEOUT_S):
                answer = await self.order(question)
        except TimeoutError as error:
            raise UnknownOutcome(f"client {self.name} did not say what time it is") from error
        return reading(int(answer.text), before_ns, time.time_ns())

    async def _exchange(self, command_id: int, line: bytes) -> Answer:
        """Send a line and wait for the answer with its id; others may be waited for at the same time."""
        process = self.running().process
        assert process.stdin is not None
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[command_id] = answered
        try:
            if self._listener is None or self._listener.done():
                self._listener = asyncio.create_task(self._listen())
            with contextlib.suppress(ConnectionError):
                process.stdin.write(line + b"\n")
                await process.stdin.drain()
            return await answered
        finally:
            self._waiting.pop(command_id, None)

    async def _listen(self) -> None:
        """Hand each answer to whoever waits for it; whatever goes wrong, tell all of them."""
        process = self.running().process
        assert process.stdout is not None
        try:
            while self._waiting:
                line = await process.stdout.readline()
                if not line.endswith(b"\n"):
                    await process.wait()
                    raise UnknownOutcome(
                        f"client {self.name} died",
                        expected="an answer",
                        hint=f"its log ends:\n{self.running().tail(8)}",
                    )
                try:
                    answer = msgspec.json.decode(line, type=Answer)
                except msgspec.DecodeError as error:
                    raise UnknownOutcome(
                        f"client {self.name} printed {line[:200]!r}", expected="an answer as a JSON line"
                    ) from error
                waits = self._waiting.pop(answer.id, None)
                if waits is not None and not waits.done():
                    waits.set_result(answer)
        except UnknownOutcome as error:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)
