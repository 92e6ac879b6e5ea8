"""Record what an application does with its lock, for ``lab check`` to judge; standard library only.

    recorder = Recorder("/var/log/locks", name="billing", clock_error_ms=20)

    with recorder.acquire("invoice-7", ttl_ms=10_000) as call:     # before the lock is asked
        grant = call.ok(fence=lock.fence) if lock.acquire() else call.fail()
    if grant is not None:
        with grant.write(version_read=3) as call:
            call.ok(version=store.write(...))
        with grant.release() as call:
            lock.release()
            call.ok()

A block that ends without ``ok`` or ``fail``, or by an exception, is recorded as ``info``: nobody knows what
it did. The exception goes on. Nothing here blocks or raises: an event goes into a bounded queue, and a thread
of its own writes. What does not fit is counted, and its place is recorded as a gap.

Every process writes a file of its own, also one that is forked. Each line is handed to the system as a whole,
in the order of the stamps, so a file that ends early (``kill -9``) misses nothing before its last line.
docs/recording.md describes the format, and how files of several hosts are judged together.
"""

from __future__ import annotations

import atexit
import hashlib
import itertools
import json
import os
import queue
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

_NS_PER_MS: Final = 1_000_000
_NUMBER_MAX: Final = 1 << 58
_TEXT_MAX: Final = 1000
_MARK_S: Final = 1.0
"""How often the clocks are compared, and that a process lives is recorded."""
_LINGER_S: Final = 0.01
"""For so long events are collected before they are written: a system call for each costs more."""
_STALL_NS: Final = 10**17
"""Stalls are not recorded: no verdict may depend on how long a process stood still."""
_now_ns: Final[Callable[[], int]] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")  # it goes on while the host is suspended
    else time.monotonic_ns
)
_CLOCK: Final = iter(_now_ns, None)

_Fields = dict[str, Any]
_Entry = tuple[int, tuple[str, str, str, _Fields]]
"""A stamp, and process, type, f and other fields of an event."""


class Recorder:
    """Writes the file of this process.

    Args:
        directory: where files are made, and which is made if it is not there.
        name: what this program is called in verdicts; the name of its file by default.
        clock_error_ms: how far the wall clock of this host may be off at most while it records (for chrony:
            ``chronyc tracking``). Without it nothing is concluded across hosts unless ``lab check`` is given
            ``--clock-error-ms``.
        store_fences: whether the store that is written to refuses a fence smaller than one it has seen.
        queue_max: events that may wait to be written; those beyond are lost, and noted as a gap.
        bytes_max: when the file has this size, recording ends.

    Raises:
        ValueError: a bound that is negative, or more than 1e9 ms.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        name: str | None = None,
        clock_error_ms: float | None = None,
        store_fences: bool = False,
        queue_max: int = 10_000,
        bytes_max: int = 1 << 30,
    ) -> None:
        if clock_error_ms is not None and not 0 <= clock_error_ms <= 1e9:
            raise ValueError(f"saw {clock_error_ms} as clock_error_ms, expected 0 to 1e9 milliseconds")
        self._directory = os.path.abspath(directory)  # noqa: PTH100 - importing pathlib takes as long as this file
        self._name = _safe(name or os.path.basename(sys.argv[0] or "python"))  # noqa: PTH119
        self._clock_error_ns = None if clock_error_ms is None else round(clock_error_ms * _NS_PER_MS)
        self._store_fences = bool(store_fences)
        self._queue_max, self._bytes_max = queue_max, bytes_max
        self.lost = 0
        """How many events were not recorded."""
        self.problem: str | None = None
        """Why recording ended early; None while it goes on."""
        self._begin(None)
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _in_child(itself()))
        atexit.register(_at_exit, itself)

    def _begin(self, parent: str | None) -> None:
        self.client = f"{self._name}@{_safe(os.uname().nodename)}-{os.getpid()}-{os.urandom(3).hex()}"
        """This process in verdicts; its file is called after it."""
        self._parent = parent
        self._queue: deque[_Entry] = deque()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._lock = threading.RLock()  # a signal handler may record while its thread does
        self._awake = self._closing = False
        self._writer: threading.Thread | None = None
        self._first, self._start = iter((True,)), iter((True,))  # once each
        self._numbers, self._grants = itertools.count(1), itertools.count(1)
        self._idle: list[int] = []
        self._gap: tuple[int, int] | None = None
        self._file: int | None = None

    def acquire(self, key: str, *, ttl_ms: float | None = None) -> AcquireCall:
        """Record that the lock of ``key`` is asked for now.

        ``ttl_ms`` is the time after which it may end although nobody released it: its lease, or the timeout
        of a session. None only if nothing but a release ends it.
        """
        grant = Grant(self, f"{self.client}.{next(self._grants)}", key)
        return AcquireCall(self, grant, "acquire", key=key, ttl_ms=ttl_ms, grant_id=grant.id)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is queued and the end of the file; nothing is recorded from here on.

        It is called when the interpreter ends. It waits for the writer, for ``timeout_s`` at most.
        """
        with self._lock:  # what is being queued is written before
            self._closing = True
        if self._writer is not None:
            self._wake.put(None)
            self._writer.join(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- in the threads of the application ----------------------------------------------------------------

    def _invoked(self, f: str, fields: _Fields) -> int:
        """Record an invocation; returns the number of the process that it got, 0 if it was not recorded."""
        try:
            number = self._idle.pop()
        except IndexError:
            number = next(self._numbers)
        if self._put(number, "invoke", f, fields):
            return number
        self._idle.append(number)
        return 0

    def _completed(self, number: int, kind: str, f: str, fields: _Fields) -> None:
        """Record a completion; the process goes on unless its outcome is not known, or not recorded."""
        if number and self._put(number, kind, f, fields) and kind != "info":
            self._idle.append(number)

    def _put(self, number: int, kind: str, f: str, fields: _Fields) -> bool:
        """Queue an event of this moment; whether there was room."""
        try:
            event = (f"{self.client}/{number}", kind, f, _checked(fields))
            with self._lock:
                if self._closing or self.problem is not None:
                    self.lost += 1
                    return False
                if len(self._queue) >= self._queue_max:
                    self._lose()
                    return False
                if self._writer is None:
                    self._start_writer()
                self._append(event)
                if not self._awake:
                    self._awake = True
                    self._wake.put(None)
                return True
        except Exception:  # noqa: BLE001 - a value that cannot be written, no more threads: never the caller's
            with self._lock:
                self._lose()
            return False

    def _start_writer(self) -> None:
        """Compare the clocks, as every file begins, and start the writer: each once.

        A signal handler may come here before its thread goes on: it takes from the same iterators, whose
        items are taken in one call of C.
        """
        clocks = ("lab", "info", "clock", _clocks())
        self._queue.extend(zip(_CLOCK, itertools.compress((clocks,), self._first), strict=False))
        if next(self._start, False):
            try:
                writer = threading.Thread(target=self._run, name="lab.record", daemon=True)
                writer.start()
            except BaseException:
                self._start = iter((True,))
                raise
            self._writer = writer

    def _lose(self) -> None:
        self.lost += 1
        first, count = self._gap or (_now_ns(), 0)
        self._gap = (first, count + 1)

    def _append(self, event: tuple[str, str, str, _Fields]) -> None:
        """Stamp an event and queue it, behind the gap before it.

        Stamp and place in the queue are taken in one call of C, so that not even a signal comes between. A
        gap reaches up to here: a signal handler may have lost something while its end was taken.
        """
        if self._gap is not None:
            (first, count), self._gap = self._gap, None
            fields = {"start_ns": first, "duration_ns": _now_ns() - first, "value": count}
            self._queue.append((first, ("lab", "info", "gap", fields)))
        self._queue.extend(zip(_CLOCK, (event,), strict=False))

    # -- in the writer ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            _at_end_of_child(self)
            self._write_all()
        except Exception as error:  # noqa: BLE001 - a full disk, no permission: never the application's
            self.problem = f"{type(error).__name__}: {error}"
            self.lost += len(self._queue)
            self._queue.clear()
            try:
                sys.stderr.write(f"lab.record: recording ended: {self.problem}\n")
            except Exception:  # noqa: BLE001
                return

    def _write_all(self) -> None:
        os.makedirs(self._directory, exist_ok=True)  # noqa: PTH103
        name = os.path.join(self._directory, f"{self.client}.jsonl")  # noqa: PTH118
        begun = f"{name}.begun"
        self._file = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            header = _line(self._header())
            os.write(self._file, header)
            os.rename(begun, name)  # noqa: PTH104 - no file has its name before it has a header
            self._write_to(self._file, header)
        finally:
            file, self._file = self._file, None
            os.close(file)

    def _write_to(self, file: int, header: bytes) -> None:
        digest, size, events, last_ns = hashlib.sha256(header), len(header), 0, 0

        def write(lines: list[bytes]) -> None:
            nonlocal size
            data = b"".join(lines)
            size += len(data)
            if size > self._bytes_max:
                raise OSError(f"the file would be longer than {self._bytes_max} bytes")
            digest.update(data)
            while data:
                data = data[os.write(file, data) :]

        marked_s = time.monotonic()
        while True:
            closing = self._closing
            if closing or time.monotonic() - marked_s >= _MARK_S:
                marked_s = time.monotonic()
                with self._lock:
                    self._append(("lab", "info", "clock", _clocks()))
            self._awake = False
            lines = []
            for _ in range(len(self._queue)):
                stamp, (process, kind, f, fields) = self._queue.popleft()
                # A gap may be behind an event that a signal handler recorded before it was queued.
                last_ns = max(last_ns, stamp) if f == "gap" else stamp
                lines.append(_line({"time_ns": last_ns, "process": process, "type": kind, "f": f, **fields}))
            events += len(lines)
            write(lines)
            if closing:
                break
            try:
                self._wake.get(timeout=max(0.0, marked_s + _MARK_S - time.monotonic()))
                if not self._closing:
                    time.sleep(_LINGER_S)
            except queue.Empty:
                pass
        write([_line({"end": True, "events": events, "digest": f"sha256:{digest.hexdigest()}"})])

    def _header(self) -> _Fields:
        recorder: _Fields = {"client": self.client, "clock": _clock_name(self.client)}
        if self._clock_error_ns is not None:
            recorder["clock_error_ns"] = self._clock_error_ns
        if self._parent is not None:
            recorder["parent"] = self._parent
        params = {"model": "lease", "stall_ns": _STALL_NS, "store_fences": self._store_fences}
        return {"history": 1, "params": params, "recorder": recorder}


class Call:
    """An operation that was called; its outcome is recorded once, by `ok`, `fail` or `info`."""

    __slots__ = ("_client", "_f", "_fields", "_number", "_recorder")

    def __init__(self, recorder: Recorder, f: str, **fields: Any) -> None:
        self._recorder, self._client, self._f = recorder, recorder.client, f
        self._fields = {name: fields.get(name) for name in ("key", "grant_id")}
        self._number: int | None = recorder._invoked(f, fields)

    def _end(self, kind: str, **fields: Any) -> None:
        number, self._number = self._number, None
        if number is not None and self._client == self._recorder.client:  # not in a process forked meanwhile
            self._recorder._completed(number, kind, self._f, self._fields | fields)

    def fail(self, error: str | None = None) -> None:
        """It certainly had no effect: refused, say. A time-out or a lost connection is `info`."""
        self._end("fail", error=error)

    def info(self, error: str | None = None) -> None:
        """Nobody knows whether it had an effect."""
        self._end("info", error=error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.info("no outcome" if kind is None else kind.__name__)


class AcquireCall(Call):
    """The lock was asked for."""

    __slots__ = ("_grant",)

    def __init__(self, recorder: Recorder, grant: Grant, f: str, **fields: Any) -> None:
        super().__init__(recorder, f, **fields)
        self._grant = grant

    def ok(
        self, *, fence: int | None = None, token: str | None = None, claimed_ms: float | None = None
    ) -> Grant:
        """It was granted.

        Args:
            fence: the fencing token, if the lock hands out any.
            token: what the lock wrote into its key, if it says so.
            claimed_ms: for how long from now the lock says that it is valid, if it says so.
        """
        self._grant.fence = fence
        self._end("ok", fence=fence, token=token, claimed_ms=claimed_ms)
        return self._grant


class OtherCall(Call):
    """An extension or a release was called."""

    __slots__ = ()

    def ok(self, *, claimed_ms: float | None = None) -> None:
        """It succeeded; `claimed_ms` is for how long the lock now says that it is valid."""
        self._end("ok", claimed_ms=claimed_ms)


class WriteCall(Call):
    """A write to what the lock protects was called."""

    __slots__ = ()

    def ok(self, *, version: int | None = None) -> None:
        """The store accepted it; ``version`` is the number that the store gave it, which grows."""
        self._end("ok", version_written=version)


class Grant:
    """A grant of the lock: what is done under it is recorded by its methods."""

    __slots__ = ("_recorder", "fence", "id", "key")

    def __init__(self, recorder: Recorder, id: str, key: str) -> None:
        self._recorder = recorder
        self.id = id
        self.key = key
        self.fence: int | None = None

    def extend(self, *, ttl_ms: float | None = None) -> OtherCall:
        """Record that its lease is extended now, for ``ttl_ms`` (or the TTL that it was acquired with)."""
        return OtherCall(self._recorder, "extend", key=self.key, grant_id=self.id, ttl_ms=ttl_ms)

    def release(self) -> OtherCall:
        """Record that it is released now."""
        return OtherCall(self._recorder, "release", key=self.key, grant_id=self.id)

    def write(
        self, resource: str | None = None, *, version_read: int | None = None, fence: int | None = None
    ) -> WriteCall:
        """Record that what the lock protects is written now.

        Args:
            resource: which of the things that this lock protects, if it protects several.
            version_read: the version that the write is based on, if it was read before.
            fence: the fencing token that is sent with it; that of the grant by default.
        """
        fence = self.fence if fence is None else fence
        key = self.key if resource is None else f"{self.key}:{resource}"
        fields = {"key": key, "grant_id": self.id, "version_read": version_read, "fence": fence}
        return WriteCall(self._recorder, "write", **fields)


def _in_child(recorder: Recorder | None) -> None:
    """After a fork: what the parent has queued is the parent's, and the child has a file of its own."""
    if recorder is not None:
        if recorder._file is not None:
            os.close(recorder._file)
        recorder._begin(recorder.client)


def _at_exit(recorder: weakref.ref[Recorder]) -> None:
    alive = recorder()
    if alive is not None:
        alive.close()


def _at_end_of_child(recorder: Recorder) -> None:
    """Processes of multiprocessing end without the interpreter's own way out."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(recorder, _at_exit, args=(weakref.ref(recorder),), exitpriority=0)


def _checked(fields: _Fields) -> _Fields:
    """The fields as they are written; raises whatever a value raises that is none of its kind."""
    checked: _Fields = {}
    for name, value in fields.items():
        if value is None:
            continue
        if name in ("key", "token", "error", "grant_id"):
            checked[name] = _text(str(value))
            continue
        if name.endswith("_ms"):
            name, value = f"{name[:-3]}_ns", round(value * _NS_PER_MS)
        if not -_NUMBER_MAX < (number := int(value)) < _NUMBER_MAX:
            raise OverflowError(name)
        checked[name] = number
    return checked


def _text(text: str) -> str:
    """The text as UTF-8 has it, and not too long; what differs stays different, as keys must."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > _TEXT_MAX:
        return f"{data[: _TEXT_MAX // 10].decode(errors='ignore')}… sha256:{hashlib.sha256(data).hexdigest()}"
    return data.decode()


def _line(form: _Fields) -> bytes:
    return json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _safe(name: str) -> str:
    """A name without what would end it, in a file's name or a process's."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[:100]


def _clocks() -> _Fields:
    """By how much the wall clock is ahead of the monotonic one, and how long it took to find out."""
    tries = []
    for _ in range(3):
        before = _now_ns()
        wall = time.time_ns()
        after = _now_ns()
        tries.append((after - before, wall - (before + after) // 2))
    took, ahead = min(tries)
    return {"value": ahead, "duration_ns": took}


def _clock_name(otherwise: str) -> str:
    """Which monotonic clock this is: processes of one host share it until the host starts again."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            boot = file.read().strip()
        return f"{boot}:{os.stat('/proc/self/ns/time').st_ino}"  # noqa: PTH116
    except OSError:
        return otherwise
