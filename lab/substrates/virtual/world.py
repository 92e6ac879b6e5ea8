"""The conductor: a simulated world in which some machines are real processes.

Time moves only while every process is quiet, that is while all of its threads sleep in the kernel. Then
either the next event of the world happens, or the one thread is woken whose deadline has come; after it the
world waits until the processes that this concerned are quiet again, and reads what they have sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from heapq import heappop
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from lab import tools
from lab.durations import format_duration
from lab.errors import LabError
from lab.processes import computed_s, too_many_files
from lab.shims.virtual_time import NO_DEADLINE_NS, NotQuiet, VirtualTime
from lab.substrates.sim.clock import MONOTONIC_START_NS, S_NS, WALL_START_NS, Clock
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.loop import HostLoop
from lab.substrates.sim.world import LIMIT_NS, World
from lab.substrates.virtual import not_in_virtual_time

LOOKS_EVERY_NS: Final = 100_000_000
LOOKS_EVERY: Final = 64
"""After so much virtual time, or so many moves of it, it is seen whether a process waits for real time."""
SETTLES_WITHIN_NS: Final = 120 * S_NS
"""How long timers that a driver has left behind, and tries of its library's, may take in virtual time."""
SLOW_S: Final = 0.5
"""After a process took so long in real time to get quiet, its processor time is looked at."""
COMPUTES_MAX_S: Final = 10.0
"""How much processor time a process may take in ``COMPUTES_WITHIN_NS`` of virtual time, in seconds.

One that reads the clock again and again is given time, in small steps, so that it is quiet now and then; a
server in a script without end is such a one, and would take minutes for each second of virtual time.
"""
COMPUTES_WITHIN_NS: Final = S_NS
MEMORY: Final = Path("/dev/shm")
ROOM_BYTES: Final = 1 << 28
PLACES: Final = ("TMPDIR", "TEMP", "TMP")
"""The variables that name the place of temporary files."""
IN_REAL_TIME: Final = "such a program runs --on local, in real time"


NEVER_NS: Final = 1 << 62
"""Later than all that happens in a world, and earlier than ``NO_DEADLINE_NS`` in its time."""


class _Computing(NamedTuple):
    """A process that was slow to get quiet: since when, in virtual time, and its processor time then."""

    since_ns: int
    before_s: float


class _Endless(Exception):
    """A process computes on and on while hardly any time passes; the text says so."""

    def __init__(self, number: int, sentence: str) -> None:
        super().__init__(sentence)
        self.number = number


class Attended(Protocol):
    """A machine of real processes."""

    def attend(self, *, one_ended: bool = True) -> None:
        """Read what its processes have sent, and notice those that have ended, if one may have."""
        ...

    def kill(self) -> None:
        """End its processes at once; that they end is no failure of its own."""
        ...

    def end(self) -> None:
        """The same, and let go of what it holds."""
        ...

    def when_endless(self, number: int) -> tuple[str, str]:
        """What its process of this number is called, and what to do if that computes without end."""
        ...


class Conductor:
    """The time that real processes share, and where they and their files are; it may outlive a world.

    Raises:
        LabError: the preload library, the conductor's or a server cannot be had on this machine.
    """

    def __init__(self, wall_ns: int = WALL_START_NS) -> None:
        preload, library = tools.require("vtime-shim"), tools.require("conductor")
        self._servers: dict[str, Path] = {}
        """By what was asked for."""
        self.scratch = Path(tempfile.mkdtemp(prefix="lock-lab-", dir=_in_memory()))
        self.wall_ns = wall_ns
        """What the wall clock shows where monotonic time is ``MONOTONIC_START_NS``."""
        self.time = VirtualTime(
            self.scratch / "time",
            preload=preload,
            conductor=library,
            now_ns=MONOTONIC_START_NS,
            wall_ns=wall_ns,
        )
        self.machines: dict[int, Attended] = {}
        """Whose process has which number."""

    def redis_server(self, wanted: str) -> Path:
        """The program of nodes, the default if ``wanted`` is empty; not for code of a host: it is started.

        Raises ``LabError``: it is not here, or does not run in virtual time.
        """
        if wanted not in self._servers:
            path = tools.require(wanted or "redis-server")
            if (reason := not_in_virtual_time(wanted)) is not None:
                raise LabError(f"{reason}, so it does not run in virtual time", hint=IN_REAL_TIME)
            self._servers[wanted] = path
        return self._servers[wanted]

    def close(self) -> None:
        """End every process."""
        for machine in dict.fromkeys(self.machines.values()):
            machine.end()
        self.time.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


class VirtualWorld(World):
    """A world that also moves real processes.

    Args:
        seed: what all is drawn from.
        conductor: whose processes these are, some of which were there before: the world then begins at a
            whole second of their time, as it does with a conductor of its own, which it ends.
    """

    def __init__(self, seed: int, conductor: Conductor | None = None) -> None:
        super().__init__(seed)
        self.conductor = Conductor() if conductor is None else conductor
        self._owns_it = conductor is None
        self.time = time = self.conductor.time
        time.advance(time.now_ns + -time.now_ns % S_NS)  # runtimes count in whole milliseconds
        self._origin_ns = self.time.now_ns
        """What the processes' monotonic clock shows when the world begins."""
        self._stirred: dict[int, None] = {}
        self._ran: set[int] = set()
        """The processes that have run since it was seen that none waits for real time."""
        self._looked_ns = self._moves = 0
        self._refused = False
        self._computing: dict[int, _Computing] = {}
        self._ranks: dict[int, int] = {}
        """By number, in which order processes came into this world: their numbers depend on others before."""
        self.at_end: list[Callable[[], object]] = []
        """What is to be done with the processes when all is over."""
        self._due_ns = NO_DEADLINE_NS
        """The next deadline of a thread, by the processes' clock, if it is known."""
        self._due_is_known = False
        self._ties = self.random("ties")
        self.deliveries = self.wakes = 0
        """How often something was given to a process, and a thread woken."""

    def attend(self, number: int, machine: Attended) -> None:
        """From now on this machine has the process of this number."""
        self.conductor.machines[number] = machine
        self._ranks[number] = len(self._ranks)
        self._due_is_known = False

    def dismiss(self, number: int) -> None:
        """The process of this number is gone, with all that it started."""
        self.conductor.machines.pop(number, None)
        self._stirred.pop(number, None)
        self._ran.discard(number)
        self.time.retire(number)
        self._due_is_known = False

    def stir(self, number: int) -> None:
        """Note that a process is about to be given something: time stands still until it is quiet again."""
        self.deliveries += 1
        self.time.touch(number)
        self._stirred[number] = None

    def hold(self, number: int, held: bool) -> None:
        """Whether the deadlines of a process count."""
        self.time.hold(number, held)
        self._due_is_known = False

    def settle(self) -> None:
        """Wait until every process that was given something is quiet, and read what it has sent.

        Raises:
            SimulationError: one does not get quiet: it computes without end, or waits outside virtual time.
        """
        self._due_is_known = False
        machines = self.conductor.machines
        while self._stirred:
            stirred = [*self._stirred]
            self._stirred.clear()
            self._ran.update(stirred)
            try:
                began_s = time.perf_counter()
                one_ended = self.time.settle()
                if time.perf_counter() - began_s > SLOW_S:
                    self._refuse_endless(stirred)
                self._due_ns, self._due_is_known = self.time.settled_until_ns, True
            except (NotQuiet, _Endless) as error:
                raise self._ended_endless(error) from error
            if len(stirred) > 1:
                stirred.sort(key=self._rank)
                attended = list(dict.fromkeys(map(machines.get, stirred)))
            else:
                attended = [machines.get(stirred[0])]
            for machine in attended:
                if machine is not None:
                    machine.attend(one_ended=one_ended)

    def _ended_endless(self, error: NotQuiet | _Endless) -> SimulationError:
        """End the processes of a machine of which one computes without end, and return what to say of it.

        Else each later event of the run, of which its end has many, would wait for them as long again.
        """
        machine = self.conductor.machines.get(error.number)
        name, hint = ("", IN_REAL_TIME) if machine is None else machine.when_endless(error.number)
        if machine is not None:
            machine.kill()
        seen = f"{name}: {error}" if name else str(error)
        expected = "a process that sleeps in libc's functions" if isinstance(error, NotQuiet) else None
        return SimulationError(seen, expected=expected, hint=hint)

    def _refuse_endless(self, numbers: Sequence[int]) -> None:
        """Raise ``_Endless`` if one of these processes takes too much processor time for what time passes."""
        for number in numbers:
            pid = self.time.arrived(number)
            if pid is None:
                continue
            computed, began = computed_s(pid), self._computing.get(number)
            if began is None or self.now_ns - began.since_ns > COMPUTES_WITHIN_NS:
                self._computing[number] = _Computing(self.now_ns, computed)
            elif computed - began.before_s > COMPUTES_MAX_S:
                passed = format_duration(self.now_ns - began.since_ns)
                sentence = (
                    f"process {pid} computes without end: it took {computed - began.before_s:.0f} s of "
                    f"processor time while {passed} passed in virtual time"
                )
                raise _Endless(number, sentence)

    async def outside(self, act: Callable[[], object]) -> None:
        """Do something to real processes or sockets, for code of a host, outside of every host's code.

        Raises whatever ``act`` raises.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HostLoop)
        done: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            raised: Exception | None = None
            try:
                act()
                self.settle()
            except Exception as error:  # noqa: BLE001 - the host's code gets it
                raised = error
            loop.on_io(_finish, done, raised)

        self.at(self.now_ns, run)
        await done

    def set_wall(self, number: int, clock: Clock) -> None:
        """Give a process the wall clock of a host."""
        passed_ns = self._origin_ns - MONOTONIC_START_NS
        true_ns = clock.wall_ns() - clock.shift_ns() - self.now_ns - self.conductor.wall_ns
        offset_ns = true_ns - passed_ns + clock.shift_ns()
        self.time.set_wall(number, offset_ns, clock.wall_ppm() * 1000, self.time.now_ns)
        self._due_is_known = False  # a deadline on the wall clock moves with it

    def end(self) -> None:
        """Forget all that was still to happen; end every process, unless the conductor goes on."""
        super().end()
        for act in self.at_end:
            act()
        if self._owns_it:
            self.conductor.close()

    def _go_on(self, done: Callable[[], object], end_ns: int) -> None:
        heap = self.heap
        while not done() and self.now_ns < end_ns:
            due_ns = self._next_due_ns()
            if heap and heap[0][0] <= due_ns:
                at_ns, _, happens, arguments = heappop(heap)
            elif due_ns < NEVER_NS:
                at_ns, happens, arguments = due_ns, self._wake, ()
            else:
                raise SimulationError("nothing is left to happen, and a client still waits")
            if at_ns > self.now_ns:
                self._moves += 1
                if at_ns - self._looked_ns >= LOOKS_EVERY_NS or self._moves % LOOKS_EVERY == 0:
                    self._refuse_real_waits()
                self._move_to(at_ns)
            try:  # let one thing happen, and its consequences up to where all processes are quiet
                happens(*arguments)
                if self._stirred:
                    self.settle()
            except Exception as error:  # noqa: BLE001 - whatever it is, the run is told
                self._failed(error)

    def run_out(self, done: Callable[[], bool]) -> None:
        """Wake processes, and let nothing else happen, until ``done`` or ``SETTLES_WITHIN_NS`` later.

        Raises:
            SimulationError: one does not get quiet.
        """
        end_ns = self.now_ns + SETTLES_WITHIN_NS
        self.settle()
        while not done() and (due_ns := self._next_due_ns()) <= end_ns:
            self._move_to(due_ns)
            self._wake()
            self.settle()

    def _refuse_real_waits(self) -> None:
        """See that no process that is quiet only waits for its turn in real time, past libc.

        Raises ``SimulationError``, or ends the run: it would do something later, when nobody expects it.
        """
        self._looked_ns = self.now_ns
        ran, self._ran = sorted(self._ran), set()
        for number in ran:
            sentence = None if self._refused else self.time.unseen_wait(number)
            if sentence is not None:
                self._refused = True  # once is enough: the run ends
                expected = "a program that waits by libc's functions"
                self._failed(SimulationError(sentence, expected=expected, hint=IN_REAL_TIME))

    def _failed(self, cause: Exception) -> None:
        """End the run for what was raised while something happened."""
        error = cause
        if not isinstance(error, SimulationError):
            seen, hint = f"the conductor itself failed: {type(cause).__name__}: {cause}", None
            if (few := too_many_files(cause)) is not None:
                seen, hint = few.seen, few.hint
            error = SimulationError(seen, hint=hint)
            error.__cause__ = cause
        if self.on_violation is None:
            raise error from cause
        self.violate(error)

    def _next_due_ns(self) -> int:
        """When the next deadline of a thread comes, in the world's time; one missed in a pause comes now.

        ``NEVER_NS`` or later if there is none. It changes only when a process has run, or its clock has.
        """
        if not self._due_is_known:
            self._due_ns, self._due_is_known = self.time.next_deadline_ns(), True
        due_ns = self._due_ns - self._origin_ns
        return due_ns if due_ns > self.now_ns else self.now_ns

    def _wake(self) -> None:
        """Wake one of the threads whose deadline has come; which one is drawn, if there are several."""
        due = self.time.due()
        assert due is not None
        slots: Sequence[tuple[int, int]] = due.slots
        if len(slots) > 1:
            ranks = {number: self._rank(self.time.group(number)) for number, _ in slots}
            slots = sorted(slots, key=lambda each: (ranks[each[0]], each))
        number, slot = slots[self._ties.randrange(len(slots)) if len(slots) > 1 else 0]
        self.wakes += 1
        self.time.wake(number, slot)
        self._stirred[self.time.group(number)] = None

    def _rank(self, number: int) -> tuple[int, int]:
        return self._ranks.get(number, len(self._ranks)), number

    def _move_to(self, now_ns: int) -> None:
        if now_ns > LIMIT_NS:
            raise SimulationError("a week has passed in virtual time, and a client still waits")
        if now_ns > self.now_ns:
            self.now_ns = now_ns
            self.time.advance(self._origin_ns + now_ns)


def _in_memory() -> Path | None:
    """A file system in memory with room, where a sync to the disk costs nothing; None: the usual place.

    The usual one as well if the environment names it.
    """
    with contextlib.suppress(OSError):
        if not any(map(os.environ.get, PLACES)) and os.access(MEMORY, os.W_OK | os.X_OK):
            return MEMORY if shutil.disk_usage(MEMORY).free >= ROOM_BYTES else None
    return None


def _finish(done: asyncio.Future[None], raised: Exception | None) -> None:
    if done.done():
        return
    if raised is None:
        done.set_result(None)
    else:
        done.set_exception(raised)
