"""One client on a simulated host: the same code as in a process of its own, on another line."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from lab.client_protocol import Answer, Command, Outcome, Setup, settle
from lab.errors import NO_ROOM, UnknownOutcome
from lab.substrates.sim.clock import MONOTONIC_START_NS
from lab.substrates.sim.loop import HostLoop
from lab.substrates.sim.machine import ACT_S, SimMachine
from lab.substrates.sim.network import Network

PROGRAM: Final = importlib.import_module("lab.client.in_process")
"""What runs in a client, found by its name as a process of its own finds it: this package knows no lock."""
HAND_OVER_NS: Final = 600_000
"""How long a line from the lab to a client, or back, is on its way. It keeps what they do in turn apart."""


class MemoryLine:
    """The client's end of the line to the lab."""

    def __init__(
        self,
        loop: HostLoop,
        heard: Callable[[Answer], None],
        broke: Callable[[Exception], None],
        note: Callable[[Exception], object],
    ) -> None:
        self._loop = loop
        self.note = note
        """Writes the traceback of an error to the client's log."""
        self._commands: deque[Command] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._heard, self._broke = heard, broke

    def give(self, command: Command) -> None:
        """An order has come; it waits if the client stands still."""
        self._commands.append(command)
        self._loop.on_io(self._notify)

    def _notify(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def command(self) -> Command | None:
        """Wait for the next order; the lab is never gone before the client."""
        while not self._commands:
            self._waiting = self._loop.create_future()
            await self._waiting
        return self._commands.popleft()

    def answer(self, answer: Answer) -> None:
        """Send an answer."""
        self._loop.host.world.after(HAND_OVER_NS, self._heard, answer)

    def broke(self, error: Exception) -> None:
        """Tell the lab that this client is no more."""
        self._broke(error)


class SimClient(SimMachine):
    """Starts, asks, stops and kills one client."""

    def __init__(
        self, loop: HostLoop, network: Network, process_id: int, log: Path, failed: asyncio.Future[str]
    ) -> None:
        self._network = network
        self.loop = loop
        super().__init__(loop.host, process_id)
        self._log = log
        self._failed = failed
        self._line = MemoryLine(self.loop, self._heard, self._broke, self._note)
        self._events: Any = None
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._clock_questions = 0

    async def start(self, setup: Setup) -> None:
        """Start it and wait until it is connected. Raises ``UnknownOutcome``."""
        self._events = PROGRAM.EventLog(Path(setup.log_path))
        world = self.host.world
        work = PROGRAM.serve(
            setup, self._line, self._events, record_clock_ns=lambda: MONOTONIC_START_NS + world.now_ns
        )
        ready = self._answer_to(0)
        self.loop.create_task(work, name=self.name).add_done_callback(self._served)
        answer = await ready
        if answer.outcome is not Outcome.OK:
            raise UnknownOutcome(f"client {self.name} could not start: {answer.text}")

    async def order(self, command: Command) -> Answer:
        """Send one command and wait for its answer, for as long as it takes."""
        answered = self._answer_to(command.id)
        await self.send(command)
        try:
            return await answered
        finally:
            self._waiting.pop(command.id, None)

    async def send(self, command: Command) -> None:
        """Send a command that has no answer of its own; a client that is gone hears nothing."""
        self.host.world.after(HAND_OVER_NS, self._give, command)

    async def kill(self) -> None:
        """End it at once: its code runs no more, its machine closes its connections."""
        await asyncio.sleep(ACT_S)
        self._end()
        self._give_up(f"client {self.name} died")

    async def reported_time_ns(self) -> int:
        """Ask the process what time it is; it answers whatever else it is doing."""
        self._clock_questions += 1
        return int((await self.order(Command(-self._clock_questions, "clock"))).text)

    def close(self) -> None:
        """Let go of all that is left of it, once nothing is written any more."""
        self._end()
        self.loop.bury()
        if self._events is not None:
            self._events.close()

    def _answer_to(self, command_id: int) -> asyncio.Future[Answer]:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.host.down:
            future.set_exception(UnknownOutcome(f"client {self.name} died", expected="an answer"))
        self._waiting[command_id] = future
        return future

    def _give(self, command: Command) -> None:
        if not self.host.down:
            self._line.give(command)

    def _heard(self, answer: Answer) -> None:
        waits = self._waiting.pop(answer.id, None)
        if waits is not None and not waits.done():
            settle(waits, answer)

    def _served(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._broke(error)

    def _note(self, error: Exception) -> list[str]:
        lines = traceback.format_exception(error)
        with contextlib.suppress(OSError):  # a full disk, of which the error may tell
            self._log.write_text("".join(lines), encoding="utf-8")
        return lines

    def _broke(self, error: Exception) -> None:
        lines = self._note(error)
        why = f"ended by itself; its log ends:\n{''.join(lines[-8:])}"
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            why = f"cannot write what it does: {error.strerror}"
        self.host.world.after(0, self._died, f"client-{self.name} {why}")

    def _died(self, sentence: str) -> None:
        if not self.host.down:
            self._end()
            if not self._failed.done():
                self._failed.set_result(sentence)
            self._give_up(f"client {self.name} died")

    def _end(self) -> None:
        if not self.host.down:
            self.host.down = True
            self.host.paused = False
            self.loop.stop_for_ever()
            self._network.close_all_of(self.name)

    def _give_up(self, why: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(UnknownOutcome(why, expected="an answer"))
                future.exception()  # nobody may be waiting any more; that is no error of its own
