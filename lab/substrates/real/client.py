"""One client as a real process: it talks JSON lines over its stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from lab.client_protocol import LOADED_ID, Answer, Command, Outcome, Setup, settle
from lab.errors import UnknownOutcome
from lab.substrates.base import ClockReading
from lab.substrates.real.clock import WallClock, reading
from lab.substrates.real.machine import B, RealMachine

START_TIMEOUT_S = 300.0
"""More than a driver may take for `hello` and `open`, so that its own error is heard."""
CLOCK_TIMEOUT_S = 5.0


class ProcessClient(RealMachine[B]):
    """Gives orders to ``python -m lab.client`` and hears its answers, wherever that process runs."""

    def __init__(self, name: str, clock: WallClock) -> None:
        super().__init__(name, clock)
        self._clock_questions = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._listener: asyncio.Task[None] | None = None

    async def loaded(self) -> None:
        """Wait until the process has imported what it needs. Raises ``UnknownOutcome``."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._exchange(LOADED_ID)
        except TimeoutError as error:
            raise UnknownOutcome(f"client {self.name} did not come up in {START_TIMEOUT_S:.0f} s") from error

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

    async def send(self, command: Command) -> None:
        """Send a command that has no answer of its own; a client that is gone hears nothing."""
        with contextlib.suppress(ConnectionError):
            await self._say(msgspec.json.encode(command) + b"\n")

    def close(self) -> None:
        """Let go of what steps its clock."""
        self.clock.close()

    async def _say(self, line: bytes) -> None:
        """Write a line to its stdin. Raises ``ConnectionError`` if nobody reads it any more."""
        raise NotImplementedError

    async def _hear(self) -> bytes:
        """Read a line from its stdout; one without its end if there is no more."""
        raise NotImplementedError

    async def _reported_time(self) -> ClockReading:
        """Ask the process what time it is; it answers whatever else it is doing."""
        self._clock_questions += 1
        question = Command(-self._clock_questions, "clock")
        before_ns = time.time_ns()
        try:
            async with asyncio.timeout(CLOCK_TIMEOUT_S):
                answer = await self.order(question)
        except TimeoutError as error:
            raise UnknownOutcome(f"client {self.name} did not say what time it is") from error
        if answer.outcome is not Outcome.OK:
            raise UnknownOutcome(f"client {self.name} did not say what time it is: {answer.text}")
        return reading(int(answer.text), before_ns, time.time_ns())

    async def _exchange(self, command_id: int, line: bytes | None = None) -> Answer:
        """Send a line, if there is one, and wait for the answer with its id.

        Others may be waited for at the same time.
        """
        self.running()
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[command_id] = answered
        try:
            if self._listener is None or self._listener.done():
                self._listener = asyncio.create_task(self._listen())
            if line is not None:
                with contextlib.suppress(ConnectionError):
                    await self._say(line + b"\n")
            return await answered
        finally:
            self._waiting.pop(command_id, None)

    async def _listen(self) -> None:
        """Hand each answer to whoever waits for it; whatever goes wrong, tell all of them."""
        try:
            while self._waiting:
                line = await self._hear()
                if not line.endswith(b"\n"):
                    await self.running().ended()
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
                    settle(waits, answer)
        except UnknownOutcome as error:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)
