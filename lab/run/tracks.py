"""Playing tracks: each is a coroutine that waits for the trigger of its next action, and lets it happen.

The lab itself gives every command and injects every fault, so it knows the events of tracks without being
told: an action is about to begin, or has ended in some way. An event goes first to the faults that wait for
it without a delay, until each has taken effect, then to all others: what is meant to come after a fault does
not race with it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lab.client_protocol import Answer, Command, Outcome
from lab.durations import UNITS_NS
from lab.errors import UnknownOutcome
from lab.faults.base import Fault
from lab.run.steps import ACTION_TIMEOUT_S, Player
from lab.scenario.steps import Acquire, Operation
from lab.scenario.tracks import Timed, task_of
from lab.scenario.triggers import RETURNS, START, Trigger

PAUSE_NS: Final = 800 * UNITS_NS["ms"]
"""How long a client that insists waits before it asks again: less than the checker's grace."""
Event = tuple[str, str, str]
"""A track, an action's key, and an outcome."""


class NeverCame(Exception):
    """Nothing that still goes on can bring the event that is waited for."""


@dataclass(eq=False, slots=True)
class _Waiting:
    event: Event
    nth: int
    came: asyncio.Future[int]
    struck: asyncio.Future[None] | None
    """Of a fault that strikes at once: done when it has taken effect."""


class Heard:
    """The events of all tracks so far, and what waits for one.

    ``going_on`` counts the coroutines that do not wait for an event: when there is none left, no event comes.
    """

    def __init__(self) -> None:
        self.going_on = 0
        self._times_ns: defaultdict[Event, list[int]] = defaultdict(list)
        self._waiting: list[_Waiting] = []

    async def tell(self, track: str, action: str, outcome: str, now_ns: int) -> None:
        """Note an event, and return when the faults that strike at it have taken effect."""
        outcomes = (outcome,) if outcome == "invoke" else (outcome, RETURNS)
        events = [(track, action, word) for word in outcomes]
        for event in events:
            self._times_ns[event].append(now_ns)
        due = [one for one in self._waiting if one.event in events and self._came_ns(one.event, one.nth)]
        self._waiting = [one for one in self._waiting if one not in due]
        strikes = [one.struck for one in due if one.struck is not None]
        for one in due:
            if one.struck is not None:
                self._wake(one, now_ns)
        try:
            if strikes:
                await asyncio.wait(strikes)
        finally:  # also if the client whose event it is was killed by one of them
            for one in due:
                if one.struck is None:
                    self._wake(one, now_ns)

    async def until(self, event: Event, nth: int, struck: asyncio.Future[None] | None = None) -> int:
        """Wait for the nth such event since the start; return its time. Raises ``NeverCame``."""
        if (came_ns := self._came_ns(event, nth)) is not None:
            return came_ns
        one = _Waiting(event, nth, asyncio.get_running_loop().create_future(), struck)
        self._waiting.append(one)
        self.rests()
        return await one.came

    def rests(self) -> None:
        """A coroutine waits for an event, or is over."""
        self.going_on -= 1
        if self.going_on == 0:
            for one in self._waiting:
                if not one.came.done():
                    one.came.set_exception(NeverCame())

    def _wake(self, one: _Waiting, now_ns: int) -> None:
        if not one.came.done():
            self.going_on += 1
            one.came.set_result(now_ns)

    def _came_ns(self, event: Event, nth: int) -> int | None:
        times_ns = self._times_ns.get(event, ())
        return times_ns[nth - 1] if len(times_ns) >= nth else None


class TrackPlayer:
    """Plays tracks with the single steps of a ``Player``.

    Args:
        player: gives commands to clients, injects and ends faults, waits for anchors.
        clients: their names.
    """

    def __init__(self, player: Player, clients: tuple[str, ...]) -> None:
        self._player = player
        self._clients = clients
        self._heard = Heard()
        self._one_fault = asyncio.Lock()
        """The nemesis does one thing at a time: probes for one receipt would disturb another."""
        self._of_client: defaultdict[str, list[asyncio.Task[None]]] = defaultdict(list)
        self._group: asyncio.TaskGroup
        self._start_ns = 0
        self._killed: set[str] = set()

    async def play(self, tracks: Mapping[str, tuple[Timed, ...]]) -> None:
        """Play all tracks to their ends.

        Raises:
            UnknownOutcome: a client died or did not answer, or a fault could not be injected.
        """
        self._start_ns = start_ns = self._player.now_ns()
        try:
            async with asyncio.TaskGroup() as self._group:
                tasks = {name: task_of(name, self._clients) for name in tracks}
                # The environment first, so that it waits for the first event of a client before that comes.
                for name in sorted(tracks, key=lambda name: tasks[name] is not None):
                    if (task := tasks[name]) is None:
                        self._begin_environment(name, tracks[name], start_ns)
                    else:
                        playing = self._begin(self._client(name, task, tracks[name], start_ns))
                        self._of_client[task[0]].append(playing)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._heard.going_on += 1
        return self._group.create_task(self._ending(work))

    async def _ending(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except NeverCame:
            return
        finally:
            self._heard.rests()

    async def _client(
        self, track: str, task: tuple[str, int], actions: tuple[Timed, ...], ended_ns: int
    ) -> None:
        for timed in actions:
            await self._due(timed.at, ended_ns)
            await self._act(track, timed, task)
            ended_ns = self._player.now_ns()

    def _begin_environment(self, track: str, actions: tuple[Timed, ...], start_ns: int) -> None:
        before: asyncio.Task[None] | None = None
        for timed in actions:
            before = self._begin(self._strike(track, timed, start_ns, before))

    async def _strike(
        self, track: str, timed: Timed, before_ns: int, before: asyncio.Task[None] | None
    ) -> None:
        """An action of the environment, at its trigger, or at the end of the one before."""
        struck: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            if before is not None and (timed.at is None or timed.at.default):
                await asyncio.wait([before])
                before_ns = self._player.now_ns()
            await self._due(timed.at, before_ns, struck if _at_once(timed.at) else None)
            await self._act(track, timed, None, struck)
        finally:
            if not struck.done():
                struck.set_result(None)

    async def _act(
        self,
        track: str,
        timed: Timed,
        task: tuple[str, int] | None,
        struck: asyncio.Future[None] | None = None,
    ) -> None:
        step = timed.step
        if isinstance(step, Operation):
            client, number = task or (step.client or "", 1)
            await self._operate(track, client, number, step)
            return
        await self._tell(track, step.KEY, "invoke")
        begun_ns = self._player.now_ns()
        if isinstance(step, Fault) and step.kills is not None:
            self._killed.add(step.kills)
        async with self._one_fault:
            confirmed = await self._player.play_one(step)
        if timed.until is not None and isinstance(step, Fault):
            self._begin(self._end(track, step, timed.until, begun_ns))
        if struck is not None and not struck.done():
            struck.set_result(None)
        await self._tell(track, step.KEY, "ok" if confirmed else "fail")
        if isinstance(step, Fault) and step.kills is not None:
            for playing in self._of_client[step.kills]:
                playing.cancel()

    async def _end(self, track: str, fault: Fault, until: Trigger, begun_ns: int) -> None:
        ending = fault.ending()
        if ending is None:
            return
        struck: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            await self._due(until, begun_ns, struck if _at_once(until) else None)
            await self._tell(track, ending.KEY, "invoke")
            async with self._one_fault:
                confirmed = await self._player.play_one(ending)
        finally:
            struck.set_result(None)
        await self._tell(track, ending.KEY, "ok" if confirmed else "fail")

    async def _operate(self, track: str, client: str, task: int, step: Operation) -> None:
        give_up_ns = self._player.now_ns() + (step.insist_ns or 0 if isinstance(step, Acquire) else 0)
        while True:
            answer = await self._order(track, client, task, step)
            refused = isinstance(step, Acquire) and answer.outcome in (Outcome.FAIL, Outcome.INFO)
            if not refused or self._player.now_ns() >= give_up_ns:
                return
            pause_ns = step.pause_ns if isinstance(step, Acquire) else None
            await asyncio.sleep((pause_ns or PAUSE_NS) / 1e9)

    async def _order(self, track: str, client: str, task: int, step: Operation) -> Answer:
        command = self._player.command_for(step, task)
        await self._tell(track, step.KEY, "invoke")
        cancelling = None
        if step.cancel is not None:
            cancelling = self._begin(self._cancel(client, command, step.cancel))
        try:
            async with asyncio.timeout(ACTION_TIMEOUT_S):
                answer = await self._player.order(track, client, command)
        except TimeoutError as error:
            seen = f"{client} did not finish its {step.KEY} within {ACTION_TIMEOUT_S:.0f} s"
            raise UnknownOutcome(seen) from error
        except UnknownOutcome:
            if client in self._killed:
                raise NeverCame from None  # what it was told to do has no end
            raise
        finally:
            if cancelling is not None:
                cancelling.cancel()
        if step.cancel is not None and not step.cancel.default and answer.outcome is not Outcome.INFO:
            self._player.miss(f"{track}: its {step.KEY} ended before it was cancelled")
        await self._tell(track, step.KEY, str(answer.outcome))
        return answer

    async def _cancel(self, client: str, command: Command, when: Trigger) -> None:
        await self._due(when, self._player.now_ns())
        await self._player.cancel(client, command)

    async def _tell(self, track: str, action: str, outcome: str) -> None:
        await self._heard.tell(track, action, outcome, self._player.now_ns())

    async def _due(
        self, trigger: Trigger | None, before_ns: int, struck: asyncio.Future[None] | None = None
    ) -> None:
        """Wait for a trigger. Raises ``NeverCame``, after it has been noted."""
        if trigger is None:
            return
        if trigger.track == START:
            before_ns = self._start_ns
        elif trigger.track is not None:
            before_ns = await self._came(trigger, struck)
        if trigger.anchor is not None:
            if not await self._player.observed(trigger.anchor, before_ns):
                raise NeverCame
            before_ns = self._player.now_ns()
        left_ns = before_ns + trigger.after_ns - self._player.now_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / 1e9)

    async def _came(self, trigger: Trigger, struck: asyncio.Future[None] | None) -> int:
        """Wait for the event of a track; return its time. Raises ``NeverCame``, after it has been noted."""
        track = trigger.track or ""
        lease = trigger.lease is not None
        event = (track, Acquire.KEY, "ok") if lease else (track, trigger.operation, trigger.outcome)
        try:
            came_ns = await self._heard.until(event, trigger.nth, struck)
        except NeverCame:
            times = f", {trigger.nth} times" if trigger.nth > 1 else ""
            self._player.miss(f"{track}: {trigger.event}{times}")
            raise
        if lease:
            await self._player.lease_over(track, believed=trigger.lease == "believed over")
            return self._player.now_ns()
        return came_ns


def _at_once(trigger: Trigger | None) -> bool:
    """Whether a fault with this trigger strikes as soon as an event of another track has come."""
    return trigger is not None and not (trigger.lease or trigger.anchor or trigger.after_ns)
