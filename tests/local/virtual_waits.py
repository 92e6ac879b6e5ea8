"""A program that waits in every way there is, each time for 7 seconds; run by test_virtual_time.py.

It prints one JSON line per way: its name, what the call said, and how long it took by the monotonic clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

WAIT_S = 7
LIBC = ctypes.CDLL(None, use_errno=True)
Wait = Callable[[], object]
WAYS: dict[str, Wait] = {}


class Timespec(ctypes.Structure):
    _fields_ = (("s", ctypes.c_int64), ("ns", ctypes.c_int64))


def way(function: Wait) -> Wait:
    WAYS[function.__name__] = function
    return function


def relative() -> object:
    return ctypes.byref(Timespec(WAIT_S, 0))


def absolute(clock: int = time.CLOCK_REALTIME) -> object:
    return ctypes.byref(Timespec(*divmod(time.clock_gettime_ns(clock) + WAIT_S * 10**9, 10**9)))


def code(result: int) -> object:
    """What a call said: its result, or the name of the error it left in errno."""
    return errno.errorcode[ctypes.get_errno()] if result == -1 else result


def error(number: int) -> str:
    """The name of an error that a call returned."""
    return errno.errorcode.get(number, str(number))


def block(size: int = 256) -> ctypes.Array[ctypes.c_char]:
    """Room for an object of libc's."""
    return ctypes.create_string_buffer(size)


@way
def poll() -> object:
    return code(LIBC.poll(None, 0, WAIT_S * 1000))


@way
def ppoll() -> object:
    everything = block(128)
    LIBC.sigfillset(everything)  # the conductor's signal must not be blocked by it
    return code(LIBC.ppoll(None, 0, relative(), everything))


@way
def select_() -> object:
    left = (ctypes.c_int64 * 2)(WAIT_S, 0)
    return [code(LIBC.select(0, None, None, None, left)), *left]


@way
def select_of_a_descriptor() -> object:
    reading, writing = os.pipe()
    return [len(ready) for ready in select.select([reading], [], [reading, writing], WAIT_S)]


@way
def pselect() -> object:
    return code(LIBC.pselect(0, None, None, None, relative(), None))


@way
def epoll_wait() -> object:
    return code(LIBC.epoll_wait(LIBC.epoll_create1(0), block(), 1, WAIT_S * 1000))


@way
def epoll_pwait() -> object:
    return code(LIBC.epoll_pwait(LIBC.epoll_create1(0), block(), 1, WAIT_S * 1000, None))


@way
def epoll_pwait2() -> object:
    return code(LIBC.epoll_pwait2(LIBC.epoll_create1(0), block(), 1, relative(), None))


@way
def nanosleep() -> object:
    return code(LIBC.nanosleep(relative(), None))


@way
def clock_nanosleep_relative() -> object:
    return error(LIBC.clock_nanosleep(time.CLOCK_REALTIME, 0, relative(), None))


@way
def clock_nanosleep_monotonic() -> object:
    return error(LIBC.clock_nanosleep(time.CLOCK_MONOTONIC, 1, absolute(time.CLOCK_MONOTONIC), None))


@way
def clock_nanosleep_wall() -> object:
    return error(LIBC.clock_nanosleep(time.CLOCK_REALTIME, 1, absolute(), None))


@way
def usleep() -> object:
    return code(LIBC.usleep(WAIT_S * 1_000_000))


@way
def sleep() -> object:
    return code(LIBC.sleep(WAIT_S))


@way
def sem_timedwait() -> object:
    semaphore = block()
    LIBC.sem_init(semaphore, 0, 0)
    return code(LIBC.sem_timedwait(semaphore, absolute()))


@way
def sem_clockwait() -> object:
    semaphore = block()
    LIBC.sem_init(semaphore, 0, 0)
    clock = time.CLOCK_MONOTONIC
    return code(LIBC.sem_clockwait(semaphore, clock, absolute(clock)))


def condition(clock: int) -> tuple[object, object]:
    mutex, made, attributes = block(), block(), block()
    LIBC.pthread_condattr_init(attributes)
    LIBC.pthread_condattr_setclock(attributes, clock)
    LIBC.pthread_cond_init(made, attributes)
    LIBC.pthread_mutex_lock(mutex)
    return made, mutex


@way
def cond_timedwait_wall() -> object:
    return error(LIBC.pthread_cond_timedwait(*condition(time.CLOCK_REALTIME), absolute()))


@way
def cond_timedwait_monotonic() -> object:
    clock = time.CLOCK_MONOTONIC
    return error(LIBC.pthread_cond_timedwait(*condition(clock), absolute(clock)))


@way
def cond_clockwait() -> object:
    clock = time.CLOCK_MONOTONIC
    return error(LIBC.pthread_cond_clockwait(*condition(time.CLOCK_REALTIME), clock, absolute(clock)))


def elsewhere(take: Callable[[object], int], lock: object) -> None:
    """Take a lock in another thread, which keeps it."""
    taken = threading.Event()

    def hold() -> None:
        take(lock)
        taken.set()
        LIBC.pause()

    threading.Thread(target=hold, daemon=True).start()
    taken.wait()


@way
def mutex_timedlock() -> object:
    mutex = block()
    LIBC.pthread_mutex_lock(mutex)
    return error(LIBC.pthread_mutex_timedlock(mutex, absolute()))


@way
def mutex_with_priority_inheritance() -> object:
    mutex, attributes = block(), block()
    LIBC.pthread_mutexattr_init(attributes)
    LIBC.pthread_mutexattr_setprotocol(attributes, 1)
    LIBC.pthread_mutex_init(mutex, attributes)
    elsewhere(LIBC.pthread_mutex_lock, mutex)
    return error(LIBC.pthread_mutex_timedlock(mutex, absolute()))


@way
def mutex_clocklock() -> object:
    mutex, clock = block(), time.CLOCK_MONOTONIC
    LIBC.pthread_mutex_lock(mutex)
    return error(LIBC.pthread_mutex_clocklock(mutex, clock, absolute(clock)))


@way
def rwlock_timedrdlock() -> object:
    lock = block()
    elsewhere(LIBC.pthread_rwlock_wrlock, lock)
    return error(LIBC.pthread_rwlock_timedrdlock(lock, absolute()))


@way
def rwlock_clockwrlock() -> object:
    lock, clock = block(), time.CLOCK_MONOTONIC
    LIBC.pthread_rwlock_rdlock(lock)
    return error(LIBC.pthread_rwlock_clockwrlock(lock, clock, absolute(clock)))


@way
def timedjoin() -> object:
    thread = ctypes.c_ulong()
    LIBC.pthread_create(ctypes.byref(thread), None, LIBC.pause, None)
    return error(LIBC.pthread_timedjoin_np(thread, None, absolute()))


@way
def sigtimedwait() -> object:
    everything = block(128)
    LIBC.sigfillset(everything)
    return code(LIBC.sigtimedwait(everything, None, relative()))


@way
def semtimedop() -> object:
    semaphores = LIBC.semget(0, 1, 0o600)
    result = code(LIBC.semtimedop(semaphores, struct.pack("=Hhh", 0, -1, 0), 1, relative()))
    LIBC.semctl(semaphores, 0, 0)  # IPC_RMID
    return result


@way
def mq_timedreceive() -> object:
    name = f"/virtual-waits-{os.getpid()}".encode()
    queue = LIBC.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, None)
    LIBC.mq_unlink(name)
    return code(LIBC.mq_timedreceive(queue, block(10_000), ctypes.c_size_t(10_000), None, absolute()))


FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_REALTIME = 0, 9, 256


def futex(operation: int, timeout: object) -> object:
    number = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
    return code(LIBC.syscall(number, ctypes.byref(ctypes.c_int32(3)), operation, 3, timeout, None, -1))


@way
def futex_relative() -> object:
    return futex(FUTEX_WAIT, relative())


@way
def futex_absolute() -> object:
    return futex(FUTEX_WAIT_BITSET, absolute(time.CLOCK_MONOTONIC))


@way
def futex_wall() -> object:
    return futex(FUTEX_WAIT_BITSET | FUTEX_REALTIME, absolute())


KEPT: list[socket.socket] = []
"""Open to the end."""


def connected(option: int) -> socket.socket:
    """One end of a TCP connection that is never written to, or read from; blocking, with a time-out."""
    listener = socket.create_server(("127.0.0.1", 0))
    end = socket.create_connection(listener.getsockname())
    KEPT.extend((end, listener.accept()[0]))
    end.setsockopt(socket.SOL_SOCKET, option, struct.pack("=qq", WAIT_S, 0))
    return end


@way
def receive_timeout() -> object:
    return code(LIBC.recv(connected(socket.SO_RCVTIMEO).fileno(), block(), 10, 0))


@way
def receive_timeout_of_a_duplicate() -> object:
    return code(LIBC.read(os.dup(connected(socket.SO_RCVTIMEO).fileno()), block(), 10))


@way
def send_timeout() -> object:
    end = connected(socket.SO_SNDTIMEO)
    end.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            end.send(b"x" * 100_000)
    end.setblocking(True)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", WAIT_S, 0))
    return code(LIBC.send(end.fileno(), b"x", 1, 0))


@way
def accept_timeout() -> object:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", WAIT_S, 0))
    return code(LIBC.accept(listener.fileno(), None, None))


@way
def timerfd() -> object:
    timer = LIBC.timerfd_create(time.CLOCK_MONOTONIC, 0)
    LIBC.timerfd_settime(timer, 0, struct.pack("=qqqq", 0, 0, WAIT_S, 0), None)
    poller = select.epoll()
    poller.register(timer, select.EPOLLIN)
    ready = len(poller.poll())
    return [ready, int.from_bytes(os.read(timer, 8), sys.byteorder)]


@way
def timerfd_at_intervals() -> object:
    timer = LIBC.timerfd_create(time.CLOCK_REALTIME, 0)
    first_ns = time.time_ns() + 10**9
    LIBC.timerfd_settime(timer, 1, struct.pack("=qqqq", 2, 0, *divmod(first_ns, 10**9)), None)
    times = [int.from_bytes(os.read(timer, 8), sys.byteorder) for _ in range(4)]
    os.close(timer)
    return times


@way
def alarm() -> object:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.alarm(WAIT_S)
    signal.pause()
    return "SIGALRM"


@way
def timer_create() -> object:
    signal.signal(signal.SIGALRM, lambda *_: None)
    timer = ctypes.c_void_p()
    LIBC.timer_create(time.CLOCK_MONOTONIC, None, ctypes.byref(timer))
    LIBC.timer_settime(timer, 0, struct.pack("=qqqq", 0, 0, WAIT_S, 0), None)
    signal.pause()
    return "SIGALRM"


@way
def python_condition() -> object:
    made = threading.Condition()
    with made:
        return made.wait(WAIT_S)


if __name__ == "__main__":
    for name, function in WAYS.items():
        before_ns = time.monotonic_ns()
        result = function()
        sys.stdout.write(json.dumps([name, result, time.monotonic_ns() - before_ns]) + "\n")
    sys.stdout.flush()
    os._exit(0)
