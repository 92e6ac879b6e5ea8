"""The real processes of one machine, and the conductor's ends of their sockets and pipes."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Final, Protocol
from zlib import crc32

from lab.errors import UnknownOutcome
from lab.processes import RUN_VARIABLE
from lab.shims.virtual_time import fixed_addresses
from lab.substrates.sim.host import Host
from lab.substrates.virtual.process import CopiedProcess, RealProcess, append
from lab.substrates.virtual.world import VirtualWorld

ARRIVES_WITHIN_S: Final = 10.0
"""How long a program may take, in real time, until its preload library has begun."""
SENT_WITHIN_S: Final = 0.2
"""How long bytes that a process has written may take through the kernel, in real time."""
POLL_S: Final = 0.0005
WATCHED: Final = select.EPOLLIN | select.EPOLLRDHUP


class End(Protocol):
    """One descriptor of the conductor's."""

    def fileno(self) -> int:
        """The descriptor."""
        ...

    def ready(self) -> int:
        """Read what there is, or a part of it, and pass it on; return how many bytes came over TCP."""
        ...

    def drop(self) -> None:
        """Let go of it at once."""
        ...

    def hang_up(self) -> None:
        """The process is gone: tell the far end, if there is one."""
        ...


class Gathering(Protocol):
    """An end that hands on what it has read only when it is asked to."""

    number: int
    """In which order ends were made."""

    def hand_on(self) -> None:
        """Hand on what was read since the last time, as one piece."""
        ...


class RealMachine:
    """Starts, feeds, reads and ends the processes of one host.

    Args:
        world: the conductor.
        host: whose clock and pauses they share.
        run_id: by which what a killed lab leaves behind is found.
        log_dir: where their logs are in the end; None: nobody wants them.
        failed: told, in a sentence, of a process that ended unasked.
    """

    ENDLESS_HINT: ClassVar[str] = (
        "a server computes without end in a Lua script that does not end; a real one answers others with "
        "BUSY after 5 s of real time: --on local"
    )

    def __init__(
        self,
        world: VirtualWorld,
        host: Host,
        run_id: str,
        log_dir: Path | None,
        failed: Callable[[str], None],
    ) -> None:
        self.world, self.host = world, host
        self._run_id, self._log_dir, self._failed = run_id, log_dir, failed
        self.processes: list[RealProcess] = []
        self.names: dict[str, str] = {}
        """The names by which its processes find servers, and their addresses; written by ``write_names``."""
        self._epoll = select.epoll()
        self._ends: dict[int, tuple[int, End]] = {}
        self._made = 0
        self.more_to_read = False
        """Whether an end has left something to be read."""
        self._backlog: list[Callable[[], object]] = []
        self._gathered: dict[int, Gathering] = {}
        """By its number: the ends that have read something which is not handed on yet."""
        self._taken = 0
        """How many bytes of what the processes have written to TCP sockets were read, or given up."""
        self._closed_one = False
        self._halves_ended = 0
        self.waits_for_ends = False
        """Whether a process has just ended its half of a connection."""

    # Processes

    def start(
        self,
        label: str,
        command: Sequence[str],
        *,
        preloaded: Callable[[dict[str, str]], dict[str, str]] = dict,
        log: Path | None = None,
    ) -> RealProcess:
        """Start a program that is talked to, and wait until its preload library has begun.

        Raises:
            OSError: there is no such program, or it cannot be started.
            UnknownOutcome: it ended at once, or runs without the preload library.
        """
        process = self.launch(label, command, preloaded=preloaded, talks=True, log=log)
        self.receive(process)
        return process

    def launch(
        self,
        label: str,
        command: Sequence[str],
        *,
        preloaded: Callable[[dict[str, str]], dict[str, str]] = dict,
        talks: bool = False,
        directory: Path | None = None,
        log: Path | None = None,
        stands_still: bool = False,
    ) -> RealProcess:
        """Start a program. Several that are launched at one time begin side by side.

        ``preloaded`` adds to an environment that preloads something; with ``talks`` its stdin and stdout are
        pipes, and its end is no failure of the run. ``log``, if it is not to go to ``log_dir`` at once.
        ``stands_still``: it does so before its first thread.

        Raises:
            OSError: there is no such program, or it cannot be started.
        """
        number = self.world.time.admit(self.first_entropy() if stands_still or talks else self.entropy())
        self.world.set_wall(number, self.host.clock)
        if stands_still:
            self.world.time.stand_still(number)
        if log is None:
            assert self._log_dir is not None
            log = self._log_dir / f"{label}.log"
        given = preloaded(self.world.time.environment(number))
        # Each machine has its own, as processes have: a key that is made of a hash is another key elsewhere.
        hash_seed = str(crc32(self.host.name.encode()))
        try:
            with log.open("ab") as sink, fixed_addresses():
                popen = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if talks else sink,
                    stderr=sink,
                    env={**os.environ, "PYTHONHASHSEED": hash_seed, **given, RUN_VARIABLE: self._run_id},
                    cwd=directory,
                    start_new_session=True,
                    bufsize=0,
                )
        except OSError:
            self.world.time.retire(number)  # or it would be waited for
            raise
        process = RealProcess(number, popen, command, label, log)
        process.expected_end = talks  # whoever talks to it is told of its end, and knows what it means
        self.processes.append(process)
        self.world.attend(number, self)
        return process

    def receive(self, process: RealProcess) -> None:
        """Wait until the preload library of a program that was launched has begun.

        Raises:
            UnknownOutcome: it ended at once, or runs without the preload library.
        """
        self._wait_for(process)
        self.world.stir(process.number)

    def copy(self, process: RealProcess, label: str) -> RealProcess:
        """Let a process that stands still be copied; the copy is there when all is quiet: ``copied``."""
        number = self.world.time.admit(self.entropy())
        self.world.set_wall(number, self.host.clock)
        copy = RealProcess(number, CopiedProcess(), process.command, label, process.log)
        self.processes.append(copy)
        self.world.attend(number, self)
        self.world.time.copy(process.number, number)
        self.world.stir(number)
        return copy

    def copied(self, copy: RealProcess) -> None:
        """Take note of the process id of a copy that is there; of what is none, it is known."""
        if isinstance(copy.popen, CopiedProcess):
            copy.popen.pid = self.world.time.arrived(copy.number) or 0

    def go_from_there(self, process: RealProcess) -> None:
        """Let a process that stands still go on; its entropy is drawn anew."""
        self.world.time.reseed(process.number, self.entropy())
        self.world.time.stand_no_more(process.number)
        self.world.stir(process.number)

    def entropy(self) -> int:
        """What decides the entropy of the next process."""
        return self.host.random.getrandbits(63)

    def first_entropy(self) -> int:
        """The same in all worlds: what a program draws at its start, it keeps, also in another world."""
        return crc32(self.host.name.encode())

    def _wait_for(self, process: RealProcess) -> None:
        give_up_s = time.perf_counter() + ARRIVES_WITHIN_S
        while self.world.time.arrived(process.number) is None:
            if process.popen.poll() is not None:
                process.expected_end = True
                self._bury(process)
                raise UnknownOutcome(
                    f"{self.named(process)} ended at once", hint=f"its log ends:\n{process.tail()}"
                )
            if time.perf_counter() > give_up_s:
                self._end_one(process)
                raise UnknownOutcome(
                    f"{self.named(process)} runs without the preload library: a static program, or one that "
                    "does not let its environment through",
                    hint="it runs --on local, in real time: lab run SCENARIO --lock COMMAND --on local",
                )
            time.sleep(POLL_S)

    def write_names(self, file: Path) -> None:
        """Write them where the names shim of a process looks, whenever it resolves one."""
        file.write_text("".join(f"{name} {host}\n" for name, host in self.names.items()))

    def named(self, process: RealProcess) -> str:
        """A process, as messages name it."""
        return process.label

    def when_endless(self, number: int) -> tuple[str, str]:
        """What its process of this number is called, and what to do if that computes without end."""
        named = next((self.named(each) for each in self.processes if each.number == number), self.host.name)
        return named, self.ENDLESS_HINT

    def kill(self) -> None:
        """End every process at once."""
        for process in list(self.processes):
            process.expected_end = True
            self._end_one(process)
        self._backlog.clear()

    def end(self) -> None:
        """The same, and close every descriptor."""
        self.kill()
        for _, end in list(self._ends.values()):
            end.drop()
        self._epoll.close()

    def _end_one(self, process: RealProcess) -> None:
        process.end()
        self._bury(process)

    def _bury(self, process: RealProcess) -> None:
        if process not in self.processes:
            return
        self.processes.remove(process)
        process.kill_group()  # what it started does not outlive it
        self.world.dismiss(process.number)
        self._agree()
        if not process.expected_end:
            self._failed(
                f"{process.label} ended by itself (exit code {process.popen.returncode}); its log ends:\n"
                f"{process.tail()}"
            )
        self.hand_out_log(process)
        if process.on_exit is not None:
            process.on_exit()

    def hang_up(self) -> None:
        """Its processes are gone: tell the far ends of what they had connected to, in the order of these."""
        for _, end in sorted(self._ends.values(), key=lambda numbered: numbered[0]):
            end.hang_up()

    def hand_out_log(self, process: RealProcess) -> None:
        """Append what a process has said to the log of its name, if it has said it elsewhere."""
        if self._log_dir is not None and process.log.parent != self._log_dir:
            with contextlib.suppress(OSError):
                append(self._log_dir / f"{process.label}.log", process.log)

    def adopt(self, process: RealProcess, seed: int) -> None:
        """Take over a process that another machine has released; its entropy is drawn anew."""
        self.processes.append(process)
        self.world.attend(process.number, self)
        self.world.time.reseed(process.number, seed)
        self.world.hold(process.number, False)
        self.set_clock()
        self._agree()
        self._halves_ended = self._halves()

    def release(self, process: RealProcess) -> None:
        """Let another machine have a process; until then it is not woken."""
        self.world.hold(process.number, True)
        self.processes.remove(process)
        process.on_exit = None

    # Clock and pauses

    def set_clock(self) -> None:
        """Give its processes the wall clock of the host."""
        for process in self.processes:
            self.world.set_wall(process.number, self.host.clock)

    def hold(self) -> None:
        """Neither wake nor feed its processes."""
        for process in self.processes:
            self.world.hold(process.number, True)

    def go_on(self) -> None:
        """Feed them what came in meanwhile, and let their deadlines count."""
        for process in self.processes:
            self.world.hold(process.number, False)
        backlog, self._backlog = self._backlog, []
        for act in backlog:
            self.give(act)

    # What is given to them

    def give(self, act: Callable[[], object]) -> None:
        """Do something that a process notices, such as a write to its socket; in a pause, when it is over."""
        if self.host.paused:
            self._backlog.append(act)
            return
        for process in self.processes:
            self.world.stir(process.number)
        act()

    # What they send

    def add(self, end: End) -> int:
        """Read this descriptor whenever the processes may have written to it; return its number."""
        self._made += 1
        self._ends[end.fileno()] = self._made, end
        self._epoll.register(end.fileno(), WATCHED)
        return self._made

    def forget(self, end: End) -> None:
        """Read it no more."""
        if self._ends.pop(end.fileno(), None) is not None:
            self._epoll.unregister(end.fileno())

    def attend(self, *, one_ended: bool = True) -> None:
        """Read what its processes have sent, in the order in which the connections were made.

        ``one_ended``: whether one of them may have ended.
        """
        give_up_s = 0.0
        halves = self._halves()
        self.waits_for_ends, self._halves_ended = halves != self._halves_ended, halves
        while True:
            ready = self._epoll.poll(0)
            if ready and not self._take(ready):
                continue
            if self._taken >= self._written() or self._closed_one:
                break
            # Loopback delivers late on a busy machine: what was written is on its way.
            now_s = time.perf_counter()
            give_up_s = give_up_s or now_s + SENT_WITHIN_S
            if now_s > give_up_s:
                break
        for _, end in sorted(self._gathered.items()):
            end.hand_on()
        self._gathered.clear()
        self._agree()
        if one_ended:
            for process in list(self.processes):
                if process.popen.poll() is not None:
                    self._bury(process)

    def _take(self, ready: list[tuple[int, int]]) -> bool:
        """Read these descriptors; whether that was all.

        An end may come after what was read, and a connection that was taken in may have brought something.
        """
        ends, made, self.more_to_read = self._ends, self._made, False
        if len(ready) == 1:
            self._taken += ends[ready[0][0]][1].ready()
        else:
            for _, end in sorted(ends[fd] for fd, _ in ready):
                if end.fileno() in ends:  # one before it may have closed it
                    self._taken += end.ready()
        ended = any(what != select.EPOLLIN for _, what in ready)
        return not (ended or self.more_to_read or self._made != made)

    def gather(self, end: Gathering) -> None:
        """Let an end hand on all that it has read once everything that was written has been read.

        How it was cut into pieces is the kernel's: two writes may come as one, or one of them later.
        """
        self._gathered.setdefault(end.number, end)

    def note_closed(self) -> None:
        """A connection was closed on this side: what its process wrote to it will not be read."""
        self._closed_one = True

    def _written(self) -> int:
        written = 0
        for process in self.processes:
            written += self.world.time.written(process.number)
        return written

    def _halves(self) -> int:
        ended = 0
        for process in self.processes:
            ended += self.world.time.halves_ended(process.number)
        return ended

    def _agree(self) -> None:
        self._taken, self._closed_one = self._written(), False
