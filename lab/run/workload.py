"""Playing a workload: clients that loop on their own, while drawn faults are injected and ended.

The lab starts the loops and waits; clients never wait for it. The nemesis does one thing at a time, since
probes for one receipt would disturb another, and a fault waits for earlier ones on the same parts that take
longer than scheduled.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from lab.client_protocol import Answer, Command, Loop
from lab.errors import UnknownOutcome
from lab.run.events import OnEvent, RunEvent
from lab.run.recorder import Recorder
from lab.run.steps import Player
from lab.scenario.draw import Drawn
from lab.scenario.step_base import StepModel
from lab.scenario.workload import Workload
from lab.substrates.base import Cluster

DRAIN_S: Final = 60.0
"""How long a client may take to end its last round once every fault is healed."""
STEP_TIMEOUT_S: Final = 30.0
"""How long the nemesis may take to begin or end one fault, receipts included."""
HOLDER_POLL_NS: Final = 10_000_000
HOLDER_WITHIN_NS: Final = 1_000_000_000
"""How long a fault that does not last waits for a client to hold the lock."""
TAIL_BYTES: Final = 8192
SHOWN_MAX: Final = 20
"""How many faults of a schedule are echoed; all of them are kept with the run."""
LOOP_ID: Final = 1_000_000
"""The id of the looping command, beyond the ids of steps."""


class WorkloadPlayer:
    """Plays a workload on a cluster.

    Args:
        player: plays the single steps that begin and end faults.
        recorder: also knows the logs of clients, which show the holder of the lock.
        drawn: the schedule.
    """

    def __init__(
        self,
        cluster: Cluster,
        player: Player,
        recorder: Recorder,
        on_event: OnEvent,
        *,
        workload: Workload,
        keys: Sequence[str],
        drawn: Sequence[Drawn],
    ) -> None:
        self._cluster = cluster
        self._player = player
        self._recorder = recorder
        self._on_event = on_event
        self._workload = workload
        self._keys = list(keys)
        self._drawn = drawn
        self._over = asyncio.Event()
        self._one_step = asyncio.Lock()
        self._lasting: list[tuple[frozenset[str], asyncio.Event]] = []
        self._crashed: set[str] = set()

    async def play(self) -> None:
        """Start all loops, inject the faults, heal them, and wait for the loops to end.

        Raises:
            UnknownOutcome: a client died or did not end, or a fault could not be injected.
        """
        echo(self._drawn, self._on_event)
        loops = [asyncio.create_task(self._loop(name)) for name in self._cluster.clients]
        faults = asyncio.create_task(self._faults())
        try:
            await _wait([*loops, faults], loops, self._workload.duration_ns / 1e9)
            self._over.set()
            await faults
            for name, loop in zip(self._cluster.clients, loops, strict=True):
                if not loop.done():
                    await self._cluster.clients[name].send(Command(0, "stop"))
            await _wait(loops, loops, DRAIN_S)
            if late := [n for n, loop in zip(self._cluster.clients, loops, strict=True) if not loop.done()]:
                raise UnknownOutcome(f"{', '.join(late)} did not end the last round within {DRAIN_S:.0f} s")
        finally:
            for task in (*loops, faults):
                task.cancel()
            await asyncio.gather(*loops, faults, return_exceptions=True)

    async def _loop(self, name: str) -> None:
        loop = Loop(
            duration_ns=self._workload.duration_ns,
            think_ns=self._workload.think_time_ns,
            hold_ns=self._workload.hold_time_ns,
            keys=self._keys,
            operations=self._workload.operations,
        )
        try:
            answer: Answer = await self._cluster.clients[name].order(Command(LOOP_ID, "loop", loop=loop))
        except UnknownOutcome:
            if name not in self._crashed:
                raise
            return
        self._on_event(RunEvent(name, f"did {answer.text}", "plain"))

    async def _faults(self) -> None:
        start_ns = self._recorder.now_ns()
        try:
            async with asyncio.TaskGroup() as group:
                for drawn in self._drawn:
                    await self._sleep(drawn.at_ns - (self._recorder.now_ns() - start_ns))
                    if self._over.is_set():
                        break
                    group.create_task(self._one(drawn, group))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _one(self, drawn: Drawn, group: asyncio.TaskGroup, leader: asyncio.Event | None = None) -> None:
        """Inject one fault when no other one lasts on its parts, and end it when its time is over.

        ``leader`` is set when the fault is over during which this one is to be injected, if there is one.
        """
        before = [e for parts, e in self._lasting if parts & drawn.parts and e is not leader]
        ended = asyncio.Event()
        mine = (drawn.parts, ended)
        self._lasting.append(mine)
        try:
            for earlier in before:
                await earlier.wait()
            clients = None if leader is not None and leader.is_set() else await self._begin(drawn)
            if clients is None:
                self._recorder.write("lab", "info", "left-out", value=drawn.words)
                self._on_event(RunEvent("nemesis", f"leaves out {drawn.words}", "skipped"))
                return
            for follower in drawn.followers:
                group.create_task(self._one(follower, group, ended))
            if drawn.lasts_ns is not None:
                await self._sleep(drawn.lasts_ns)
                await self._play(drawn.end(clients))
        finally:
            self._lasting.remove(mine)
            ended.set()

    async def _begin(self, drawn: Drawn) -> tuple[str, ...] | None:
        """Inject it and return the clients that it hit; None if there was none to be hit.

        A client that is to be paused while it holds the lock may have released it before it was paused: then
        it is resumed, and the next holder is tried.
        """
        while True:
            clients = await self._clients(drawn)
            if clients is None or self._over.is_set():
                return None
            if drawn.plan.drawing.hits == "client":
                self._crashed.update(clients)
            await self._play(drawn.begin(clients))
            stops_holder = drawn.wants_holder and drawn.plan.drawing.stops
            if not stops_holder or held_since_ns(self._recorder.client_log(clients[0])) is not None:
                return clients
            await self._play(drawn.end(clients))

    async def _play(self, steps: Sequence[StepModel]) -> None:
        async with self._one_step:
            for step in steps:
                try:
                    async with asyncio.timeout(STEP_TIMEOUT_S):
                        await self._player.play_one(step)
                except TimeoutError as error:
                    seen = f"the step {step.KEY} of the nemesis did not end within {STEP_TIMEOUT_S:.0f} s"
                    raise UnknownOutcome(seen, hint="see the logs in the run's directory") from error

    async def _clients(self, drawn: Drawn) -> tuple[str, ...] | None:
        """The clients that a fault hits; None if there is none to be hit."""
        clients = drawn.clients
        if drawn.wants_holder:
            holder = await self._holder(drawn.lasts_ns or HOLDER_WITHIN_NS)
            if holder is None:
                return None
            clients = (holder,)
        dead = self._crashed & set(clients) if drawn.plan.drawing.hits != "links" else set()
        return None if dead else clients

    async def _holder(self, within_ns: int) -> str | None:
        """Wait until a client holds the lock, by the clients' own logs; None if none does in time."""
        give_up_ns = self._recorder.now_ns() + within_ns
        logs = {name: self._recorder.client_log(name) for name in self._cluster.clients}
        while not self._over.is_set():
            held = {name: at for name in logs if (at := held_since_ns(logs[name])) is not None}
            if alive := held.keys() - self._crashed:
                return max(alive, key=lambda name: held[name])
            if self._recorder.now_ns() >= give_up_ns:
                break
            await self._sleep(HOLDER_POLL_NS)
        return None

    async def _sleep(self, duration_ns: int) -> None:
        """Sleep, but no longer than the workload lasts."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), max(0, duration_ns) / 1e9)


async def _wait(
    tasks: Sequence[asyncio.Task[None]], until_done: Sequence[asyncio.Task[None]], timeout_s: float
) -> None:
    """Wait until all of ``until_done`` are done or time is over; raise what any of ``tasks`` raised."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + timeout_s
    pending = set(tasks)
    while any(not task.done() for task in until_done) and loop.time() < give_up:
        done, pending = await asyncio.wait(
            pending, timeout=give_up - loop.time(), return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()
    for task in tasks:
        if task.done():
            task.result()


def held_since_ns(log: Path) -> int | None:
    """When the client of this log was granted a lock that it has not begun to release; else None."""
    try:
        with log.open("rb") as source:
            source.seek(0, 2)
            source.seek(max(0, source.tell() - TAIL_BYTES))
            lines = source.read().split(b"\n")[:-1]
    except OSError:
        return None
    for line in reversed(lines):
        with contextlib.suppress(msgspec.DecodeError):
            event = msgspec.json.decode(line)
            if event["f"] == "release":
                return None
            if event["f"] == "acquire":
                return int(event["time_ns"]) if event["type"] == "ok" else None
    return None


def echo(drawn: Sequence[Drawn], on_event: OnEvent) -> None:
    """Report the schedule, or the beginning of a long one."""
    for fault in drawn[:SHOWN_MAX]:
        on_event(RunEvent("lab", f"draws: at {fault.at_ns / 1e6:.0f} ms {fault.words}", "plain"))
    if len(drawn) > SHOWN_MAX:
        rest = len(drawn) - SHOWN_MAX
        on_event(RunEvent("lab", f"draws: and {rest} more faults, all of them in schedule.json", "plain"))
