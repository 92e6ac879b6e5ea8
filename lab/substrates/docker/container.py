"""One container as the body of a machine, and the watch over all containers of a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import UnknownOutcome
from lab.substrates.docker.engine import Engine
from lab.substrates.docker.topology import HARDENED, IN_MEMORY, LIMITS, LOGGING, PART_LABEL, Spec
from lab.substrates.real.machine import tree

if TYPE_CHECKING:
    from docker import APIClient

STREAMS = 20
"""How often the engine is asked at most, in one run, which containers have ended."""
KILLED = 128
"""An exit code above this is that much plus the number of the signal that ended it."""


class Container:
    """One container of a run.

    Its processes are stopped and killed by signals to their ids on this machine, which takes microseconds.
    Where these are not ours to signal (the lab sees another pid namespace, or is another user than the
    containers') the engine is asked to, which takes ten milliseconds, and its word is then the evidence.
    """

    def __init__(self, engine: Engine, spec: Spec, container_id: str) -> None:
        self.spec = spec
        self.id = container_id
        self.expected_end = False
        self.address = ""
        """Its address in the run's network, if it is there."""
        self.pid = 0
        """The id of its first process, on the engine's machine."""
        self.by_signal = False
        """Whether its processes are signalled by their ids on this machine."""
        self._engine = engine
        self._frozen = False
        self._end: asyncio.Future[int] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._end is not None and not self._end.done()

    async def start(self) -> None:
        """Start it, or start it again. Raises ``UnknownOutcome``."""
        self._end = asyncio.get_running_loop().create_future()
        self.expected_end = False
        state = await self._engine.call(self._start)
        self.pid = int(state["State"]["Pid"])
        networks: Mapping[str, Any] = state["NetworkSettings"]["Networks"]
        self.address = next((str(network["IPAddress"]) for network in networks.values()), "")
        self.by_signal = is_ours(self.pid)

    def _start(self, api: APIClient) -> dict[str, Any]:
        api.start(self.id)
        state: dict[str, Any] = api.inspect_container(self.id)
        return state

    def died(self, exit_code: int) -> bool:
        """Note that it ended; whether that was unexpected."""
        if self._end is None or self._end.done():
            return False
        self._end.set_result(exit_code)
        return not self.expected_end

    def states(self) -> dict[int, str]:
        """Return the state letter of each of its processes: from /proc, or from what the engine said."""
        if not self.running:
            return {}
        if self.by_signal:
            return {pid: letter for pid in tree(self.pid) if (letter := _letter(pid)) is not None}
        return {self.pid: "T" if self._frozen else "S"}

    async def stop(self) -> None:
        """SIGSTOP its processes, or let the engine freeze them."""
        if self.by_signal:
            self._signal(signal.SIGSTOP)
        else:
            self._frozen = await self._engine.call(self._pause)

    async def go_on(self) -> None:
        """SIGCONT its processes, or let the engine thaw them."""
        if self.by_signal:
            self._signal(signal.SIGCONT)
        else:
            self._frozen = await self._engine.call(self._unpause)

    def _pause(self, api: APIClient) -> bool:
        api.pause(self.id)
        return bool(api.inspect_container(self.id)["State"]["Paused"])

    def _unpause(self, api: APIClient) -> bool:
        api.unpause(self.id)
        return bool(api.inspect_container(self.id)["State"]["Paused"])

    async def kill(self) -> None:
        """SIGKILL its first process, and with it all others."""
        self._frozen = False
        await self._signal_first(signal.SIGKILL)

    async def interrupt(self) -> None:
        """SIGINT to its first process."""
        await self._signal_first(signal.SIGINT)

    async def _signal_first(self, number: signal.Signals) -> None:
        """Signal its first process. That it is gone already is no error."""
        if self.by_signal:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
        else:
            with contextlib.suppress(UnknownOutcome):
                await self._engine.call(lambda api: api.kill(self.id, number.name))

    async def ended(self) -> int:
        """Wait for its end and return its exit code."""
        if self._end is None:
            raise UnknownOutcome(f"{self.spec.name} was never started")
        return await asyncio.shield(self._end)

    def tail(self, lines: int = 5) -> str:
        """Return the last lines of its log."""
        with contextlib.suppress(UnknownOutcome):
            log: bytes = self._engine.ask(lambda api: api.logs(self.id, tail=lines))
            return log.decode(errors="replace").strip()
        return ""

    def _signal(self, number: signal.Signals) -> None:
        """Signal all of its processes; a child that one of them makes meanwhile is signalled as well."""
        done: set[int] = set()
        while fresh := [pid for pid in tree(self.pid) if pid not in done]:
            for pid in fresh:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                done.add(pid)


def is_ours(pid: int) -> bool:
    """Whether this id is the first process of a container, seen from here, and we may signal it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        line_of_ids = next(line for line in status.splitlines() if line.startswith("NSpid:"))
        ids = line_of_ids.split()[1:]
        os.kill(pid, 0)
    except (OSError, StopIteration):
        return False
    return len(ids) > 1 and ids[-1] == "1"


def _letter(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def create(
    api: APIClient, spec: Spec, run_id: str, network: str, labels: dict[str, str], ports: dict[int, int]
) -> str:
    """Make a container and return its id.

    ``network`` is where it goes unless it shares another's; ``ports`` (there → here) are for loopback.
    """
    from docker.types import LogConfig, Mount

    mounts = [
        Mount(target=str(one.target), source=str(one.source), type="bind", read_only=not one.writable)
        for one in spec.mounts
    ]
    published: dict[int | str, Any] = {port: ("127.0.0.1", here) for port, here in ports.items()}
    joins = f"container:{name_of(run_id, spec.shares)}" if spec.shares else network
    host = api.create_host_config(
        network_mode=joins,
        mounts=mounts,
        tmpfs=IN_MEMORY,
        **HARDENED,
        **LIMITS,
        log_config=LogConfig(type=LOGGING["driver"], config=LOGGING["options"]),
        port_bindings=published,
        extra_hosts=dict(spec.hosts),
    )
    made: dict[str, Any] = api.create_container(
        spec.image,
        list(spec.command),
        name=name_of(run_id, spec.name),
        user=spec.user or f"{os.getuid()}:{os.getgid()}",
        environment=dict(spec.environment),
        working_dir=spec.directory,
        labels={**labels, PART_LABEL: spec.name},
        host_config=host,
        ports=list(ports),
        stdin_open=spec.talks,
    )
    return str(made["Id"])


def name_of(run_id: str, part: str) -> str:
    """What a part of a run is called in the engine."""
    return f"lock-lab-{run_id}-{part}"


class Watch:
    """Hears from the engine which containers of a run have ended.

    ``deaths`` asks the engine for what ended since a second of Unix time, and will end. ``failed`` completes
    with a sentence when one ends that should not, or when the engine falls silent.
    """

    def __init__(self, deaths: Callable[[int], Any], failed: asyncio.Future[str]) -> None:
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._containers: dict[str, Container] = {}
        self._closed = False
        self._deaths = deaths
        # Since a second ago: what happens before the engine has begun to tell is told as well.
        self._since_s = int(time.time()) - 1
        self._stream: Any = None
        threading.Thread(target=self._listen, daemon=True, name="docker-events").start()

    def add(self, container: Container) -> None:
        """Watch over this one as well."""
        self._containers[container.id] = container

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._stream.close()

    def _listen(self) -> None:
        told: set[tuple[str, int]] = set()
        lost = "the docker engine fell silent"
        try:
            # Podman ends the stream now and then; who asks again is told the rest.
            for _ in range(STREAMS):
                self._stream = self._deaths(self._since_s)
                for event in self._stream:
                    death = str(event["Actor"]["ID"]), int(event["timeNano"])
                    if death not in told:
                        told.add(death)
                        code = int(event["Actor"]["Attributes"].get("exitCode", "0"))
                        self._loop.call_soon_threadsafe(self._died, death[0], code)
                if self._closed:
                    return
        except Exception as error:  # noqa: BLE001 - however it ends, nobody watches any more
            lost = f"{lost}: {error}"
        with contextlib.suppress(RuntimeError):  # the loop is closed: the run is over
            self._loop.call_soon_threadsafe(self._fail, lost)

    def _died(self, container_id: str, exit_code: int) -> None:
        container = self._containers.get(container_id)
        if container is not None and container.died(exit_code):
            tail = container.tail()
            self._fail(
                f"{container.spec.name} ended by itself ({in_words(exit_code)})"
                + (f"; its log ends:\n{tail}" if tail else "")
            )

    def _fail(self, sentence: str) -> None:
        if not self._closed and not self._failed.done():
            self._failed.set_result(sentence)


def in_words(exit_code: int) -> str:
    """How a container ended."""
    if exit_code > KILLED:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(exit_code - KILLED).name}"
    return f"exit code {exit_code}"
