"""A client's machine in virtual time: its driver may have served other worlds before, and serve more.

A driver is asked to ``close`` at a world's end, and used again in a later one if it soon has closed, has
answered everything else, and no more of its threads wait for a time than when it was new.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from lab import tools
from lab.shims import NAMES_VARIABLE
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.host import Host
from lab.substrates.virtual.ends import Door, Stream
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.process import RealProcess
from lab.substrates.virtual.session import Session
from lab.substrates.virtual.world import IN_REAL_TIME, VirtualWorld

CLOSING_ID: Final = 2**53 - 1
"""The id of the command ``close``; others count from 1."""
DRAW_ANEW: Final = ("python", "node")
"""How the programs are called in which drivers draw all randomness anew when they open after a ``close``. A
JVM goes on in a stream of its own; of others it is not known."""
CLOSE: Final = msgspec.json.encode({"id": CLOSING_ID, "op": "close"}) + b"\n"


class DriverMachine(RealMachine):
    """A client's machine; with a session its driver may have served other worlds before.

    Args:
        world: the conductor.
        host: whose clock and pauses its processes share.
        run_id: by which what a killed lab leaves behind is found, if there is no session.
        log_dir: where the log is to be at the end; None: nobody wants it.
        failed: told, in a sentence, of a process that ended unasked.
        session: where drivers come from, and are kept.
        to_the_byte: keep only those with which a later world is the same as with a new one, its tokens too.
    """

    ENDLESS_HINT = IN_REAL_TIME

    def __init__(
        self,
        world: VirtualWorld,
        host: Host,
        run_id: str,
        log_dir: Path | None,
        failed: Callable[[str], None],
        session: Session | None,
        *,
        to_the_byte: bool = False,
    ) -> None:
        super().__init__(world, host, session.run_id if session is not None else run_id, log_dir, failed)
        self._session, self._to_the_byte = session, to_the_byte
        self._closing: list[RealProcess] = []

    def start(
        self,
        label: str,
        command: Sequence[str],
        *,
        preloaded: Callable[[dict[str, str]], dict[str, str]] = dict,
        log: Path | None = None,
    ) -> RealProcess:
        """Start the driver, or take one that is there already; its entropy is drawn anew."""
        session = self._session
        process = session.take(self.host.name, command) if session is not None else None
        if process is not None:
            process.lines_given, process.said = 0, b""
            if process.names_file is not None:
                self.write_names(process.names_file)
            self.adopt(process, self.entropy())
            return process
        cpu = session.cpu if session is not None else None
        if session is not None:
            log = session.new_log(label)
        shim, name = self._names_shim(), session.new_name(label) if session is not None else label
        names_file = self.world.conductor.scratch / f"{name}.names"
        self.write_names(names_file)

        def with_names(given: dict[str, str]) -> dict[str, str]:
            before = preloaded(given)
            libraries = f"{shim}:{before['LD_PRELOAD']}"
            return {**before, "LD_PRELOAD": libraries, NAMES_VARIABLE: str(names_file)}

        with cpu.free() if cpu is not None else contextlib.nullcontext():
            process = super().start(label, command, preloaded=with_names, log=log)
            process.names_file = names_file
            self.world.settle()
        if cpu is not None:
            cpu.bind(process.popen.pid)
        if session is not None:
            session.started += 1
            session.waits_at_rest.pop(process.number, None)
            session.waits_when_new[process.number] = self.world.time.waiting(process.number)
        self.world.time.reseed(process.number, self.entropy())
        return process

    def _names_shim(self) -> Path:
        """The library by which it finds servers by their names. Raises ``LabError``."""
        return self._session.tool("names-shim") if self._session is not None else tools.require("names-shim")

    def named(self, process: RealProcess) -> str:
        """The driver by its command: its label is that of its client."""
        return f"the driver {shlex.join(process.command)!r}"

    def ask_to_close(self) -> None:
        """Ask each driver to close what it opened."""
        if self.host.paused:
            self.host.paused = False
            self.go_on()
        for process in self.processes:
            stdin = process.popen.stdin
            if stdin is None or stdin.closed or (self._to_the_byte and not _draws_anew(process)):
                continue
            process.lines_given += 1
            with contextlib.suppress(BrokenPipeError):  # it has ended
                self.give(partial(stdin.write, CLOSE))
                self._closing.append(process)

    def is_done(self) -> bool:
        """Whether no driver that may be used again still has to answer, or to let timers run out."""
        session = self._session
        answers = [(each, self._has_closed(each)) for each in self._closing]
        return session is None or all(
            ok is False or (ok and session.rests_already(each.number)) for each, ok in answers
        )

    def end(self, *, keep: bool = False) -> None:
        """End every driver, or ``keep`` those that are as good as new."""
        session = self._session
        for process in self._closing if keep else ():
            if session is not None and self._has_closed(process) and session.rests(process.number):
                self.release(process)
                self.hand_out_log(process)
                os.truncate(process.log, 0)
                session.keep(self.host.name, process)
        super().end()

    def cut_off(self) -> None:
        """Break the connections of drivers that have not closed: they may wait for nodes."""
        if all(self._has_closed(process) is not None for process in self._closing):
            return
        for _, end in list(self._ends.values()):
            if isinstance(end, Door):
                end.close()
            elif isinstance(end, Stream):
                end.close(reset=True)

    def _has_closed(self, process: RealProcess) -> bool | None:
        """Whether it has closed what it opened, and answered everything else; None: not yet."""
        if process not in self.processes:
            return False
        try:
            said = [msgspec.json.decode(line) for line in process.said.splitlines()]
            answers = {each["id"]: each["ok"] for each in said if "event" not in each}
        except (msgspec.DecodeError, KeyError, TypeError):
            return False
        if answers.get(CLOSING_ID) is False:
            return False
        return True if CLOSING_ID in answers and len(answers) == process.lines_given else None


def _draws_anew(process: RealProcess) -> bool:
    try:
        program = os.readlink(f"/proc/{process.popen.pid}/exe")  # noqa: PTH115 - it may be gone
    except OSError:
        return False
    return Path(program).name.startswith(DRAW_ANEW)


def end_drivers(world: VirtualWorld, machines: Iterable[DriverMachine]) -> None:
    """Keep the drivers that are as good as new after a moment, and end the others."""
    machines = tuple(machines)
    for machine in machines:
        machine.ask_to_close()
    try:
        world.run_out(lambda: all(machine.is_done() for machine in machines))
        for machine in machines:
            machine.cut_off()
        world.run_out(lambda: all(machine.is_done() for machine in machines))
        keep = True
    except SimulationError:  # one computes without end: none is known to be quiet
        keep = False
    for machine in machines:
        machine.end(keep=keep)
