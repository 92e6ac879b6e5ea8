"""Child processes of a local run: started without a shell, in groups of their own, watched until they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from lab.errors import UnknownOutcome
from lab.processes import RUN_VARIABLE
from lab.substrates.real.machine import tree


class Child:
    """One child process and its log file.

    ``expected_end`` is set by whoever ends it on purpose; an end that nobody expected fails the run.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name, self.process, self.log = name, process, log
        self.expected_end = False

    @property
    def pid(self) -> int:
        """The process id, which is also its process group's."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.returncode is None

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, and to descendants that left it; what is gone is no error."""
        below = list(tree(self.pid))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) != self.pid:
                    os.kill(pid, number)

    def states(self) -> dict[int, str]:
        """Return the state letter of each living process in the group, and of each descendant, from /proc."""
        below = set(tree(self.pid))
        found: dict[int, str] = {}
        # By pathlib this took a sixth of a short run's processor time.
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:  # noqa: PTH123
                fields = stat.read(4096).rpartition(b")")[2].split()
                if fields[0] != b"Z" and (int(fields[2]) == self.pid or pid in below):
                    found[pid] = fields[0].decode()
        return found

    async def stop(self) -> None:
        """SIGSTOP the group."""
        self.signal_group(signal.SIGSTOP)

    async def go_on(self) -> None:
        """SIGCONT the group."""
        self.signal_group(signal.SIGCONT)

    async def kill(self) -> None:
        """SIGKILL the group."""
        self.signal_group(signal.SIGKILL)

    async def interrupt(self) -> None:
        """SIGINT to the process itself, who passes on what it has to."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)

    async def ended(self) -> int:
        """Wait for its end and return its exit code."""
        return await self.process.wait()

    def tail(self, lines: int = 5) -> str:
        """Return the last lines of its log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


STARTS_AT_ONCE: Final = 8
"""Starting a process blocks; after so many the lab listens again, however many there are to be."""


class Nursery:
    """All children of one run. ``failed`` completes with a sentence when one ends that should not."""

    def __init__(self, run_id: str, log_dir: Path, failed: asyncio.Future[str]) -> None:
        self._run_id = run_id
        self._log_dir = log_dir
        self._failed = failed
        self._children: list[Child] = []
        self._watchers: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Semaphore(STARTS_AT_ONCE)
        self._over = False

    async def start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        talks: bool = False,
        directory: Path | None = None,
        user: str | None = None,
    ) -> Child:
        """Start a process, as another ``user`` if need be.

        With ``talks`` its stdin and stdout are pipes to us; stderr goes to its log.

        Raises:
            UnknownOutcome: the children are being ended, or were.
        """
        log = self._log_dir / f"{name}.log"
        async with self._starting:
            await asyncio.sleep(0)  # lets the others of these few in, and then the lab listen
            self._refuse_when_over(name)
            with log.open("ab") as sink:
                process = await asyncio.create_subprocess_exec(
                    *map(str, command),
                    stdin=asyncio.subprocess.PIPE if talks else asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE if talks else _descriptor(sink),
                    stderr=_descriptor(sink),
                    env={**os.environ, **(environment or {}), RUN_VARIABLE: self._run_id},
                    cwd=directory,
                    start_new_session=True,
                    limit=1 << 20,
                    **_as_user(user),
                )
        child = Child(name, process, log)
        self._children.append(child)
        watcher = asyncio.create_task(self._watch(child))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        if self._over:  # the end came while it was being started
            child.expected_end = True
            await child.kill()
            self._refuse_when_over(name)
        return child

    def _refuse_when_over(self, name: str) -> None:
        if self._over:
            raise UnknownOutcome(f"{name} was not started: all processes of this run are being ended")

    async def _watch(self, child: Child) -> None:
        code = await child.process.wait()
        child.signal_group(signal.SIGKILL)  # what it started does not outlive it
        if not child.expected_end and not self._failed.done():
            tail = child.tail()
            self._failed.set_result(
                f"{child.name} ended by itself ({_in_words(code)})"
                + (f"; its log ends:\n{tail}" if tail else "")
            )

    async def stop_all(self) -> None:
        """End every child at once and reap it; what was stopped by a signal is ended as well.

        Nothing is started after that: where one of several starts failed, others may be about to try again.
        """
        self._over = True
        for child in self._children:
            child.expected_end = True
            if child.running:
                child.signal_group(signal.SIGKILL)
        await asyncio.gather(*(child.process.wait() for child in self._children))
        await asyncio.gather(*self._watchers)


def _as_user(user: str | None) -> dict[str, Any]:
    """What makes a child run as another user, as root can."""
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _descriptor(sink: IO[bytes]) -> int:
    return sink.fileno()


def _in_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
