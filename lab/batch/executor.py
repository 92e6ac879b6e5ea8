"""Jobs on worker processes, each of which may die or hang without losing the results of the others.

In the pools of ``concurrent.futures`` and ``multiprocessing`` the death of a worker breaks the pool or is not
noticed, and the job that caused it is not known. Here a worker answers its jobs in their order, so the one
that was running is known: it gets another try, and other workers get those that the dead one had not begun.

A worker is a process of its own because a simulation changes clocks and entropy of the whole process, and
because a job may crash its process. Workers are on this machine, or where another ``Place`` has them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import pickle
import resource
import secrets
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from lab.batch.preload import TEAR_DOWN_S, Child, Died
from lab.errors import LabError, UnknownOutcome
from lab.substrates.cleanup import sweep
from lab.substrates.interruption import Interrupted

Q = TypeVar("Q")
"""What a job is about."""
A = TypeVar("A")
"""What is answered."""

COLLECT_EVERY: Final = 64
"""Jobs between two garbage collections if the session has disabled the collector."""


class Work(NamedTuple):
    """What workers do with each job; both are pickled.

    ``function`` is called with the job's argument; its result, or what it raises, is the answer. ``session``
    makes the context in which all calls of a process take place.
    """

    function: Callable[[Any], Any]
    session: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True, slots=True)
class Rules:
    """How one use of workers differs from others."""

    tries: int = 2
    """How often a job may end its worker before it is given up."""
    starts: int = 1
    """How often in a row a worker may fail to start."""
    deaths: int | None = None
    """After so many deaths in a row, with no answer in between, no more workers are started."""
    ahead: int = 1
    """How many jobs a worker has at a time, so that it need not wait for the next one."""
    quick_s: float = math.inf
    """If its last job took longer than this, or there was none, it has one at a time."""
    fresh: bool = False
    """Each job has a worker of its own, which ends with it."""
    hangs_s: float | None = None
    """A worker that has not answered for so long, in real time, is ended; its job gets no second try."""
    ends_within_s: float = TEAR_DOWN_S
    """How long a worker may take to end what it started, before it is killed and that is swept up."""
    caller_helps: bool = False
    """The caller runs jobs too: with too few workers it goes on, and no job fails for that."""


class Lost(UnknownOutcome):
    """A job ended each worker that ran it; ``why`` says how the last one ended, without a subject."""

    def __init__(self, seen: str, why: str = "") -> None:
        super().__init__(seen)
        self.why = why


class NotStarted(UnknownOutcome):
    """No process could be started; ``reason`` is why, in a few words."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"no process could be started: {describe(error)}")
        self.reason = getattr(error, "strerror", None) or str(error)


class CannotRun(LabError):
    """No worker can do this work: it cannot be imported where they are."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"a worker cannot run this: {why}",
            expected="a task that another process can import and run",
            hint="are the lab and the lock under test the same there as here?",
        )


class Job(Generic[Q, A]):
    """Something that is asked, and its answer."""

    __slots__ = ("answer", "argument", "deaths", "done", "error", "line")

    def __init__(self, argument: Q, line: bytes | None = None) -> None:
        self.argument, self.line = argument, line
        """``line`` is the argument as workers get it, if it was pickled by somebody else."""
        self.answer: A | None = None
        self.error: Exception | None = None
        self.done = False
        self.deaths = 0
        """How many workers ended while they ran it."""

    def result(self) -> A:
        """The answer of a job that is done. Raises what the function raised, or ``LabError``: it was lost."""
        assert self.done
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value]  # it is done


class Taken(NamedTuple):
    """What a worker has sent: an answer or an error for some of its jobs, and processor times by process.

    Jobs are numbered as it has them, from 0 on.
    """

    answers: Mapping[int, tuple[Any, Exception | None]] = MappingProxyType({})
    cpu_s: Mapping[str, float] = MappingProxyType({})
    returned: bool = False
    """Whether it gives back all other jobs that it has, and has not begun them."""
    over: bool = False
    """Whether it gets no other job."""


class Worker(Protocol):
    """Somebody who answers jobs in the order in which they were given."""

    @property
    def ready(self) -> bool:
        """Whether its session has begun."""
        ...

    def suspects(self, has: int) -> int:
        """If it ends now: how many of the jobs that it has, from the first on, may be the reason."""
        ...

    @property
    def pid(self) -> int:
        """Its process id on this machine; 0 if it is elsewhere."""
        ...

    def fileno(self) -> int:
        """The descriptor that can be read when ``take`` returns at once."""
        ...

    def room(self, has: int, queued: int) -> int:
        """How many more jobs it may get: it has so many, and so many wait."""
        ...

    def give(self, lines: list[bytes]) -> None:
        """Give it jobs. Raises ``Died``."""
        ...

    def take(self) -> Taken:
        """What it has answered.

        Raises:
            Died: it ended.
            LabError: no worker can do this work, or all workers are lost.
        """
        ...

    def stop(self) -> None:
        """Interrupt what it does, without waiting."""
        ...

    def end(self, within_s: float) -> bool:
        """End it; whether it ended by itself, and without an error."""
        ...


class Place(Protocol):
    """Where workers are."""

    def start(self, work: bytes, rules: Rules, *, forked: bool) -> Worker:
        """Start one. Raises ``OSError`` or ``EOFError``: that is not possible."""
        ...

    def close(self) -> None:
        """Nothing more is started there."""
        ...


@dataclass(eq=False)
class _Held:
    """A worker, and what it was given."""

    worker: Worker
    under_way: list[Job[Any, Any]] = field(default_factory=list)
    answered: int = 0
    since_s: float = field(default_factory=time.monotonic)
    """When it began with what it does."""


class Executor(Generic[Q, A]):
    """Gives jobs to as many as ``size`` workers; end it with ``close``, or use it with ``with``.

    It is for one thread, and does nothing by itself: call ``receive``, when ``fileno`` can be read or at
    other times. Workers are started when there are jobs for them.

    Args:
        work: what workers do, or that as pickled by another executor.
        size: how many workers there may be.
        rules: see there.
        place: where they are; on this machine if None.
    """

    def __init__(self, work: Work | bytes, size: int, rules: Rules, place: Place | None = None) -> None:
        self._work = work if isinstance(work, bytes) else pickle.dumps(work)
        self.size, self.rules = size, rules
        self._place = Local() if place is None else place
        self._held: list[_Held] = []
        self._todo: deque[Job[Q, A]] = deque()
        self._done: list[Job[Q, A]] = []
        self._ready = select.epoll()
        self._failed_starts = self._deaths = 0
        self._reaped_s = 0.0
        self.cpu_s: dict[str, float] = {}
        """Processor time of each worker, also of those that have ended, with what they have started."""
        self.started = 0
        """How many workers were started."""
        self.failure: LabError | None = None
        """Why no more workers were started the last time when that was so."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def queued(self) -> int:
        """How many jobs no worker has yet."""
        return len(self._todo)

    @property
    def ready(self) -> bool:
        """Whether a worker has begun its session."""
        return any(held.worker.ready for held in self._held)

    @property
    def helping(self) -> int:
        """How many workers have answered already: they, and what they start, have started."""
        return sum(held.answered > 0 for held in self._held)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers on this machine."""
        return [held.worker.pid for held in self._held if held.worker.pid]

    def here_s(self) -> float:
        """Processor time of this process and its children, without the workers."""
        return processor_s(without=self.pids) - self._reaped_s

    def fileno(self) -> int:
        """The descriptor that can be read when ``receive`` has something to do."""
        return self._ready.fileno()

    def start(self, *, forked: bool = False) -> None:
        """Start all workers now; ``forked``: made of this process, and not of a server."""
        while len(self._held) < self.size and self._start_one(forked=forked):
            pass

    def submit(self, *jobs: Job[Q, A], first: bool = False) -> None:
        """Let these be run after all others, or before them."""
        if first:
            self._todo.extendleft(reversed(jobs))
        else:
            self._todo.extend(jobs)

    def forget(self, jobs: Iterable[Job[Q, A]]) -> None:
        """Do not begin these any more."""
        left = set(jobs)
        self._todo = deque(job for job in self._todo if job not in left)

    def cancel(self, job: Job[Q, A]) -> None:
        """Do not begin a job any more, or interrupt it, which ends its worker in time."""
        self.forget([job])
        for held in self._held:
            if held.under_way and held.under_way[0] is job:
                held.worker.stop()

    def reclaim(self, wanted: Job[Q, A]) -> Job[Q, A] | None:
        """A job for the caller to run: this one if no worker has it, or else the next that ended none."""
        among = (wanted,) if wanted in self._todo else self._todo
        found = next((job for job in among if not job.deaths), None)
        if found is not None:
            self._todo.remove(found)
        return found

    def receive(self, wait_s: float = 0.0) -> list[Job[Q, A]]:
        """Give out jobs, take answers, and return the jobs that are done; with none, wait for so long."""
        self._give_out()
        for held in self._sent(0 if self._done else wait_s):
            if held in self._held:  # it may have ended with another
                self._take(held)
        if self.rules.hangs_s is not None:
            self._end_what_hangs(self.rules.hangs_s)
        self._give_out()
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        """End the workers; those that run a job are interrupted, and tear down what it has started."""
        self.size = 0
        self._todo.clear()
        for held in self._sent(0):
            if not held.worker.ready and held in self._held:
                self._take(held)
        ending, self._held = self._held, []
        for held in ending:
            if held.worker.ready:
                held.worker.stop()
        give_up_s = time.monotonic() + self.rules.ends_within_s
        well = [
            # One that is not ready may not be able to be interrupted yet, and has started nothing.
            self._end(held, max(0.0, give_up_s - time.monotonic()) if held.worker.ready else 0.0)
            for held in ending
        ]
        if not all(well):
            sweep()
        self._ready.close()
        self._place.close()

    def _sent(self, wait_s: float) -> list[_Held]:
        """The workers of which there is something to take; if there are none, wait for so long."""
        ready = self._ready.poll(wait_s)
        by_number = {held.worker.fileno(): held for held in self._held} if ready else {}
        return [by_number[number] for number, _ in ready]

    def _give_out(self) -> None:
        """Start the workers that are needed, and give them what they may have."""
        idle = sum(not held.under_way for held in self._held)
        while self._todo and len(self._held) < self.size and idle < len(self._todo) and self._start_one():
            idle += 1
        while self._todo:
            rooms = [(held.worker.room(len(held.under_way), len(self._todo)), held) for held in self._held]
            free = [each for each in rooms if each[0] > 0]
            if not free:
                return
            room, held = min(free, key=lambda each: len(each[1].under_way))
            self._give(held, min(room, len(self._todo)))

    def _give(self, held: _Held, at_once: int) -> None:
        """Give a worker the next jobs; one that has ended a worker goes alone."""
        if not held.under_way:
            held.since_s = time.monotonic()
        jobs = [self._todo.popleft()]
        while len(jobs) < at_once and not jobs[0].deaths and not self._todo[0].deaths:
            jobs.append(self._todo.popleft())
        held.under_way += jobs
        try:
            held.worker.give([pickle.dumps(job.argument) if job.line is None else job.line for job in jobs])
        except Died as death:
            self._lose(held, death)

    def _start_one(self, *, forked: bool = False) -> bool:
        """Start a worker. Whether that was possible."""
        try:
            worker = self._place.start(self._work, self.rules, forked=forked)
        except (OSError, EOFError) as error:
            self._go_on_with_fewer(NotStarted(error))
            return False
        self.started += 1
        self._held.append(_Held(worker))
        self._ready.register(worker.fileno(), select.EPOLLIN)
        return True

    def _take(self, held: _Held) -> None:
        """A worker has sent something, or has ended."""
        try:
            taken = held.worker.take()
        except Died as death:
            self._lose(held, death)
            return
        except LabError as error:
            while self._held:
                self._drop(self._held[0])
            sweep()
            self._go_on_with_fewer(error)
            return
        self.cpu_s |= taken.cpu_s
        self._failed_starts = 0
        if taken.answers:
            for at, answer in taken.answers.items():
                self._finish(held.under_way[at], *answer)
            held.under_way = [job for job in held.under_way if not job.done]
            held.answered += len(taken.answers)
            held.since_s = time.monotonic()
            self._deaths = 0
        if taken.returned:
            self._todo.extendleft(reversed(held.under_way))
            held.under_way.clear()
        if taken.over:
            self._drop(held)

    def _finish(self, job: Job[Q, A], answer: A | None, error: Exception | None) -> None:
        job.answer, job.error, job.done = answer, error, True
        self._done.append(job)

    def _end_what_hangs(self, hangs_s: float) -> None:
        now_s = time.monotonic()
        for held in self._held[:]:
            # Elsewhere, jobs may wait until others are through; the worker there looks at them itself.
            if held.under_way and held.worker.pid and now_s - held.since_s > hangs_s:
                self._lose(held, None)

    def _lose(self, held: _Held, death: Died | None) -> None:
        """A worker has ended, or hangs: another one gets the job that it ran, once more, and the others."""
        rules = self.rules
        blamed = held.under_way[: held.worker.suspects(len(held.under_way))]
        self._drop(held)
        sweep()  # what it had started
        if death is None:
            lost = Lost(f"it did not come to an end within {rules.hangs_s:.0f} s", "it hangs")
        else:
            lost = Lost(f"the process that ran it ended: {death}", str(death))
        for job in blamed:
            job.deaths += 1
            self._todo.remove(job)
            if death is None or job.deaths >= rules.tries:
                self._finish(job, None, lost)
            else:
                self._todo.append(job)
        if not held.worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= rules.starts:
                self._go_on_with_fewer(
                    UnknownOutcome(
                        f"the workers die at their start: {lost.why}",
                        hint="no result was lost: --resume continues",
                    )
                )
        self._deaths += 1
        if self._deaths == rules.deaths:
            self._go_on_with_fewer(UnknownOutcome(f"processes die: {lost.seen}"))

    def _drop(self, held: _Held) -> None:
        """End a worker at once; what it has not answered waits again, before all else."""
        self._held.remove(held)
        self._end(held, 0.0)
        self._todo.extendleft(reversed(held.under_way))

    def _go_on_with_fewer(self, why: LabError) -> None:
        """No more workers: the caller goes on with those that there are, or else what waits fails."""
        self.failure, self._failed_starts = why, 0
        failing = list(self._todo)
        if self.rules.caller_helps:
            self.size = len(self._held)
            failing = [] if self._held else [job for job in self._todo if job.deaths]
        self.forget(failing)
        for job in failing:
            self._finish(job, None, why)

    def _end(self, held: _Held, within_s: float) -> bool:
        with contextlib.suppress(FileNotFoundError, ValueError):
            self._ready.unregister(held.worker.fileno())
        before_s = _reaped_s()
        well = held.worker.end(within_s)
        self._reaped_s += _reaped_s() - before_s
        return well


class Local:
    """Worker processes of this machine."""

    def __init__(self) -> None:
        # Drivers of a simulation get a processor of their own: those of a worker that is started meanwhile
        # need not be there as well.
        self._affinity = os.sched_getaffinity(0)

    def start(self, work: bytes, rules: Rules, *, forked: bool) -> Worker:
        """Start a process that does this work."""
        paths = [entry or str(Path.cwd()) for entry in sys.path]
        child = Child(_serve, work, paths, self._affinity, forked=forked)
        try:
            child.begin()
        except BaseException:
            child.end()
            raise
        return _Process(child, rules)

    def close(self) -> None:
        """Its processes share nothing."""


class _Process:
    """A worker on this machine."""

    def __init__(self, child: Child, rules: Rules) -> None:
        self._child, self._rules = child, rules
        self._took_s = math.inf
        self.ready = False

    @property
    def pid(self) -> int:
        return self._child.pid

    def fileno(self) -> int:
        return self._child.fileno()

    def suspects(self, has: int) -> int:
        return min(has, 1) if self.ready else 0

    def room(self, has: int, queued: int) -> int:
        return (self._rules.ahead if self._took_s <= self._rules.quick_s else 1) - has

    def give(self, lines: list[bytes]) -> None:
        for line in lines:
            self._child.give(line)

    def take(self) -> Taken:
        message = self._child.take()
        if self.ready:
            answer, error, name, cpu_s, self._took_s = pickle.loads(message)
            return Taken({0: (answer, error)}, {name: cpu_s}, over=self._rules.fresh)
        if message:
            raise CannotRun(message.decode())
        self.ready = True
        return Taken()

    def stop(self) -> None:
        self._child.stop()

    def end(self, within_s: float) -> bool:
        return self._child.end(within_s)


def _serve(pipe: Connection, pickled: bytes, paths: list[str], affinity: set[int]) -> None:
    """A worker: send why the work cannot be loaded, or an empty message; then the answer of each job."""
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGTERM: the caller is gone
        signal.signal(number, _interrupted)
    name = secrets.token_hex(8)
    try:
        with contextlib.ExitStack() as session:
            try:
                os.sched_setaffinity(0, affinity)
                sys.path[:] = [*dict.fromkeys([*paths, *sys.path])]
                work: Work = pickle.loads(pickled)
                session.enter_context(work.session())
            except Interrupted:
                return
            except Exception as error:  # noqa: BLE001 - importing may raise anything
                pipe.send_bytes(describe(error).encode())
                return
            pipe.send_bytes(b"")
            for done in count(1):
                line = pipe.recv_bytes()
                began_s = time.monotonic()
                answer = _answer(work.function, line)
                pipe.send((*answer, name, processor_s(), time.monotonic() - began_s))
                if done % COLLECT_EVERY == 0 and not gc.isenabled():
                    gc.collect()
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt, Interrupted):
        return


def _answer(function: Callable[[Any], Any], line: bytes) -> tuple[Any, Exception | None]:
    """What the function returns, or what it raises, for an argument that was pickled."""
    try:
        return function(pickle.loads(line)), None
    except Interrupted:
        raise  # this process is being ended: the job has no answer
    except Exception as error:  # noqa: BLE001 - whoever asked gets it
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - its class has a constructor of its own
            return None, UnknownOutcome(describe(error))
        return None, error


def _interrupted(*_: object) -> None:
    """End what was started as well, undisturbed by another signal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class Calls(Generic[Q, A]):
    """An executor whose answers are awaited, each by the task that asked; use it with ``async with``."""

    def __init__(self, executor: Executor[Q, A]) -> None:
        self._executor = executor
        self._waiting: dict[Job[Q, A], asyncio.Future[None]] = {}

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._executor.fileno(), self._receive)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._executor.fileno())
        self._executor.close()

    async def call(self, argument: Q) -> A:
        """The answer; when this is cancelled, the worker tears down, at the latest when the context ends.

        Raises what the function raises, or ``LabError``: there is no answer.
        """
        job: Job[Q, A] = Job(argument)
        done = self._waiting[job] = asyncio.get_running_loop().create_future()
        self._executor.submit(job)
        self._receive()
        try:
            await done
        except asyncio.CancelledError:
            self._waiting.pop(job, None)
            self._executor.cancel(job)
            raise
        return job.result()

    def _receive(self) -> None:
        try:
            for job in self._executor.receive():
                if job in self._waiting:  # it may have been cancelled
                    self._waiting.pop(job).set_result(None)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            for waiting in self._waiting.values():
                waiting.set_exception(error)
            self._waiting.clear()


async def readable(file: int) -> None:
    """Wait until the file can be read or has ended, without blocking the loop."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def describe(error: BaseException) -> str:
    """An error on one line, with its class."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def processor_s(without: Iterable[int] = ()) -> float:
    """Processor time of this process and its children, also of those that run yet, in seconds.

    Args:
        without: ids of children that do not count.
    """
    return time.process_time() + _reaped_s() + sum(map(_stat_s, _children() - {*without}))


def _reaped_s() -> float:
    """Processor time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _children() -> set[int]:
    found: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or this kernel does not list them
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _stat_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_S
