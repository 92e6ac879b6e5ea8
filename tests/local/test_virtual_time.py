"""Unmodified processes in virtual time: waits, deadlines, clocks and entropy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.virtual_world import START_NS, WALL_NS, S, World, libraries, world

__all__ = ["libraries", "world"]  # fixtures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD shims are for Linux")
WAITS = Path(__file__).with_name("virtual_waits.py")
ANSWERS = {
    **dict.fromkeys(("sigtimedwait", "semtimedop"), "EAGAIN"),
    **dict.fromkeys(("receive_timeout", "receive_timeout_of_a_duplicate"), "EAGAIN"),
    **dict.fromkeys(("send_timeout", "accept_timeout"), "EAGAIN"),
    **dict.fromkeys(("alarm", "timer_create"), "SIGALRM"),
    "select_": [0, 0, 0],
    "select_of_a_descriptor": [0, 0, 0],
    "timerfd": [1, 1],
    "timerfd_at_intervals": [1, 1, 1, 1],
    "python_condition": False,
}
"""What the kernel says without virtual time; the other ways say 0 or ETIMEDOUT."""


def test_every_way_to_wait_takes_virtual_time(world: World) -> None:
    printed = world.output(world.start(sys.executable, "-IS", WAITS))
    seen = [json.loads(line) for line in printed.splitlines()]
    names = [name for name, _, _ in seen]
    assert len(names) > 35
    assert names[-1] == "python_condition", "the last way"
    expected = [[n, ANSWERS.get(n, t if t in (0, "0", "ETIMEDOUT") else None), 7 * S] for n, t, _ in seen]
    assert seen == expected
    assert world.time.now_ns == START_NS + 7 * S * len(names)


def test_a_wait_that_ends_early_has_no_deadline_left(world: World) -> None:
    number = world.python(
        "import select, sys; print(len(select.select([0], [], [], 60)[0]), flush=True); sys.stdin.read()"
    )
    world.run_for(10)
    assert world.printed(number) == ""
    world.say(number, "")
    assert world.printed(number) == "1\n"
    assert world.time.due() is None


def test_threads_wake_each_other_without_time_passing(world: World) -> None:
    script = """
import queue, threading, time
there, back = queue.Queue(), queue.Queue()
def echo():
    while (x := there.get(timeout=50)) is not None:
        time.sleep(0.001)
        back.put(x + 1, timeout=50)
thread = threading.Thread(target=echo); thread.start()
begun, x = time.monotonic_ns(), 0
for _ in range(200):
    there.put(x, timeout=50); x = back.get(timeout=50)
there.put(None); thread.join()
print(x, time.monotonic_ns() - begun)
"""
    assert world.output(world.python(script)).split() == ["200", "200000000"]


def test_waiters_of_one_condition_time_out_each_at_its_own_time(world: World) -> None:
    # One signal among many waiters makes glibc keep two groups of them; each of either group must get out.
    script = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
mutex, condition = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
out, begun = [], time.time_ns()
def wait(s):
    until = (ctypes.c_int64 * 2)(begun // 10**9 + s, 0)
    libc.pthread_mutex_lock(mutex)
    error = libc.pthread_cond_timedwait(condition, mutex, until)
    out.append((s, error, (time.time_ns() - begun) // 10**9)); libc.pthread_mutex_unlock(mutex)
first = [threading.Thread(target=wait, args=(s,)) for s in (3, 5, 7)]
for thread in first: thread.start()
time.sleep(1); libc.pthread_cond_signal(condition)
second = [threading.Thread(target=wait, args=(s,)) for s in (4, 6, 8)]
for thread in second: thread.start()
for thread in first + second: thread.join()
woken = [each for each in out if each[1] == 0]
assert len(woken) == 1 and woken[0][2] == 1, out
print(all(error == 110 and at == s for s, error, at in out if error))
"""
    assert world.output(world.python(script)) == "True\n"


def test_a_waiter_that_was_woken_waits_for_its_mutex(world: World) -> None:
    script = """
import threading, time
made = threading.Lock(); condition = threading.Condition(made)
def wait():
    with condition: signalled = condition.wait(5)
    print(signalled, time.monotonic())
thread = threading.Thread(target=wait); thread.start()
time.sleep(1)
with made: time.sleep(7)
thread.join()
"""
    assert world.output(world.python(script)) == "False 1008.0\n"


def test_a_mutex_that_is_taken_delays_a_time_out(world: World) -> None:
    # As above, but with libc's own condition, which takes the mutex itself after the wake-up.
    script = """
import ctypes, threading, time
libc = ctypes.CDLL(None)
mutex, condition = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
def wait():
    libc.pthread_mutex_lock(mutex)
    until = (ctypes.c_int64 * 2)(int(time.time()) + 5, 0)
    print(libc.pthread_cond_timedwait(condition, mutex, until), time.monotonic())
thread = threading.Thread(target=wait); thread.start()
time.sleep(1)
libc.pthread_mutex_lock(mutex); time.sleep(7); libc.pthread_mutex_unlock(mutex)
thread.join()
"""
    assert world.output(world.python(script)) == "110 1008.0\n"


THREADS = """
import random, threading, time
def work():
    for _ in range(5):
        time.sleep(random.choice([0.01, 0.02]))
        with condition: condition.wait(0.01)
condition = threading.Condition()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_are_woken_in_the_same_order_each_time(world: World) -> None:
    orders = []
    for _ in range(4):
        number, begun_ns = world.python(THREADS), world.time.now_ns
        world.time.settle(20)
        order = []
        while (due := world.time.due()) is not None:
            order.append((due.deadline_ns - begun_ns, due.slots))
            world.time.advance(due.deadline_ns)
            world.time.wake(*due.slots[0])
            world.time.settle()
        world.output(number)
        world.end(number)
        orders.append(order)
    assert len(orders[0]) > 50
    assert all(order == orders[0] for order in orders)


def test_deadlines_at_the_same_time_come_together(world: World) -> None:
    numbers = [world.python("import time; time.sleep(9)") for _ in range(2)]
    world.time.settle()
    due = world.time.due()
    assert due is not None
    assert sorted(number for number, _ in due.slots) == numbers
    assert due.deadline_ns == START_NS + 9 * S
    assert world.time.wake(*due.slots[0]) is False, "not until now"
    world.time.advance(due.deadline_ns)
    assert world.time.wake(*due.slots[0]) is True
    world.time.settle()
    left = world.time.due()
    assert left is not None
    assert left.slots == due.slots[1:]
    with pytest.raises(ValueError, match="never goes back"):
        world.time.advance(START_NS)


CLOCKS = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
def pair(call):
    out = (ctypes.c_int64 * 2)(); call(out); return tuple(out)
for line in sys.stdin:
    wall = {time.time_ns(), time.clock_gettime_ns(0), time.clock_gettime_ns(5), time.clock_gettime_ns(11)}
    s, us = pair(lambda out: libc.gettimeofday(out, None))
    wall |= {s * 10**9 + us * 1000}
    s, ns = pair(lambda out: libc.timespec_get(out, 1))
    wall |= {s * 10**9 + ns}
    number = {"x86_64": 228, "aarch64": 113}[os.uname().machine]
    s, ns = pair(lambda out: libc.syscall(number, 0, out))
    wall |= {s * 10**9 + ns}
    assert libc.time(None) == time.time_ns() // 10**9
    monotonic = {time.monotonic_ns(), *(time.clock_gettime_ns(clock) for clock in (1, 4, 6, 7))}
    assert time.thread_time_ns() > 0 and time.thread_time_ns() != time.monotonic_ns()
    print(*wall, *monotonic, flush=True)
"""


def test_clocks(world: World) -> None:
    number = world.python(CLOCKS)
    world.run_for(5)

    def seen() -> list[int]:
        world.say(number, "")
        return [int(each) for each in world.printed(number).split()]

    assert seen() == [WALL_NS + 5 * S, START_NS + 5 * S]
    world.time.set_wall(number, -60 * S, 0, 0)
    assert seen() == [WALL_NS - 55 * S, START_NS + 5 * S]
    world.time.set_wall(number, 11 * S, 500_000_000, world.time.now_ns)
    world.run_for(4)
    assert seen() == [WALL_NS + 9 * S + 11 * S + 2 * S, START_NS + 9 * S]


def test_a_spin_on_the_clock_gets_on(world: World) -> None:
    world.output(
        world.python("import time; begun = time.monotonic()\nwhile time.monotonic() < begun + 0.001: pass")
    )
    assert 0.001 <= world.passed_s < 0.0011


@pytest.mark.parametrize("timeout", ["60", "None"])
def test_reading_the_clock_often_with_waits_in_between_is_no_spin(world: World, timeout: str) -> None:
    script = f"""
import os, select, time
while select.select([0], [], [], {timeout})[0]:
    os.read(0, 10)
    for _ in range(1000): time.time()
    print("done", flush=True)
"""
    number = world.python(script)
    world.time.settle()
    for _ in range(12):
        world.say(number, "")
        assert world.printed(number) == "done\n"


@pytest.mark.parametrize(
    ("offset_s", "rate_ppb", "after_s"),
    [(0, 0, 30.0), (12, 0, 18.0), (40, 0, 10.0), (0, 10**9, 20.0), (0, -500_000_000, 50.0)],
)
def test_a_deadline_on_the_wall_clock_moves_with_it(
    world: World, offset_s: int, rate_ppb: int, after_s: float
) -> None:
    world.python(
        "import ctypes, time; until = (ctypes.c_int64 * 2)(int(time.time()) + 30, 0)\n"
        "ctypes.CDLL(None).clock_nanosleep(0, 1, until, None)"
    )
    world.run_for(10)
    world.time.set_wall(0, offset_s * S, rate_ppb, world.time.now_ns)
    world.run()
    assert world.passed_s == after_s


ENTROPY = """
import ctypes, os, random, uuid
libc = ctypes.CDLL(None)
def bytes_of(call):
    buffer = ctypes.create_string_buffer(16); call(buffer); return buffer.raw.hex()
device = os.open("/dev/urandom", os.O_RDONLY)
libc.fopen.restype = ctypes.c_void_p
libc.fread.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
number = {"x86_64": 318, "aarch64": 278}[os.uname().machine]
print(os.urandom(20).hex(), uuid.uuid4(), random.random(), hash("text"), os.read(device, 11).hex(),
      open("/dev/random", "rb", buffering=0).read(9).hex(),
      bytes_of(lambda b: libc.fread(b, 1, 16, libc.fopen(b"/dev/urandom", b"r"))),
      bytes_of(lambda b: libc.getentropy(b, 16)), bytes_of(lambda b: libc.syscall(number, b, 16, 0)),
      [libc.srand(os.getpid()), libc.rand()][1],
      flush=True)
os.close(device)
assert os.open("/dev/zero", os.O_RDONLY) == device and os.read(device, 4) == bytes(4)
for _ in range(2):
    if os.fork() == 0:
        print(os.urandom(8).hex(), flush=True); os._exit(0)
    os.wait()
print(os.urandom(8).hex())
"""


def test_entropy_repeats_with_the_seed(world: World) -> None:
    first, same, other = (world.output(world.python(ENTROPY, seed=seed)).split() for seed in (7, 7, 8))
    assert first == same
    assert len(set(first) & set(other)) == 0
    assert len(set(first)) == len(first), "no part of the stream comes twice, and each child has its own"


UUIDS = """
import ctypes, uuid
def made(name):
    bytes_ = ctypes.create_string_buffer(16); getattr(ctypes.CDLL(None), name)(bytes_)
    return uuid.UUID(bytes=bytes_.raw)
ones = [uuid.uuid1(), made("uuid_generate_time"), made("uuid_generate_time_safe")]
fours = [made("uuid_generate"), made("uuid_generate_random")]
assert {(one.version, one.variant) for one in ones} == {(1, uuid.RFC_4122)}
assert {(four.version, four.variant) for four in fours} == {(4, uuid.RFC_4122)}
print({(one.time - 0x01b21dd213814000) // 10**7 for one in ones}, *ones, *fours)
"""


def test_uuids_of_libuuid_repeat_with_the_seed(world: World) -> None:
    """It makes them of process ids as well, and of a file that it counts in."""
    first, same, other = (world.output(world.python(UUIDS, seed=seed)).split() for seed in (7, 7, 8))
    assert first == same
    assert set(first) & set(other) == {f"{{{WALL_NS // S}}}"}, "the time of the wall clock"
    assert len(set(first)) == len(first)


def test_a_process_can_be_seeded_anew(world: World) -> None:
    number = world.python("import os, sys\nfor _ in sys.stdin: print(os.urandom(8).hex(), flush=True)")
    world.time.settle()
    seen = []
    for seed in (5, 6, 5):
        world.time.reseed(number, seed)
        world.say(number, "")
        seen.append(world.printed(number))
    assert seen[0] == seen[2] != seen[1]


PERSONALITY = "open('/proc/self/personality').read().strip()"
FIXED = f"import ctypes; ctypes.CDLL(None).personality(0x0040000); print({PERSONALITY})"


def test_addresses_repeat(world: World) -> None:
    allowed = subprocess.run([sys.executable, "-c", FIXED], stdout=subprocess.PIPE, text=True, check=True)
    if not int(allowed.stdout, 16):
        pytest.skip("this system does not let a process ask for fixed addresses")
    before = Path("/proc/self/personality").read_text()
    seen = {world.output(world.python(f"print({PERSONALITY}, id(object()))")) for _ in range(3)}
    assert len(seen) == 1
    assert seen.pop().startswith("00040000 ")
    assert Path("/proc/self/personality").read_text() == before, "only while it lasts"


def test_the_processors_counter_is_not_shown_as_a_clock(world: World) -> None:
    """Servers that find the word read time from the counter, past libc; paste reads files as they do."""

    def flags(text: str) -> set[str]:
        return {line for line in text.splitlines() if line.startswith("flags")}

    if shutil.which("paste") is None:
        pytest.skip("SKIPPED: there is no paste")
    shown = world.output(world.start("paste", "/proc/cpuinfo"))
    word = "constant_tsc"
    real = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    assert flags(shown) == {line.replace(word, " " * len(word)) for line in flags(real)}
    assert len(shown.splitlines()) == len(real.splitlines())
