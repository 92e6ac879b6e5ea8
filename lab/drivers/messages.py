"""What a driver may say, and the error for what it may not: who said it, the line, what was expected."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from lab.errors import LabError

PROTOCOL: Final = 1
CAPABILITIES: Final = (
    *("extend", "validity", "held", "fence", "lost", "clock", "single-attempt", "renews"),
    *("cancel", "tasks", "one-object", "read-write"),
)
ONE_OBJECT: Final = "one_object"
"""The option of a driver that can ``one-object``."""
LINE_BYTES_MAX: Final = 1 << 20
FENCE_MAX: Final = 2**63 - 1
PERMITS_MAX: Final = 1 << 20
TIME_MS_MAX: Final = 9e12
"""Longer times, in milliseconds, do not fit into 64 bits of nanoseconds."""
SHOWN_MAX: Final = 200
"""How many characters of a line an error shows."""
HINT: Final = "stdout is for answers only, logs belong on stderr; the protocol: lab/drivers/PROTOCOL.md"

Op = Literal["hello", "open", "acquire", "extend", "release", "held", "clock", "cancel", "close"]
Kind = Literal["refused", "timeout", "error"]


class DriverBroken(LabError):
    """A driver that does not keep to the protocol, or has ended. Nothing it says counts any more."""


class Hello(msgspec.Struct, frozen=True):
    """Who the driver is: its library, that library's version, and what both can do."""

    lib: str
    version: str
    caps: tuple[str, ...]
    node_key: str = "{key}"
    ttl_step_ms: int = 1
    key: str = "{}"
    permits: int = 1

    def can(self, capability: str) -> bool:
        """Whether it said so."""
        return capability in self.caps


class Granted(msgspec.Struct, frozen=True):
    """A lease, by the driver's name for it, and what the library said about it."""

    lease: str
    token: str | None = None
    claimed_ms: float | None = None
    fence: int | None = None


class Extended(msgspec.Struct, frozen=True):
    """An extension that the library calls a success."""

    claimed_ms: float | None = None


class Held(msgspec.Struct, frozen=True):
    """What the library believes; None: it does not say."""

    held: bool | None
    claimed_ms: float | None = None


class WallTime(msgspec.Struct, frozen=True):
    """The driver's wall clock, in ms of Unix time."""

    wall_ms: float


class Done(msgspec.Struct, frozen=True):
    """That it is done, and nothing more."""


class Failed(msgspec.Struct, frozen=True):
    """Why a command did not succeed. ``silent``: no node said no, they only kept silent."""

    kind: Kind
    error: str
    message: str
    silent: bool = False

    @property
    def words(self) -> str:
        """The error as one phrase."""
        words = f"{self.error}: {self.message}" if self.message else self.error
        return words if len(words) <= SHOWN_MAX else words[: SHOWN_MAX - 1] + "…"


Success = Hello | Granted | Extended | Held | WallTime | Done
_ANSWERS: Final[dict[str, type[Success]]] = {
    "hello": Hello,
    "open": Done,
    "acquire": Granted,
    "extend": Extended,
    "release": Done,
    "held": Held,
    "clock": WallTime,
    "cancel": Done,
    "close": Done,
}
_EXAMPLES: Final = {
    "hello": '{"id":1,"ok":true,"lib":"redlock","version":"4.2.0","caps":["extend","validity"]}',
    "open": '{"id":1,"ok":true}',
    "acquire": '{"id":1,"ok":true,"lease":"h1","token":"…","claimed_ms":9898,"fence":null}',
    "extend": '{"id":1,"ok":true,"claimed_ms":9898}',
    "release": '{"id":1,"ok":true}',
    "held": '{"id":1,"ok":true,"held":true,"claimed_ms":null}',
    "clock": '{"id":1,"ok":true,"wall_ms":1700000000000.5}',
    "cancel": '{"id":1,"ok":true}',
    "close": '{"id":1,"ok":true}',
}
FAILED_EXAMPLE: Final = '{"id":1,"ok":false,"kind":"refused","error":"LockError","message":"…"}'


class Answer(msgspec.Struct, frozen=True):
    """One answer: to which command, and what."""

    id: int
    what: Success | Failed


class Lost(msgspec.Struct, frozen=True):
    """The event that the library told its user of a lost lease."""

    lease: str


def broken(driver: str, what: str, line: bytes | str | None, expected: str) -> DriverBroken:
    """The error for a driver (its command) that said something wrong."""
    text = line.decode(errors="replace") if isinstance(line, bytes) else line
    shown = None if text is None else text.rstrip("\n")[:SHOWN_MAX]
    seen = what if shown is None else f"{what}: {shown!r}"
    return DriverBroken(seen, where=f"driver {driver!r}", expected=expected, hint=HINT)


def read_line(driver: str, line: bytes, asked: dict[int, Op]) -> Answer | Lost | None:
    """One line of a driver: an answer to one of the commands that were ``asked``, an event, or None.

    None stands for events that nobody knows, which are ignored.

    Raises:
        DriverBroken: it is no valid message.
    """
    if not line.endswith(b"\n"):
        raise broken(driver, "the driver's output stopped in the middle of a line", line, "a whole line")
    try:
        message: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise broken(driver, f"a line that is no JSON ({error})", line, "one JSON object per line") from error
    if not isinstance(message, dict):
        raise broken(driver, "a line that is no JSON object", line, "an answer, such as " + _EXAMPLES["open"])
    if "event" in message:
        return _event(driver, message, line)
    number = message.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or number not in asked:
        seen = "an answer without an id" if number is None else f"an answer to {number!r}, which nobody asked"
        waiting = ", ".join(f"{i} ({op})" for i, op in asked.items()) or "nothing"
        raise broken(driver, seen, line, f"the id of a command; unanswered: {waiting}")
    return _answer(driver, message, line, asked[number])


def _event(driver: str, message: dict[str, Any], line: bytes) -> Lost | None:
    if message["event"] != "lost":
        return None
    if not isinstance(message.get("lease"), str):
        raise broken(driver, "a lost event without its lease", line, '{"event":"lost","lease":"h1"}')
    return Lost(message["lease"])


def _answer(driver: str, message: dict[str, Any], line: bytes, op: Op) -> Answer:
    ok = message.get("ok")
    if not isinstance(ok, bool):
        raise broken(driver, f"an answer to {op} without ok", line, f"{_EXAMPLES[op]} or {FAILED_EXAMPLE}")
    kind: type[Success | Failed] = _ANSWERS[op] if ok else Failed
    example = _EXAMPLES[op] if ok else FAILED_EXAMPLE
    try:
        what = msgspec.convert(message, kind)
        problem = _problem(what)
    except msgspec.ValidationError as error:
        problem = str(error)
    if problem:
        raise broken(driver, f"a wrong answer to {op} ({problem})", line, f"as in {example}")
    return Answer(message["id"], what)


def _problem(what: Success | Failed) -> str | None:
    """What no type says: the ranges of numbers, and what a key may look like."""
    match what:
        case Hello(node_key=key) if "{key}" not in key:
            return "`node_key` without {key} in it"
        case Hello(key=key) if key.count("{}") != 1:
            return "`key` without {} in it once"
        case Hello(ttl_step_ms=step) if not 1 <= step <= TIME_MS_MAX:
            return "`ttl_step_ms` below 1" if step < 1 else "`ttl_step_ms` is too large"
        case Hello(permits=permits) if not 1 <= permits <= PERMITS_MAX:
            return "`permits` below 1" if permits < 1 else "`permits` is too large"
        case Hello(permits=permits, caps=caps) if permits > 1 and "read-write" in caps:
            return "`permits` of a lock that readers share"
        case Hello(caps=caps) if unknown := [cap for cap in caps if cap not in CAPABILITIES]:
            return f"unknown capability {unknown[0]!r}; there are {', '.join(CAPABILITIES)}"
        case Granted(lease=""):
            return "`lease` is empty"
        case Granted(fence=int(fence)) if abs(fence) > FENCE_MAX:
            return "`fence` is too large"
        case Granted(claimed_ms=float(claim)) | Extended(claimed_ms=float(claim)) if abs(claim) > TIME_MS_MAX:
            return "`claimed_ms` is too large"
        case WallTime(wall_ms=wall) if abs(wall) > TIME_MS_MAX:
            return "`wall_ms` is too large"
    return None
