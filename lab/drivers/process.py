"""A driver as a child process: commands go in, answers come out in any order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from lab.addresses import SENTINEL_SERVICE
from lab.client_protocol import Mode
from lab.drivers.messages import (
    LINE_BYTES_MAX,
    PROTOCOL,
    Answer,
    Done,
    DriverBroken,
    Extended,
    Failed,
    Granted,
    Held,
    Hello,
    Op,
    Success,
    WallTime,
    broken,
    read_line,
)
from lab.errors import LabError
from lab.processes import RUN_VARIABLE, kill_all

READY_TIMEOUT_S: Final = 120.0
"""How long `hello` and `open` may take: a JVM on a busy machine needs more than half a minute."""
END_TIMEOUT_S: Final = 5.0
"""How long a driver may take to end after its input has."""

A = TypeVar("A", bound=Success)
OptionValues = Mapping[str, str | int | float | bool]


class DriverProcess:
    """One running driver. It belongs to the process group of whoever starts it, so it shares its fate.

    Args:
        command: its words; started without a shell, in the current directory.
        on_lost: is told the lease of which the library said that it is lost.
        own_group: whether it gets a process group of its own, for a driver that belongs to no client.
        environment: what is added to the environment of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        on_lost: Callable[[str], None] = lambda lease: None,
        own_group: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = " ".join(command)
        self._command = command
        self._on_lost = on_lost
        self._own_group, self._environment = own_group, environment or {}
        self._run_id = f"driver-{uuid.uuid4().hex}" if own_group else None
        self._process: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None
        self._numbers = 0
        self._asked: dict[int, Op] = {}
        self._waiting: dict[int, asyncio.Future[Success | Failed]] = {}
        self._broken: DriverBroken | None = None
        self._cancels = self._reads = False
        """Whether it takes ``cancel``, once it has said hello."""

    @property
    def pid(self) -> int:
        """Its process id. Only once it was started."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self, *, errors_to: int | None = None) -> None:
        """Start it; its log goes to ``errors_to`` (a file descriptor), by default where ours goes.

        Raises:
            LabError: there is no such program, or it cannot be started.
        """
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors_to,
                limit=LINE_BYTES_MAX,
                start_new_session=self._own_group,
                env=None
                if self._run_id is None
                else {**os.environ, **self._environment, RUN_VARIABLE: self._run_id},
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise LabError(
                f"the driver {self.name!r} cannot be started: {reason}",
                expected="a program, and its arguments",
                hint="is the path right (from this directory), and may it be executed (chmod +x)?",
            ) from error
        self._listener = asyncio.create_task(self._listen())

    async def hello(self, options: OptionValues) -> Hello:
        """Ask who it is.

        Raises:
            LabError: it does not want these options.
            DriverBroken: it does not answer, or not properly.
        """
        answer = await self._ready("hello", {"protocol": PROTOCOL, "options": dict(options)})
        if isinstance(answer, Failed):
            raise LabError(
                f"the driver {self.name!r} refuses: {answer.words}",
                where="lock.options",
                expected="options that the driver takes",
            )
        hello = _as(answer, Hello)
        self._cancels, self._reads = hello.can("cancel"), hello.can("read-write")
        return hello

    async def open(
        self, client: str, nodes: Sequence[str], options: OptionValues, sentinels: Sequence[str] = ()
    ) -> None:
        """Let it open its library's lock. Raises ``LabError`` if that fails."""
        fields: dict[str, Any] = {"client": client, "nodes": list(nodes), "options": dict(options)}
        if sentinels:
            fields |= {"sentinels": list(sentinels), "service": SENTINEL_SERVICE}
        answer = await self._ready("open", fields)
        if isinstance(answer, Failed):
            raise LabError(f"the driver {self.name!r} could not open the lock: {answer.words}")

    async def acquire(
        self, key: str, ttl_ms: int, timeout_s: float | None = None, *, mode: Mode = "write"
    ) -> Granted | Failed:
        """Acquire; like all that follows it raises ``TimeoutError`` if the driver takes too long."""
        fields = {"key": key, "ttl_ms": ttl_ms, **({"mode": mode} if self._reads else {})}
        return _either(await self.ask("acquire", fields, timeout_s), Granted)

    async def extend(self, lease: str, ttl_ms: int, timeout_s: float | None = None) -> Extended | Failed:
        """Extend."""
        return _either(await self.ask("extend", {"lease": lease, "ttl_ms": ttl_ms}, timeout_s), Extended)

    async def release(self, lease: str, timeout_s: float | None = None) -> Done | Failed:
        """Release."""
        return _either(await self.ask("release", {"lease": lease}, timeout_s), Done)

    async def held(self, lease: str, timeout_s: float | None = None) -> Held | Failed:
        """Ask what the library believes."""
        return _either(await self.ask("held", {"lease": lease}, timeout_s), Held)

    async def close_library(self, timeout_s: float | None = None) -> Done | Failed:
        """Let it close what it opened, so that it can say hello and open anew."""
        return _either(await self.ask("close", {}, timeout_s), Done)

    async def clock(self, timeout_s: float | None = None) -> WallTime | Failed:
        """Ask for the wall clock."""
        return _either(await self.ask("clock", {}, timeout_s), WallTime)

    async def ask(
        self, op: Op, fields: Mapping[str, Any], timeout_s: float | None = None
    ) -> Success | Failed:
        """Send one command and wait for its answer, which may come after those of later ones.

        If the caller is cancelled, the driver is asked to cancel the command, where it can. A command that
        was successful all the same ends so, as a coroutine does that ends before it is cancelled.

        Raises:
            TimeoutError: it did not come in time; if it comes later it is ignored.
            DriverBroken: the driver has ended, or said something that is no valid message.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        if self._broken is not None:
            raise self._broken
        self._numbers += 1
        number = self._numbers
        answered: asyncio.Future[Success | Failed] = asyncio.get_running_loop().create_future()
        self._asked[number], self._waiting[number] = op, answered
        process.stdin.write(msgspec.json.encode({"id": number, "op": op, **fields}) + b"\n")
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    with contextlib.suppress(
                        ConnectionError
                    ):  # it has ended, and the listener is about to say so
                        await process.stdin.drain()
                    return await asyncio.shield(answered)
            except asyncio.CancelledError:  # of the caller: a time-out is no longer one here
                if not self._cancels or process.stdin.is_closing():
                    raise
                await self.ask("cancel", {"command": number}, timeout_s)
                async with asyncio.timeout(timeout_s):
                    answer = await asyncio.shield(answered)
                if isinstance(answer, Failed):
                    raise
                return answer
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> bool:
        """End its input and wait for its end; one that stays is killed. Whether it went by itself."""
        process = self._process
        if process is None:
            return True
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await process.wait()
            by_itself = True
        except TimeoutError:
            by_itself = False
        self.kill()
        await process.wait()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        return by_itself

    def kill(self) -> None:
        """End it at once, with whatever it started if it belongs to no client; what is gone is no error."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._own_group:
                os.killpg(self._process.pid, signal.SIGKILL)
            elif self._process.returncode is None:
                self._process.kill()
        if self._run_id is not None:
            kill_all(self._run_id)

    async def _ready(self, op: Op, fields: Mapping[str, Any]) -> Success | Failed:
        try:
            return await self.ask(op, fields, READY_TIMEOUT_S)
        except TimeoutError as error:
            raise broken(
                self.name,
                f"no answer to {op} within {READY_TIMEOUT_S:g} s",
                None,
                "an answer on stdout, flushed, as one line",
            ) from error

    async def _listen(self) -> None:
        """Hand each answer to whoever waits for it; whatever goes wrong, tell all of them."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        try:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError as error:
                    limit = f"lines of at most {LINE_BYTES_MAX} bytes"
                    raise broken(self.name, "a line that is too long", None, limit) from error
                if not line:
                    code = await process.wait()
                    raise broken(
                        self.name,
                        f"the driver ended by itself (exit code {code})",
                        None,
                        "answers until its input ends",
                    )
                heard = read_line(self.name, line, self._asked)
                if isinstance(heard, Answer):
                    self._settle(heard)
                elif heard is not None:
                    self._on_lost(heard.lease)
        except DriverBroken as error:
            self._broken = error
            if process.returncode is None:
                process.kill()  # the last word in the log is what went wrong, not what it says to that
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)

    def _settle(self, answer: Answer) -> None:
        del self._asked[answer.id]
        future = self._waiting.get(answer.id)
        if future is not None and not future.done():
            future.set_result(answer.what)


def _either(answer: Success | Failed, kind: type[A]) -> A | Failed:
    return answer if isinstance(answer, Failed) else _as(answer, kind)


def _as(answer: Success | Failed, kind: type[A]) -> A:
    assert isinstance(answer, kind)
    return answer
