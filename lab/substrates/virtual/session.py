"""What many worlds in one process share: the conductor, and processes that are as good as new.

Runs and trials use it one after the other. A driver is kept if it has closed what it opened, and has no
more threads that wait than when it was new (``DriverMachine``); a server is copied from one that stands
still, with its files and sockets as they were (``Template``). Whatever is not known to be so is ended.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from lab import tools
from lab.processes import kill_all
from lab.shims.virtual_time import can_copy
from lab.substrates.run_files import RunFile
from lab.substrates.sim.patches import simulating
from lab.substrates.virtual.one_cpu import OneCpu
from lab.substrates.virtual.process import RealProcess
from lab.substrates.virtual.template import ServerProgram, Template
from lab.substrates.virtual.world import Conductor

LOGS: Final = "logs"
IDLE_MAX: Final = 16
TEMPLATES_MAX: Final = 48
"""How many are kept; the oldest are ended first."""
COLLECT_EVERY: Final = 50
"""Runs between two garbage collections: there are none while something is simulated."""


class Session:
    """What worlds share; the conductor is made with the first of them."""

    def __init__(self) -> None:
        self._conductor: Conductor | None = None
        self._run_file: RunFile | None = None
        self.is_open = False
        """Whether runs share their processes."""
        self.cpu: OneCpu | None = None
        """The CPU on which all of them run, once there is a conductor."""
        self.run_id = ""
        self.started = 0
        """How many drivers were started."""
        self.waits_when_new: dict[int, int] = {}
        """How many threads of a process waited for a time before it was asked anything."""
        self.waits_at_rest: dict[int, int] = {}
        """How many did after its first world: a JVM has threads that always do."""
        self._idle: dict[tuple[str, tuple[str, ...]], RealProcess] = {}
        self._templates: dict[ServerProgram, Template] = {}
        self._tools: dict[str, Path] = {}
        self._names = 0
        self._runs = self._users = 0

    @property
    def conductor(self) -> Conductor:
        """The conductor. Raises ``LabError``: its libraries cannot be had."""
        if self._conductor is None:
            self._conductor = Conductor()
            self.run_id = f"session-{self._conductor.scratch.name}"
            self._run_file = RunFile(self.run_id, self._conductor.scratch)
            self.logs.mkdir()
            self.cpu = OneCpu()
        return self._conductor

    @property
    def logs(self) -> Path:
        """Where the logs of processes are that may be used again."""
        return self.conductor.scratch / LOGS

    def serves(self, conductor: Conductor) -> bool:
        """Whether this conductor is the one that is shared."""
        return conductor is self._conductor

    def new_name(self, name: str) -> str:
        """A name for a file or a directory that none has yet."""
        self._names += 1
        return f"{name}-{self._names}"

    def new_log(self, label: str) -> Path:
        """A log for a process that may be used again."""
        return self.logs / f"{self.new_name(label)}.log"

    def tool(self, name: str) -> Path:
        """The path of a program or a library, looked for once. Raises ``LabError``: it is not to be had."""
        if name not in self._tools:
            self._tools[name] = tools.require(name)
        return self._tools[name]

    # Drivers

    def take(self, client: str, command: Sequence[str]) -> RealProcess | None:
        """A driver that this client has used before, and that has closed what it opened."""
        return self._idle.pop((client, tuple(command)), None)

    def keep(self, client: str, process: RealProcess) -> None:
        """Keep a driver for a later world."""
        before = self._idle.pop((client, process.command), None)
        self._idle[client, process.command] = process
        if before is None and len(self._idle) > IDLE_MAX:
            before = self._idle.pop(next(iter(self._idle)))
        if before is not None:
            self._end(before)

    def rests_already(self, number: int) -> bool:
        """Whether no thread of a process waits for a time, beside those that always do."""
        return self.conductor.time.waiting(number) <= self.waits_at_rest.get(number, 0)

    def rests(self, number: int) -> bool:
        """Whether no more threads wait than at the end of its last world, or than when it was new.

        To be asked when timers had time to run out.
        """
        waits = self.conductor.time.waiting(number)
        if waits > self.waits_at_rest.get(number, self.waits_when_new[number]):
            return False
        self.waits_at_rest[number] = waits
        return True

    # Servers

    def template(self, program: ServerProgram) -> Template | None:
        """A server that stands still, and that is now as it was when it came to stand there."""
        found = self._templates.pop(program, None)
        if found is None:
            return None
        if not found.reset():
            self._end(found.process)
            return None
        self._templates[program] = found  # the last that was used is the last in the row
        return found

    def add_template(self, program: ServerProgram, template: Template) -> None:
        """Keep a server that stands still."""
        self._templates[program] = template
        if len(self._templates) > TEMPLATES_MAX:
            self._end(self._templates.pop(next(iter(self._templates))).process)

    def _end(self, process: RealProcess) -> None:
        process.end()
        if self._conductor is not None:
            self._conductor.machines.pop(process.number, None)
            self._conductor.time.retire(process.number)

    # The end

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Processes are kept inside; when nobody uses the session any more, they are ended."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self.close()

    @contextlib.contextmanager
    def run(self) -> Iterator[Session | None]:
        """Let one run take place inside: with this session if it is open, else without.

        A run that ends by an exception costs all processes: what they are in the middle of is not known.
        """
        if not self.is_open:
            yield None
            return
        try:
            yield self
        except BaseException:
            self.discard()
            raise
        self._runs += 1
        if self._runs % COLLECT_EVERY == 0:
            gc.collect()

    def discard(self) -> None:
        """End every process, also one that nobody knows of yet; the next world has new ones."""
        run_id, known = self.run_id, self._conductor is not None
        self.close()
        if known:
            kill_all(run_id)

    def close(self) -> None:
        """End every process."""
        for process in (*self._idle.values(), *(each.process for each in self._templates.values())):
            process.end()
        self._idle.clear()
        self._templates.clear()
        self._tools.clear()
        if self._conductor is not None:
            self._conductor.close()
        if self._run_file is not None:
            self._run_file.close()
        if self.cpu is not None:
            self.cpu.close()
        self._conductor = self._run_file = self.cpu = None


SESSION: Final = Session()
"""There is one: runs and trials take place one after the other in a process."""


@contextlib.contextmanager
def shared_processes() -> Iterator[None]:
    """Let runs inside use the processes of those before them, where these are as good as new.

    Histories are the same as without. May be nested. For programs that run one after the other, in the main
    thread; nothing of what runs have started is left afterwards. Where servers cannot be copied, each run
    starts its own.
    """
    if SESSION.is_open:
        yield
        return
    with simulating(), SESSION.in_use():
        if not can_copy():
            yield
            return
        SESSION.is_open = True
        try:
            yield
        finally:
            SESSION.is_open = False
