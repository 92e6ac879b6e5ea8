"""One real Redis server: what the lab asks it, and how it goes down."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.errors import LabError, UnknownOutcome
from lab.redis_model.persistence import Persistence
from lab.servers import DEFAULT_SETTINGS, NEEDED, ServerSettings, refused_directive
from lab.substrates.asked import AskedNode
from lab.substrates.base import ClockReading
from lab.substrates.real.clock import Stopwatch, WallClock, reading
from lab.substrates.real.disk import NodeDisk, OnDisk
from lab.substrates.real.machine import B, RealMachine

ANSWER_TIMEOUT_S = 5.0
READY_TIMEOUT_S = 15.0
LOADED_TIMEOUT_S = 120.0
"""How long a server that answers may take to load what its files keep."""
LOG_LINES = 8

PERSISTENCE_ARGUMENTS: dict[Persistence, list[str]] = {
    "none": ["--appendonly", "no"],
    "rdb": ["--appendonly", "no"],
    "aof-everysec": ["--appendonly", "yes", "--appendfsync", "everysec"],
    "aof-always": ["--appendonly", "yes", "--appendfsync", "always"],
}


def redis_arguments(
    port: int,
    bind: str,
    directory: str,
    persistence: Persistence,
    settings: ServerSettings = DEFAULT_SETTINGS,
) -> list[str]:
    """Return what a node is started with: nothing read from a file, snapshots only if they are asked for."""
    # A save point is a directive of its own, since Redis 6.2 takes two numbers only.
    save = [word for point in settings.save for word in ("--save", str(point.seconds), str(point.changes))]
    # Its process title would overwrite the environment by which a killed lab's leftovers are found.
    return [
        *("--set-proc-title", "no"),
        *("--port", str(port), "--bind", bind, "--dir", directory),
        *(save or ("--save", "")),
        *("--daemonize", "no", "--loglevel", "notice", "--tcp-backlog", "128"),
        *("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"),
        *PERSISTENCE_ARGUMENTS[persistence],
        *(word for name, value in settings.config for word in (f"--{name}", value)),
    ]


def bad_directive(log: str, settings: ServerSettings) -> LabError | None:
    """The error of a server that did not start because of a directive of its settings, by its log."""
    refused = refused_directive(log)
    if refused is None or refused.name not in dict(settings.config):
        return None
    return LabError(
        f"{refused.server} refuses the directive {refused.directive} ({refused.why})",
        where="cluster.config",
        expected="a directive of this server, with a value that it takes",
    )


class RedisNode(AskedNode, RealMachine[B], OnDisk):
    """A node; ``address`` leads to it around every link."""

    def __init__(
        self,
        address: Address,
        clock: WallClock | None,
        disk: NodeDisk,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> None:
        super().__init__(address.name, clock)
        self._disk, self._settings = disk, settings
        self._replicates: Address | None = None
        self.known_offset = 0
        self._reach(address)

    def _reach(self, address: Address) -> None:
        self.address = address
        self._control = Channel(address, connect_timeout_s=2.0, stale_after_s=10.0, client_name="lab")

    async def start(self) -> None:
        """Start it, and wait until it is ready. Raises ``UnknownOutcome``."""
        raise NotImplementedError

    async def _until_ready(self, child: B) -> None:
        """Wait until it answers and has loaded what its files keep.

        Since Redis 7.0 a server executes ECHO while it loads and refuses most other commands until it has
        loaded; ``INFO persistence`` says on all versions whether it loads.

        Raises:
            UnknownOutcome: it ended, does not answer, or is still loading; the text says which.
            LabError: it refuses a directive of the scenario's.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        loading = ""
        while child.running and loop.time() - begun < (LOADED_TIMEOUT_S if loading else READY_TIMEOUT_S):
            about: dict[str, str] = {}
            with contextlib.suppress(UnknownOutcome):
                about = await self.info("persistence")
            if about.get("loading") == "0" and (await self.probe(1.0)).reached:
                return
            loading = about.get("loading_loaded_perc", "") if about.get("loading") == "1" else loading
            await asyncio.sleep(0.005)
        why = f"it was still loading its data after {LOADED_TIMEOUT_S:.0f} s ({loading} %)" if loading else ""
        raise self._not_ready(child, why or f"it did not answer within {READY_TIMEOUT_S:.0f} s")

    def _not_ready(self, child: B, why: str) -> LabError:
        """The error that says what kept it from becoming ready, with the last lines of its log.

        Bad input, if it refused a directive of the scenario's; else ``UnknownOutcome``.
        """
        log = child.tail(LOG_LINES)
        if not child.running and (bad := bad_directive(log, self._settings)) is not None:
            return bad
        if not child.running and (refused := refused_directive(log)) is not None:
            does_not = f"{refused.server} does not know the setting '{refused.directive}'"
            cause = f"{does_not}: it is too old, and {NEEDED} is needed"
        else:
            last = " | ".join([line.strip() for line in log.splitlines() if line.strip()][-3:])
            cause = f"{why if child.running else 'it ended'}; its log ends: {last or 'it is empty'}"
        return UnknownOutcome(
            f"the server of {self.name} did not become ready: {cause}", hint=f"its log ends:\n{log}"
        )

    async def close(self) -> None:
        """Let go of the node: the lab's own connection, what steps its clock."""
        if self._clock is not None:
            self._clock.close()
        await self._control.close()

    async def kill(self) -> None:
        """SIGKILL."""
        await super().kill()
        await self._is_down()

    async def shut_down(self) -> int | None:
        """SHUTDOWN, and wait for its end."""
        child = self.running()
        child.expected_end = True
        with contextlib.suppress(UnknownOutcome):
            await self.ask("SHUTDOWN")  # its answer is that the connection ends
        code = await self._exit_code(child)
        if code is not None:
            await self._is_down()
        return code

    async def _is_down(self) -> None:
        await self._control.close()

    async def ask(self, *arguments: str | int) -> object:
        """Send one command on the lab's own connection. Raises ``UnknownOutcome``."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self._control.call(*arguments)
        except (NodeError, TimeoutError) as error:
            raise UnknownOutcome(f"node {self.name} does not answer the lab: {error}") from error

    def stopwatch(self, *, monotonic: bool = False) -> Callable[[], int]:
        """Measure time by the wall clock that its processes see, or by the monotonic clock, which is ours."""
        return Stopwatch(time.monotonic_ns if monotonic else self.clock.now_ns)

    async def _reported_time(self) -> ClockReading:
        """Ask for TIME; the answer was made somewhere between the question and now."""
        before_ns = time.time_ns()
        node_ns = await self.now_ns()
        return reading(node_ns, before_ns, time.time_ns())
