"""Unmodified processes in virtual time: children, signals, who is not quiet, writes, Redis, runtimes."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from lab import tools
from lab.shims.virtual_time import NotQuiet
from lab.substrates.real.ports import free_ports
from lab.tools import Missing
from tests.local.virtual_world import START_NS, WALL_NS, S, World, libraries, world

__all__ = ["libraries", "world"]  # fixtures

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD shims are for Linux")

CHILDREN = {
    "fork": "child = os.fork() or (time.sleep(5), os._exit(0)); os.waitpid(child, 0)",
    "fork and exec": "subprocess.run(['sleep', '5'])",
    "posix_spawn": "os.waitpid(os.posix_spawnp('sleep', ['sleep', '5'], os.environ), 0)",
    "system": "ctypes.CDLL(None).system(b'sleep 5')",
    "popen": "libc = ctypes.CDLL(None); libc.popen.restype = ctypes.c_void_p\n"
    "libc.pclose(ctypes.c_void_p(libc.popen(b'sleep 5', b'r')))",
    "exec": "os.execvp('sleep', ['sleep', '5'])",
    "execlp": "ctypes.CDLL(None).execlp(b'sleep', b'sleep', b'5', None)",
    "a grandchild": "subprocess.run(['sh', '-c', '(sleep 3); sleep 2'])",
}


@pytest.mark.parametrize("how", CHILDREN)
def test_children_live_in_the_same_time(world: World, tmp_path: Path, how: str) -> None:
    # The dynamic linker reports what it does: so it takes long until a program has loaded the library.
    slow = f"os.environ.update(LD_DEBUG='all', LD_DEBUG_OUTPUT='{tmp_path}/linker')"
    number = world.python(f"import ctypes, os, subprocess, time\n{slow}\n{CHILDREN[how]}")
    world.time.settle()
    due = world.time.due()
    assert due is not None, "a child that has not loaded the library yet is waited for"
    assert {world.time.group(each) for each, _ in due.slots} == {number}
    world.time.hold(number, True)
    assert world.time.due() is None, "children are held with the process"
    world.time.hold(number, False)
    world.output(number)
    assert world.passed_s == 5


def test_a_child_has_the_wall_clock_of_its_group(world: World) -> None:
    number = world.python("import subprocess, time; time.sleep(1); subprocess.run(['date', '+%s'])")
    world.time.set_wall(number, 3600 * S, 0, 0)
    assert world.output(number) == f"{WALL_NS // S + 3601}\n"


def test_a_process_that_is_held_is_not_woken(world: World) -> None:
    held, other = (world.python(f"import time; time.sleep({s}); print(time.monotonic())") for s in (3, 4))
    world.time.settle()
    world.time.hold(held, True)
    assert world.output(other) == "1004.0\n"
    assert world.printed(held) == ""
    world.time.hold(held, False)
    due = world.time.due()
    assert due is not None
    assert due.deadline_ns == START_NS + 3 * S, "in the past: it is woken late, as after a pause"
    assert world.output(held) == "1004.0\n"


@pytest.mark.parametrize(
    "block",
    [
        "signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))",
        "ctypes.CDLL(None).sigprocmask(0, b'\\xff' * 128, None)",
        "number = {'x86_64': 14, 'aarch64': 135}[os.uname().machine]\n"
        "ctypes.CDLL(None).syscall(number, 0, b'\\xff' * 8, None, 8)",
    ],
)
def test_the_signal_is_never_blocked(world: World, block: str) -> None:
    signal_number = signal.SIGRTMIN + 12
    script = f"""
import ctypes, os, signal, threading, time
{block}
signal.signal({signal_number}, signal.SIG_IGN)
assert {signal_number} not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
thread = threading.Thread(target=time.sleep, args=(5,)); thread.start()
time.sleep(6); thread.join()
"""
    world.output(world.python(script))
    assert world.passed_s == 6


def test_a_handler_that_blocks_all_signals_can_wait(world: World) -> None:
    script = """
import ctypes, signal, struct, time
libc = ctypes.CDLL(None)
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: print(libc.usleep(5_000_000), time.monotonic()))
address = ctypes.cast(handler, ctypes.c_void_p).value
libc.sigaction(signal.SIGUSR1, struct.pack("=Q128siiQ", address, b"\\xff" * 128, 0, 0, 0), None)
getattr(libc, "raise")(signal.SIGUSR1)
"""
    assert world.output(world.python(script)) == "0 1005.0\n"


def test_a_signal_handler_can_wait_within_a_wait(world: World) -> None:
    script = """
import ctypes, os, signal, struct, time
libc = ctypes.CDLL(None)
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: libc.usleep(1_000_000) and None)
address = ctypes.cast(handler, ctypes.c_void_p).value
libc.sigaction(signal.SIGUSR1, struct.pack("=Q128siiQ", address, b"", 0x10000000, 0, 0), None)  # SA_RESTART
if os.fork() == 0:
    time.sleep(2); os.kill(os.getppid(), signal.SIGUSR1); os._exit(0)
mutex = ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
until = (ctypes.c_int64 * 2)(int(time.time()) + 7, 0)
print(libc.pthread_mutex_timedlock(mutex, until), time.monotonic())
os.wait()
"""
    assert world.output(world.python(script)) == "110 1007.0\n"


def test_another_signal_still_interrupts_a_wait(world: World) -> None:
    script = """
import ctypes, errno, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGUSR1, lambda *_: None)
if (child := os.fork()) == 0:
    time.sleep(2); os.kill(os.getppid(), signal.SIGUSR1); time.sleep(1); os._exit(0)
print(libc.poll(None, 0, 60000), errno.errorcode[ctypes.get_errno()], time.monotonic())
os.wait()
"""
    assert world.output(world.python(script)) == "-1 EINTR 1002.0\n"


@pytest.mark.parametrize("spin", ["while True: pass", "import os\nwhile True: os.sched_yield()"])
def test_a_process_that_spins_is_named(world: World, spin: str) -> None:
    number = world.python("import sys\nsys.stdin.readline()\n" + spin)
    world.time.settle()
    stdin = world.processes[number].stdin
    assert stdin is not None
    world.time.touch(number)
    stdin.write("\n")
    stdin.flush()
    with pytest.raises(NotQuiet, match=r"python.* runs on \(it read the clock \d+ times") as caught:
        world.time.settle(0.3)
    assert (caught.value.number, caught.value.pid) == (number, world.processes[number].pid)


def test_threads_that_wake_each_other_are_not_quiet(world: World) -> None:
    # One of them runs at each moment: who looks at one after the other may see all of them asleep.
    script = """
import os, sys, threading
pipes = [os.pipe() for _ in range(8)]
def pass_on(i):
    while True: os.write(pipes[(i + 1) % 8][1], os.read(pipes[i][0], 1))
for i in range(1, 8): threading.Thread(target=pass_on, args=(i,), daemon=True).start()
for line in sys.stdin:
    for _ in range(100):
        os.write(pipes[1][1], b"x"); os.read(pipes[0][0], 1)
    print(line, end="", flush=True)
"""
    number = world.python(script)
    world.time.settle()
    for i in range(20):
        world.say(number, f"{i}")
        assert world.printed(number) == f"{i}\n"


def test_a_process_that_is_bound_to_a_cpu_counts_as_many_as_before(world: World) -> None:
    script = "import os, sys\nfor line in sys.stdin: print(len(os.sched_getaffinity(0)), flush=True)"
    number = world.python(script)
    world.time.settle()
    os.sched_setaffinity(world.processes[number].pid, {min(os.sched_getaffinity(0))})
    world.say(number, "")
    assert world.printed(number) == f"{len(os.sched_getaffinity(0))}\n"


PAUSE = b"\xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7"  # again: eax = pause; syscall; jump to again
SLEEP = (  # edi = esi = 0; edx = 60 000; eax = poll; syscall; jump to the beginning
    b"\x31\xff\x31\xf6\xba\x60\xea\x00\x00\xb8\x07\x00\x00\x00\x0f\x05\xeb\xee"
)
SPIN = (  # ecx = 200 million; again: dec ecx; jump to again if it is not 0; edi = 0; eax = exit; syscall
    b"\xb9\x00\xc2\xeb\x0b\xff\xc9\x75\xfc\x31\xff\xb8\x3c\x00\x00\x00\x0f\x05"
)


def static_program(path: Path, code: bytes) -> Path:
    """A program without libc."""
    if platform.machine() != "x86_64":
        pytest.skip("the machine code is for x86-64")
    base = 0x400000
    header = struct.pack(
        "=4sBBBBQHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 2, 62, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0
    )
    segment = struct.pack("=IIQQQQQQ", 1, 5, 0, base, base, 120 + len(code), 120 + len(code), 4096)
    path.write_bytes(header + segment + code)
    path.chmod(0o755)
    return path


def test_a_static_program_is_noticed(world: World, tmp_path: Path) -> None:
    program = static_program(tmp_path / "static", PAUSE)
    number = world.start(program)
    with pytest.raises(NotQuiet, match="has not loaded the preload library"):
        world.time.settle(0.2)
    assert world.time.arrived(number) is None
    world.end(number)
    number = world.start("sh", "-c", f"sleep 1; exec {program}")
    world.time.settle()
    assert world.time.arrived(number) == world.processes[number].pid
    world.run()
    assert world.time.arrived(number) is None, "a program that did load it made way for one that does not"


def test_a_wait_past_the_library_is_seen(world: World, tmp_path: Path) -> None:
    program = static_program(tmp_path / "static", SLEEP)
    plain = world.python("import time; time.sleep(60)")
    past = world.start("sh", "-c", f"{program}; :")
    world.time.settle()
    assert world.time.unseen_wait(plain) is None
    assert "(static) waits for real time" in (world.time.unseen_wait(past) or "")


@pytest.mark.parametrize(
    "start", ["posix_spawn(program, [program], {})", "spawnv(os.P_NOWAIT, program, [program])"]
)
def test_a_static_child_is_waited_for(world: World, tmp_path: Path, start: str) -> None:
    program = static_program(tmp_path / "static", SPIN)
    number = world.python(
        f"import os; program = '{program}'; os.waitpid(os.{start}, 0); print('done', flush=True)"
    )
    world.time.settle()
    assert world.printed(number) == "done\n"


def test_writes_are_counted_and_can_be_stopped(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = f"""
import os, socket, time
end = socket.create_connection(("127.0.0.1", {listener.getsockname()[1]}))
pipe = os.pipe()[1]
for text in (b"one", b"two", b"three"):
    os.write(pipe, text); time.sleep(1); end.sendall(text)
"""
        number = world.python(script)
        world.time.settle()
        peer, _ = listener.accept()
        world.time.stop_at_write(number, 2)
        world.run()
        assert (world.time.stopped(number), world.time.written(number), peer.recv(99)) == (True, 3, b"one")
        assert world.passed_s == 2
        world.time.go(number)
        world.time.settle()
        assert (world.time.stopped(number), world.time.written(number), peer.recv(99)) == (False, 6, b"two")
        world.output(number)
        assert (world.time.written(number), peer.recv(99)) == (11, b"three")
        peer.close()


def test_children_that_have_ended_leave_room(world: World) -> None:
    script = """
import os, time
for _ in range(300):
    if os.fork() == 0: os._exit(0)
    os.wait(); time.sleep(0.01)
"""
    world.output(world.python(script))


def test_a_process_that_was_ended_leaves_no_deadline(world: World) -> None:
    number = world.python("import os, time\nos.fork()\ntime.sleep(60)")
    world.time.settle()
    world.end(number)
    assert world.time.due() is None


def test_numbers_are_used_again(world: World) -> None:
    for _ in range(3):
        number = world.python("import os, time\nos.fork()\ntime.sleep(1)")
        assert number == 0
        world.output(number)
        world.end(number)
    assert world.time.due() is None


def test_a_key_expires_by_its_servers_clock(world: World, tmp_path: Path) -> None:
    found = tools.find("redis-server")
    if isinstance(found, Missing):
        pytest.skip(f"{found.reason}: run `lab setup`")
    (port,) = free_ports(1)
    number = world.start(
        *(found.path, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path)
    )
    world.time.settle()
    world.time.touch(number)
    with socket.create_connection(("127.0.0.1", port)) as client:
        world.time.settle()

        def ask(text: str) -> str:
            world.time.touch(number)
            client.sendall(text.encode() + b"\r\n")
            world.time.settle()
            return client.recv(4096).decode().strip()

        assert ask("SET key value PX 10000") == "+OK"
        world.run_for(9.999)
        assert ask("PTTL key") == ":1"
        world.run_for(0.002)
        assert ask("GET key") == "$-1"
        assert ask("SET key value PX 10000") == "+OK"
        world.time.set_wall(number, 11 * S, 0, 0)
        assert ask("GET key") == "$-1"
    world.time.touch(number)
    os.kill(world.processes[number].pid, signal.SIGTERM)
    world.run_for(1)
    assert world.processes[number].wait(10) == 0


NODE = """
const crypto = require("crypto"), begun = performance.now();
crypto.randomBytes(8, (_, bytes) => setTimeout(() => {
    console.log(performance.now() - begun, crypto.randomUUID(), bytes.toString("hex"), Math.random());
}, 60000));
"""
JAVA = """
import java.util.concurrent.*;
public class Waits {
    public static void main(String[] none) throws Exception {
        long begun = System.nanoTime();
        BlockingQueue<Integer> there = new LinkedBlockingQueue<>(), back = new LinkedBlockingQueue<>();
        Thread echo = new Thread(() -> {
            try { for (int x; (x = there.take()) >= 0; back.put(x + 1)) Thread.sleep(10); }
            catch (InterruptedException stop) { }
        });
        echo.start();
        int x = 0;
        for (int i = 0; i < 100; i++) { there.put(x); x = back.poll(50, TimeUnit.SECONDS); }
        there.put(-1);
        echo.join();
        ScheduledExecutorService timer = Executors.newScheduledThreadPool(1);
        timer.schedule(() -> { }, 59, TimeUnit.SECONDS).get();
        timer.shutdown();
        System.out.println((System.nanoTime() - begun) / 1e6 + " " + java.util.UUID.randomUUID() + " " + x);
    }
}
"""
RUST = """
use std::{sync::{mpsc, Condvar, Mutex}, thread, time::{Duration, Instant}};
fn main() {
    let begun = Instant::now();
    let (there, receive) = mpsc::channel();
    let (send, back) = mpsc::channel();
    let echo = thread::spawn(move || for x in receive {
        thread::sleep(Duration::from_millis(10));
        send.send(x + 1).unwrap();
    });
    let mut x = 0;
    for _ in 0..100 { there.send(x).unwrap(); x = back.recv_timeout(Duration::from_secs(50)).unwrap(); }
    drop(there);
    echo.join().unwrap();
    thread::park_timeout(Duration::from_secs(9));
    let lock = Mutex::new(());
    let _ = Condvar::new().wait_timeout(lock.lock().unwrap(), Duration::from_secs(50)).unwrap();
    let set: std::collections::HashSet<i32> = (0..20).collect();
    println!("{} {:?} {}", begun.elapsed().as_secs_f64() * 1e3, set, x);
}
"""
RUNTIMES = {
    "node": ("waits.js", NODE, []),
    "java": ("Waits.java", JAVA, []),
    "rustc": ("waits.rs", RUST, ["rustc", "-o", "waits", "waits.rs"]),
}


@pytest.mark.full
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_runtimes(world: World, tmp_path: Path, runtime: str) -> None:
    if shutil.which(runtime) is None:
        pytest.skip(f"there is no {runtime}")
    name, source, build = RUNTIMES[runtime]
    (tmp_path / name).write_text(source)
    if build:
        subprocess.run(build, cwd=tmp_path, check=True)
    argv = [tmp_path / "waits"] if build else [runtime, tmp_path / name]
    printed = [world.output(world.start(*argv)).split(" ", 1) for _ in range(2)]
    assert [float(passed_ms) for passed_ms, _ in printed] == [60_000, 60_000]
    assert printed[0] == printed[1], "what is random repeats"
