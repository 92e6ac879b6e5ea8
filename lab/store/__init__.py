"""The resource that the lock protects: one Redis that serialises and numbers the writes.

The rules are one Lua script beside this file, which Redis runs atomically; no fault hits the store itself,
only the links to it.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from types import TracebackType
from typing import Final

import msgspec

from lab.addresses import Address
from lab.channel import Channel, NodeError, Reply

NAME: Final = "store"
"""The client name of connections to the store, and the store's name in errors."""


class StoreError(Exception):
    """The store did not answer: whether the operation had an effect is not known."""


class ReadRejected(Exception):
    """The store rejected a read: its fence is too old, or missing."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store holds: a version (0 before the first write) and the value written with it."""

    version: int
    value: str | None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Whether a write was accepted, the version now current, and why it was rejected."""

    accepted: bool
    version: int
    reason: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One accepted write in the store's log."""

    version: int
    value: str
    grant_id: str
    fence: int | None


@dataclass(frozen=True, slots=True)
class Execution:
    """A write or announcement that the store executed.

    `at_us` is its own wall clock in microseconds, rounded down. For a write, `whose` is the grant id and
    `version` its number, 0 if it was rejected; for an announcement, `whose` is the token.
    """

    at_us: int
    verb: str
    whose: str
    value: str
    version: int


@functools.cache
def store_script() -> str:
    """Return the rules, in Lua."""
    return resources.files("lab.store").joinpath("store.lua").read_text(encoding="utf-8")


class StoreClient:
    """A connection to the store; use it with ``async with``.

    Args:
        host: where the store (or a proxy before it) listens.
        port: its TCP port.
        checks_fences: whether the store rejects a write whose fence is lower than one it has seen.
        fences_reads: whether it does the same with reads, and remembers their fences.
        timeout_s: how long an answer may take, in seconds; None waits for ever.
        channel: the class of the connection.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        checks_fences: bool,
        fences_reads: bool = False,
        timeout_s: float | None,
        channel: Callable[..., Channel] = Channel,
    ) -> None:
        self._timeout_s = timeout_s
        self._channel = channel(
            Address(NAME, host, port), connect_timeout_s=timeout_s, stale_after_s=math.inf, client_name=NAME
        )
        self._script = store_script()
        self._checks = "1" if checks_fences else "0"
        self._checks_reads = "1" if fences_reads else "0"

    async def __aenter__(self) -> StoreClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def connect(self) -> None:
        """Make the connection now. Raises ``StoreError``."""
        try:
            await self._channel.connect()
        except NodeError as error:
            raise StoreError(f"the store does not answer: {error}") from error

    async def read(self, key: str, *, fence: int | None = None) -> Stored:
        """Return the resource's version and value.

        Raises:
            StoreError: no answer.
            ReadRejected: reads are fenced, and ``fence`` is missing or lower than one the store has seen.
        """
        shown = "" if fence is None else str(fence)
        read, version, value, _ = await self._run(key, "read", shown, self._checks_reads)
        if not read:
            raise ReadRejected(value.decode())
        return Stored(int(version), value.decode() if version else None)

    async def announce(self, key: str, token: str) -> None:
        """Make ``token`` the one with which writes are accepted from now on. Raises ``StoreError``."""
        await self._run(key, "announce", token)

    async def write(
        self,
        key: str,
        value: str,
        *,
        grant_id: str,
        fence: int | None,
        version_read: int | None,
        token: str | None = None,
    ) -> WriteResult:
        """Write ``value``, based on the version that was read.

        With ``token`` the store checks tokens: it rejects the write unless ``token`` is still the one last
        announced. Raises ``StoreError``.
        """
        accepted, version, reason, _ = await self._run(
            key,
            "write",
            value,
            grant_id,
            "" if fence is None else str(fence),
            "" if version_read is None else str(version_read),
            self._checks,
            token or "",
        )
        return WriteResult(bool(accepted), int(version), reason.decode())

    async def log(self, key: str) -> list[LogEntry]:
        """Return every accepted write, oldest first. Raises ``StoreError``."""
        lines = await self._ask("LRANGE", _log_key(key), 0, -1)
        rows = [msgspec.json.decode(line, type=tuple[int, str, str, str, str]) for line in lines]
        return [
            LogEntry(version, value, grant, int(fence) if fence else None)
            for version, value, grant, fence, _ in rows
        ]

    async def executions(self, key: str) -> list[Execution]:
        """Return every write and announcement, rejected writes too, oldest first. Raises ``StoreError``."""
        lines = await self._ask("LRANGE", _executed_key(key), 0, -1)
        rows = [msgspec.json.decode(line, type=tuple[str, str, str, str, str, int]) for line in lines]
        return [
            Execution(int(seconds) * 1_000_000 + int(micros), verb, whose, value, version)
            for seconds, micros, verb, whose, value, version in rows
        ]

    async def _run(self, key: str, *arguments: str) -> tuple[int, int, bytes, bytes]:
        answer = await self._ask(
            "EVAL", self._script, 3, f"resource:{key}", _log_key(key), _executed_key(key), *arguments
        )
        accepted, version, text, highest = answer
        return accepted, version, text, highest

    async def _ask(self, *command: str | int) -> Reply:
        try:
            if self._timeout_s is None:
                return await self._channel.call(*command)
            async with asyncio.timeout(self._timeout_s):
                return await self._channel.call(*command)
        except NodeError as error:
            raise StoreError(str(error)) from error
        except TimeoutError as error:
            await self._channel.close()  # the next command must not wait behind this one
            raise StoreError(f"{NAME}: no answer within {self._timeout_s:g} s") from error


def _log_key(key: str) -> str:
    return f"log:{key}"


def _executed_key(key: str) -> str:
    return f"executed:{key}"
