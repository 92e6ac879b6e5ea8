"""Virtual time for unmodified processes, seen from Python: who has arrived, who sleeps, what is due next.

The C side is in `vtime/`: a preload library, which turns each wait with a time-out into a deadline in a
shared page, and the conductor, which watches the processes and wakes them. `lab.tools` builds both.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lab.shims import preload as preloaded

PAGE_VARIABLE = "LOCK_LAB_VTIME"
"""Names the page that the processes and the conductor share."""

PROCESS_VARIABLE = "LOCK_LAB_VTIME_PROCESS"
"""The number that `VirtualTime.admit` gave for the process; its children inherit it."""

_JAVA_VARIABLE = "JDK_JAVA_OPTIONS"
_JAVA_WITHOUT_SAMPLING = "-XX:-UsePerfData"
"""A JVM samples itself twenty times a second, and writes that to a file; each time is a deadline."""

_OPENSSL_VARIABLE = "OPENSSL_ia32cap"
_OPENSSL_WITHOUT_TSC = "~0x10"
"""OpenSSL mixes the processor's cycle counter into its random numbers, unless it is said not to exist."""

NO_DEADLINE_NS = 2**63 - 1
"""Where a deadline would stand: no process waits for the time."""

_DUE_MAX = 4096
_WORD = 8
_NO_RANDOM_ADDRESSES = 0x0040000  # ADDR_NO_RANDOMIZE of <sys/personality.h>
_ASK_ONLY = 0xFFFFFFFF
_PR_GET_TID_ADDRESS = 40  # of <linux/prctl.h>
_STATES: Mapping[str, str] = MappingProxyType(
    {
        "?": "has not loaded the preload library: it is static, setuid, or has not been started",
        "+": "is about to make a child process, or its child has not come up",
        "E": "cannot be watched in /proc: too many files are open (ulimit -n shows the limit)",
        "D": "waits for a disk",
    }
)


def can_copy() -> bool:
    """Whether this kernel tells what a copy of a process must know; one may be built without that."""
    address = ctypes.c_void_p()
    asked = ctypes.CDLL(None).prctl(_PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0)
    return bool(asked == 0 and address.value)


class NotQuiet(Exception):
    """A process that did not come to rest.

    `number` is that of its group, `pid` its own or a child's (0: unknown); `sentence` says what it seems to
    do.
    """

    def __init__(self, number: int, pid: int, sentence: str) -> None:
        super().__init__(sentence)
        self.number = number
        self.pid = pid
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Due:
    """The next deadline, and the waits that have it: pairs of a process and a slot of its, for `wake`.

    The process is an admitted one or a child (`VirtualTime.group`). After `hold`, a deadline may lie in the
    past. The order of the pairs repeats: processes as they came, in each of them threads as they were made.
    """

    deadline_ns: int
    slots: tuple[tuple[int, int], ...]


class _Trouble(ctypes.Structure):
    """`struct trouble` of quiet.c."""

    _fields_ = (
        ("number", ctypes.c_int32),
        ("pid", ctypes.c_int32),
        ("tid", ctypes.c_int32),
        ("state", ctypes.c_char),
        ("clock_reads", ctypes.c_int64),
        ("timed_waits", ctypes.c_int64),
    )


class _Unseen(ctypes.Structure):
    """`struct unseen` of unseen.c."""

    _fields_ = (("pid", ctypes.c_int32), ("tid", ctypes.c_int32), ("call", ctypes.c_int32))


_HANDLE, _INT, _I64, _U64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_uint64
_I64_OUT, _I32_OUT = ctypes.POINTER(_I64), ctypes.POINTER(ctypes.c_int32)
_SIGNATURES: Mapping[str, tuple[type[ctypes._SimpleCData] | None, tuple[type, ...]]] = MappingProxyType(  # type: ignore[type-arg]
    {
        "vt_open": (_HANDLE, (ctypes.c_char_p, _I64, _I64)),
        "vt_close": (None, (_HANDLE,)),
        "vt_time_at": (_I64, ()),
        "vt_admit": (_INT, (_HANDLE, _U64)),
        "vt_arrived": (_INT, (_HANDLE, _INT)),
        "vt_set_wall": (None, (_HANDLE, _INT, _I64, _I64, _I64)),
        "vt_reseed": (None, (_HANDLE, _INT, _U64)),
        "vt_hold": (None, (_HANDLE, _INT, _INT)),
        "vt_touch": (None, (_HANDLE, _INT)),
        "vt_settle": (_INT, (_HANDLE, _I64, ctypes.POINTER(_Trouble), _I64_OUT)),
        "vt_unseen": (_INT, (_HANDLE, _INT, ctypes.POINTER(_Unseen))),
        "vt_due": (_INT, (_HANDLE, _I64_OUT, _I32_OUT, _INT)),
        "vt_next_deadline": (_I64, (_HANDLE,)),
        "vt_waiting": (_INT, (_HANDLE, _INT)),
        "vt_group": (_INT, (_HANDLE, _INT)),
        "vt_wake": (_INT, (_HANDLE, _INT, _INT)),
        "vt_retire": (None, (_HANDLE, _INT)),
        "vt_counters_at": (_I64, (_INT,)),
        "vt_stop_at_write": (None, (_HANDLE, _INT, _INT)),
        "vt_stopped": (_INT, (_HANDLE, _INT)),
        "vt_go": (None, (_HANDLE, _INT)),
        "vt_stand_still": (None, (_HANDLE, _INT)),
        "vt_stands": (_INT, (_HANDLE, _INT)),
        "vt_stand_no_more": (None, (_HANDLE, _INT, _INT)),
    }
)


class VirtualTime:
    """One virtual time, and the processes that live in it. To be used by one thread.

    A process is known by the number that `admit` gave; it and its children are a group, with one wall clock.
    """

    def __init__(self, page: Path, *, preload: Path, conductor: Path, now_ns: int, wall_ns: int) -> None:
        """Make the page, a new file. At the start CLOCK_MONOTONIC shows `now_ns`, CLOCK_REALTIME `wall_ns`.

        `page` is best on a file system in memory: no process then waits for a disk when it writes there.
        Raises OSError if the page cannot be made or a library cannot be loaded.
        """
        self.page = page
        self._preload = preload
        self._calls = ctypes.PyDLL(str(conductor))  # it keeps the lock: giving it up takes longer than a call
        self._settle = ctypes.CDLL(str(conductor)).vt_settle  # which may wait
        opens = ctypes.CDLL(str(conductor), use_errno=True).vt_open
        functions = {"vt_settle": self._settle, "vt_open": opens}
        for name, (result, arguments) in _SIGNATURES.items():
            function = functions.get(name) or getattr(self._calls, name)
            function.restype, function.argtypes = result, arguments
        handle = opens(os.fsencode(page), now_ns, wall_ns)
        if not handle:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(page))
        self._handle: ctypes.c_void_p | None = ctypes.c_void_p(handle)
        with page.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._words: memoryview[int] = memoryview(self._map).cast("q")
        """The page, as numbers: to look there takes a tenth of the time of a call."""
        self._now_at = int(self._calls.vt_time_at()) // _WORD
        self._first_counter, second = (int(self._calls.vt_counters_at(each)) // _WORD for each in (0, 1))
        self._words_per_block = second - self._first_counter
        self._trouble = _Trouble()
        self._next_ns, self._deadline_ns = _I64(), _I64()
        self._settled = ctypes.byref(self._trouble), ctypes.byref(self._next_ns)
        self._pairs = (ctypes.c_int32 * (2 * _DUE_MAX))()

    @property
    def now_ns(self) -> int:
        """What CLOCK_MONOTONIC shows in every process."""
        return self._words[self._now_at]

    def advance(self, now_ns: int) -> None:
        """Set the time. Raises ValueError if that would be a step back."""
        words, at = self._words, self._now_at
        if now_ns < words[at]:
            raise ValueError(f"virtual time never goes back, from {words[at]} to {now_ns} ns")
        words[at] = now_ns

    def admit(self, seed: int) -> int:
        """A number for a process that is about to be started; `seed` (64 bits) determines its entropy.

        Until it has arrived, `settle` waits for it. Raises RuntimeError if all numbers are taken.
        """
        number = int(self._calls.vt_admit(self._handle, seed % 2**64))
        if number < 0:
            raise RuntimeError("all process numbers are taken: retire processes that have ended")
        return number

    def environment(self, number: int) -> dict[str, str]:
        """The variables that put a process, and its children, under this time."""
        return {
            "LD_PRELOAD": preloaded(self._preload),
            PAGE_VARIABLE: str(self.page),
            PROCESS_VARIABLE: str(number),
            _OPENSSL_VARIABLE: _OPENSSL_WITHOUT_TSC,
            _JAVA_VARIABLE: f"{os.environ.get(_JAVA_VARIABLE, '')} {_JAVA_WITHOUT_SAMPLING}".strip(),
        }

    def arrived(self, number: int) -> int | None:
        """The pid of the process that took the number; None: the library was not loaded (yet)."""
        return int(self._calls.vt_arrived(self._handle, number)) or None

    def set_wall(self, number: int, offset_ns: int, rate_ppb: int, anchor_ns: int) -> None:
        """Shift the group's wall clock: by `offset_ns`, and `rate_ppb` · (now - anchor_ns) / 1e9."""
        self._calls.vt_set_wall(self._handle, number, offset_ns, rate_ppb, anchor_ns)

    def reseed(self, number: int, seed: int) -> None:
        """Start the process's stream of entropy anew, from `seed` (64 bits)."""
        self._calls.vt_reseed(self._handle, number, seed % 2**64)

    def hold(self, number: int, held: bool) -> None:
        """Pause the group: `due` does not look at its deadlines. Or let it go on."""
        self._calls.vt_hold(self._handle, number, int(held))

    def touch(self, number: int) -> None:
        """Say that the process is about to get something to do: the next `settle` waits for its group."""
        self._calls.vt_touch(self._handle, number)

    def settle(self, limit_s: float = 5.0) -> bool:
        """Wait until every touched process, with its children, sleeps. Raises NotQuiet after `limit_s`.

        Returns whether one of them, children aside, has ended. `settled_until_ns` is then the next deadline.
        """
        ended = self._settle(self._handle, int(limit_s * 1e9), *self._settled)
        if ended < 0:
            trouble = self._trouble
            raise NotQuiet(trouble.number, trouble.pid, _sentence(trouble, limit_s))
        return bool(ended)

    @property
    def settled_until_ns(self) -> int:
        """What `next_deadline_ns` was when `settle` returned."""
        return self._next_ns.value

    def next_deadline_ns(self) -> int:
        """The next deadline of all processes that are not held; `NO_DEADLINE_NS` if there is none."""
        return int(self._calls.vt_next_deadline(self._handle))

    def unseen_wait(self, number: int) -> str | None:
        """A wait with a time-out that the library does not see, of a thread of a group that is quiet.

        It passes in real time: the program asks the kernel past libc, or libc itself waits (for a name
        server, say). A sentence; None if there is none. Takes some microseconds per thread.
        """
        found = _Unseen()
        if not self._calls.vt_unseen(self._handle, number, ctypes.byref(found)):
            return None
        return (
            f"{_named(found.pid)} waits for real time: thread {found.tid} sleeps in system call {found.call}"
            " with a time-out, which the preload library has not seen"
        )

    def due(self) -> Due | None:
        """The next deadline, and who waits for it; None: no process waits for the time."""
        count = self._calls.vt_due(self._handle, ctypes.byref(self._deadline_ns), self._pairs, _DUE_MAX)
        if count == 0:
            return None
        flat = self._pairs[: 2 * count]
        return Due(self._deadline_ns.value, tuple(zip(flat[::2], flat[1::2], strict=True)))

    def waiting(self, number: int) -> int:
        """How many threads of the group wait for a time."""
        return int(self._calls.vt_waiting(self._handle, number))

    def group(self, number: int) -> int:
        """The number that `admit` gave: that of the process, or of the one it descends from.

        Children have numbers of their own, which show in `Due.slots`. -1: it has ended.
        """
        return int(self._calls.vt_group(self._handle, number))

    def wake(self, number: int, slot: int) -> bool:
        """Tell a wait that its deadline has come. False: it waits no longer, or not until now."""
        return bool(self._calls.vt_wake(self._handle, number, slot))

    def written(self, number: int) -> int:
        """How many bytes the group has written to TCP sockets; loopback may show them a moment later.

        What is written to pipes and Unix sockets can be read at once, and is not counted.
        """
        return self._words[self._first_counter + number * self._words_per_block]

    def halves_ended(self, number: int) -> int:
        """How often the group has ended its half of a connection, to wait for the end of the other."""
        return self._words[self._first_counter + number * self._words_per_block + 1]

    def stop_at_write(self, number: int, nth: int) -> None:
        """Stop the group's next thread that is about to make its `nth` write to a TCP socket from now on.

        1 is the next write. The thread waits before it, as does each that writes after it. 0: do not stop.
        """
        self._calls.vt_stop_at_write(self._handle, number, nth)

    def stopped(self, number: int) -> bool:
        """Whether a thread of the group stands before the write named by `stop_at_write`."""
        return bool(self._calls.vt_stopped(self._handle, number))

    def go(self, number: int) -> None:
        """Let the group's stopped threads write (touches), and forget a stop that was not reached."""
        self._calls.vt_go(self._handle, number)

    def stand_still(self, number: int) -> None:
        """Let a process that is about to be started stand still before it makes its first thread."""
        self._calls.vt_stand_still(self._handle, number)

    def stands(self, number: int) -> bool:
        """Whether it stands there."""
        return bool(self._calls.vt_stands(self._handle, number))

    def stand_no_more(self, number: int) -> None:
        """Let one that stands still go on (touches)."""
        self._calls.vt_stand_no_more(self._handle, number, -1)

    def copy(self, number: int, copy: int) -> None:
        """Let one that stands still make a copy of itself, which goes on (touches).

        The copy is the process that was admitted as ``copy``, in a session of its own: a child of this one.
        """
        self._calls.vt_stand_no_more(self._handle, number, copy)

    def retire(self, number: int) -> None:
        """The process was ended and reaped, with all its children: forget them."""
        self._calls.vt_retire(self._handle, number)

    def close(self) -> None:
        """Forget all processes and remove the page. Processes that still run keep what they have mapped."""
        if self._handle:
            self._words.release()
            self._map.close()
            self._calls.vt_close(self._handle)
            self._handle = None
            with contextlib.suppress(FileNotFoundError):
                self.page.unlink()


@contextlib.contextmanager
def fixed_addresses() -> Iterator[None]:
    """Processes started meanwhile by this thread have their memory at the same addresses each time.

    Addresses get into hashes, into the order of sets, and into OpenSSL's random numbers. Where the system
    does not allow it (a container's seccomp profile), nothing changes.
    """
    personality = ctypes.CDLL(None).personality
    personality.argtypes = (ctypes.c_ulong,)
    before = personality(_ASK_ONLY)
    if before != -1:
        personality(before | _NO_RANDOM_ADDRESSES)
    try:
        yield
    finally:
        if before != -1:
            personality(before)


def _named(pid: int) -> str:
    try:
        return f"process {pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return f"process {pid}"


def _sentence(trouble: _Trouble, limit_s: float) -> str:
    state = trouble.state.decode()
    who = _named(trouble.pid) if trouble.pid else f"process number {trouble.number}"
    does = _STATES.get(state, "runs on")
    if state == "R" and trouble.tid not in (0, trouble.pid):
        does += f" in thread {trouble.tid}"
    if state == "R":
        reads, waits = trouble.clock_reads, trouble.timed_waits
        does += f" (it read the clock {reads} times and began {waits} waits with a time-out)"
    return f"{who} {does}; not quiet within {limit_s:g} s"
