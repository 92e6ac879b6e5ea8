"""Playing tracks: each is a coroutine that waits for the trigger of its next action, and lets it happen.

The lab itself gives every command and injects every fault, so it knows the events of tracks without being
told: an action is about to begin, or has ended in some way. An event goes first to the faults that wait for
it without a delay, until each has taken effect, then to all others: what is meant to come after a fault does
not race with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple

from lab.client_protocol import Answer, Command, Outcome
from lab.durations import UNITS_NS
from lab.errors import UnknownOutcome
from lab.faults.base import Fault
from lab.faults.nemesis import Injected
from lab.run.steps import ACTION_TIMEOUT_S, Player
from lab.scenario.step_base import StepModel
from lab.scenario.steps import Acquire, Check, OfLease, Operation, Read, Release, Write
from lab.scenario.tracks import Timed, task_of
from lab.scenario.triggers import RETURNS, SENDS, START, Trigger
from lab.substrates.base import Sendings

PAUSE_NS: Final = 800 * UNITS_NS["ms"]
"""How long a client that insists waits before it asks again: less than the checker's grace."""
NEVER_NS: Final = 1 << 62
Event = tuple[str, str, str]
"""A track, an action's key, and an outcome."""


class Played(NamedTuple):
    """An event of a track, when it came by the history's clock, and the action whose event it is."""

    time_ns: int
    track: str
    key: str
    outcome: str
    timed: Timed


class NeverCame(Exception):
    """Nothing that still goes on can bring the event that is waited for."""


@dataclass(eq=False, slots=True)
class _Waiting:
    event: Event
    nth: int
    came: asyncio.Future[int | None]
    """Done with the time when it has come, or with None: it never comes."""
    struck: asyncio.Future[None] | None
    """Of a fault that strikes at once: done when it has taken effect."""


@dataclass(eq=False, slots=True)
class _ClientTrack:
    """A track of a client that is played; over when its last action is, or when its client was killed."""

    over: bool = False
    playing: asyncio.Task[None] = field(init=False)


class Heard:
    """The events of all tracks so far, and what waits for one.

    ``going_on`` counts the coroutines that do not wait for an event: when there is none left, no event comes.
    """

    def __init__(self) -> None:
        self.going_on = 0
        self.awaited: set[tuple[str, str]] = set()
        """The tracks and actions of whose events something waits for one."""
        self._times_ns: defaultdict[Event, list[int]] = defaultdict(list)
        self._waiting: defaultdict[Event, list[_Waiting]] = defaultdict(list)

    def note(self, track: str, action: str, outcome: str, now_ns: int) -> list[_Waiting]:
        """Note an event that is waited for, now or later; return what waits for it, and is to be woken."""
        if (track, action) not in self.awaited:
            return []
        due: list[_Waiting] = []
        for word in (outcome,) if outcome == "invoke" else (outcome, RETURNS):
            event = track, action, word
            self._times_ns[event].append(now_ns)
            if waiting := self._waiting.get(event):
                came = len(self._times_ns[event])
                due += [one for one in waiting if one.nth <= came]
                self._waiting[event] = [one for one in waiting if one.nth > came]
        return due

    async def wake(self, due: list[_Waiting], now_ns: int) -> None:
        """Wake what waits for an event; return when the faults that strike at it have taken effect."""
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
        self._waiting[event].append(one)
        self.rests()
        came_ns = await one.came
        if came_ns is None:
            raise NeverCame
        return came_ns

    def rests(self) -> None:
        """A coroutine waits for an event, or is over."""
        self.going_on -= 1
        if self.going_on == 0:
            for one in chain.from_iterable(self._waiting.values()):
                if not one.came.done():
                    one.came.set_result(None)

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
        within_s: how long a client may take for one command; None: for ever.
        on_clients_over: called once when the tracks of all clients are over.
        loops: where tracks of clients go on, by client, if not in the player's loop: commands of a trial
            take no way from one machine to another.
        played: where the events of all tracks are appended, if somebody wants to know them.
    """

    def __init__(
        self,
        player: Player,
        clients: tuple[str, ...],
        *,
        within_s: float | None = ACTION_TIMEOUT_S,
        on_clients_over: Callable[[], None] | None = None,
        loops: Mapping[str, asyncio.AbstractEventLoop] | None = None,
        played: list[Played] | None = None,
    ) -> None:
        self._player = player
        self._clients = clients
        self._within_s = within_s
        self._on_clients_over = on_clients_over
        self._loops = loops or {}
        self._played = played
        self._heard = Heard()
        self._one_fault = asyncio.Lock()
        """The nemesis does one thing at a time: probes for one receipt would disturb another."""
        self._of_client: defaultdict[str, list[_ClientTrack]] = defaultdict(list)
        self._clients_going_on = 0
        self._beside: list[asyncio.Task[None]] = []
        """What plays the environment, ends of faults, and cancellations, each for itself."""
        self._beside_going_on = 0
        self._loop: asyncio.AbstractEventLoop
        """Where it plays: a fault strikes also while the client stands still in whose track it is."""
        self._over: asyncio.Future[None]
        """Done when nothing goes on; has the first error, which ends everything."""
        self._start_ns = NEVER_NS
        self._killed: set[str] = set()
        self._leases = Counter[tuple[str, str | None]]()
        """How many leases of a key may be held in a track, as far as answers tell."""
        self._checked: set[tuple[str, str | None]] = set()
        """The leases whose last check, or read, succeeded."""
        self._refused: set[str] = set()
        """The tracks whose last acquire of the scenario's key was not granted."""

    async def play(self, tracks: Mapping[str, tuple[Timed, ...]], start_ns: int | None = None) -> None:
        """Play all tracks to their ends, from now on, or from a later time of the history's clock.

        Before that only faults happen, whose triggers count from the start.

        Raises:
            UnknownOutcome: a client died or did not answer, or a fault could not be injected.
        """
        self._start_ns = start_ns = self._player.now_ns() if start_ns is None else start_ns
        self._heard.awaited = set(_awaited(tracks))
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        tasks = {name: task_of(name, self._clients) for name in tracks}
        # The environment first, so that it waits for the first event of a client before that comes.
        for name in sorted(tracks, key=lambda name: tasks[name] is not None):
            if (task := tasks[name]) is None:
                self._begin_environment(name, tracks[name], start_ns)
            else:
                self._begin_client(name, task, tracks[name], start_ns)
        if not self._clients_going_on:
            self._clients_are_over()
        try:
            await self._over
        except (Exception, asyncio.CancelledError):
            await self._end_what_goes_on()
            raise
        await self._end_what_goes_on()

    async def _end_what_goes_on(self) -> None:
        """Cancel it, also what a killed client was told to do; another loop ends what is its own."""
        tasks = chain(self._beside, (task for _, task in self.of_clients()))
        going_on = [task for task in tasks if not task.done() and task.get_loop() is self._loop]
        for each in going_on:
            each.cancel()
        if going_on:
            await asyncio.wait(going_on)

    def _begin_client(
        self, name: str, task: tuple[str, int], actions: tuple[Timed, ...], start_ns: int
    ) -> None:
        track = _ClientTrack()
        self._heard.going_on += 1
        self._clients_going_on += 1
        loop = self._loops.get(task[0], self._loop)
        track.playing = loop.create_task(self._until_client_ends(track, name, task, actions, start_ns))
        self._of_client[task[0]].append(track)

    async def _until_client_ends(
        self,
        track: _ClientTrack,
        name: str,
        task: tuple[str, int],
        actions: tuple[Timed, ...],
        start_ns: int,
    ) -> None:
        try:
            await self._client(name, task, actions, start_ns)
        except NeverCame:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is ends the run
            self._fail(error)
        finally:
            self._is_over(track)

    def _is_over(self, track: _ClientTrack) -> None:
        """A client's track is over, or its client was killed."""
        if track.over:
            return
        track.over = True
        self._clients_going_on -= 1
        if not self._clients_going_on:
            self._clients_are_over()
        self._heard.rests()

    def _clients_are_over(self) -> None:
        if self._on_clients_over is not None:
            self._on_clients_over()
        self._end_if_over()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let something go on for itself; its error ends the run."""
        self._heard.going_on += 1
        self._beside_going_on += 1
        task = self._loop.create_task(self._until_ended(work))
        self._beside.append(task)
        return task

    async def _until_ended(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except NeverCame:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is ends the run
            self._fail(error)
        finally:
            self._heard.rests()
            self._beside_going_on -= 1
            self._end_if_over()

    def _fail(self, error: Exception) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    def _end_if_over(self) -> None:
        if not (self._clients_going_on or self._beside_going_on or self._over.done()):
            self._over.set_result(None)

    async def _client(
        self, track: str, task: tuple[str, int], actions: tuple[Timed, ...], ended_ns: int
    ) -> None:
        await self._until_ns(ended_ns)
        for timed in actions:
            step = timed.step
            operation = step if isinstance(step, Operation) else None
            if operation is not None and self._is_left_out(track, operation):
                await self._tell(track, timed, Outcome.SKIPPED)
                continue
            if timed.at is not None:
                await self._due(timed.at, ended_ns)
            if isinstance(step, Acquire) and step.insist_ns:
                await self._insist(track, *task, step, timed)
            elif operation is not None:
                await self._order(track, *task, operation, timed)
            else:
                await asyncio.wait([self._begin(self._act(track, timed))])
            ended_ns = self._player.now_ns()

    def _is_left_out(self, track: str, step: Operation) -> bool:
        """Whether it needs a lease, or a grant, that is not there."""
        if step.if_granted and track in self._refused:
            return True
        if not isinstance(step, OfLease):
            return False
        lease = track, step.key
        if isinstance(step, Write) and step.if_checked and lease not in self._checked:
            return True
        return not self._leases[lease] and not (isinstance(step, Release) and step.again)

    def _begin_environment(self, track: str, actions: tuple[Timed, ...], start_ns: int) -> None:
        before: asyncio.Task[None] | None = None
        for timed in actions:
            before = self._begin(self._strike(track, timed, start_ns, before))

    async def _strike(
        self, track: str, timed: Timed, before_ns: int, before: asyncio.Task[None] | None
    ) -> None:
        """An action of the environment, at its trigger, or at the end of the one before."""
        struck = self._loop.create_future() if _at_once(timed.at) else None
        try:
            if before is not None and (timed.at is None or timed.at.default):
                await asyncio.wait([before])
                before_ns = self._player.now_ns()
            await self._due(timed.at, before_ns, struck)
            await self._act(track, timed, struck)
        finally:
            if struck is not None and not struck.done():
                struck.set_result(None)

    async def _act(self, track: str, timed: Timed, struck: asyncio.Future[None] | None = None) -> None:
        """An action of the environment, or a fault in a client's track."""
        step = timed.step
        if isinstance(step, Acquire) and step.insist_ns:
            await self._insist(track, step.client or "", 1, step, timed)
            return
        if isinstance(step, Operation):
            await self._order(track, step.client or "", 1, step, timed)
            return
        await self._tell(track, timed, "invoke")
        if isinstance(step, Fault):
            confirmed = await self._inject(track, step, timed)
        else:
            async with self._one_fault:
                confirmed = await self._player.play_one(step)
        if struck is not None and not struck.done():
            struck.set_result(None)
        await self._tell(track, timed, "ok" if confirmed else "fail")
        if isinstance(step, Fault) and step.kills is not None:
            for each in self._of_client[step.kills]:
                self._is_over(each)
                each.playing.cancel()

    async def _inject(self, track: str, fault: Fault, timed: Timed) -> bool:
        """Inject a fault, and let its end wait for its trigger; whether its receipt is there."""
        begun_ns = self._player.now_ns()
        if fault.kills is not None:
            self._killed.add(fault.kills)
        async with self._one_fault:
            injected = await self._player.inject(fault)
        if timed.until is not None and (ending := fault.ending()) is not None:
            self._begin(self._end(track, injected, ending, timed, begun_ns))
        return injected.receipt.confirmed

    async def _end(
        self, track: str, injected: Injected, ending: StepModel, timed: Timed, begun_ns: int
    ) -> None:
        until = timed.until
        struck = self._loop.create_future() if _at_once(until) else None
        try:
            await self._due(until, begun_ns, struck)
            if not self._player.lasts(injected):
                return  # something else has ended it
            await self._tell(track, timed, "invoke", ending.KEY)
            async with self._one_fault:
                confirmed = await self._player.play_one(ending)
        finally:
            if struck is not None:
                struck.set_result(None)
        await self._tell(track, timed, "ok" if confirmed else "fail", ending.KEY)

    async def _insist(self, track: str, client: str, task: int, step: Acquire, timed: Timed) -> None:
        """Ask again and again until the lock is granted, or for as long as the step says."""
        give_up_ns = self._player.now_ns() + (step.insist_ns or 0)
        while True:
            answer = await self._order(track, client, task, step, timed)
            if answer.outcome not in (Outcome.FAIL, Outcome.INFO) or self._player.now_ns() >= give_up_ns:
                return
            await asyncio.sleep((step.pause_ns or PAUSE_NS) / 1e9)

    async def _order(self, track: str, client: str, task: int, step: Operation, timed: Timed) -> Answer:
        player, heard, key, played = self._player, self._heard, step.KEY, self._played
        command = player.command_for(step, task)
        if played is not None:
            played.append(Played(player.now_ns(), track, key, "invoke", timed))
        if due := heard.note(track, key, "invoke", player.now_ns()):
            await heard.wake(due, player.now_ns())
        cancelling = None
        if step.cancel is not None:
            cancelling = self._begin(self._cancel(client, command, step.cancel))
        try:
            if self._within_s is None:
                answer = await player.order(track, client, command)
            else:
                async with asyncio.timeout(self._within_s):
                    answer = await player.order(track, client, command)
        except TimeoutError as error:
            seen = f"{client} did not finish its {key} within {self._within_s:.0f} s"
            raise UnknownOutcome(seen) from error
        except UnknownOutcome:
            if client in self._killed:
                raise NeverCame from None  # what it was told to do has no end
            raise
        finally:
            if cancelling is not None:
                cancelling.cancel()
        self._note_lease((track, step.key), step, answer.outcome)
        if step.cancel is not None and not step.cancel.default and answer.outcome is not Outcome.INFO:
            player.miss(f"{track}: its {key} ended before it was cancelled")
        if played is not None:
            played.append(Played(player.now_ns(), track, key, str(answer.outcome), timed))
        if due := heard.note(track, key, str(answer.outcome), player.now_ns()):
            await heard.wake(due, player.now_ns())
        return answer

    def _note_lease(self, lease: tuple[str, str | None], step: Operation, outcome: Outcome) -> None:
        key, succeeds = step.KEY, outcome is Outcome.OK
        if key == Acquire.KEY:
            self._checked.discard(lease)
            if succeeds:
                self._leases[lease] += 1
            if step.key is None:
                (self._refused.discard if succeeds else self._refused.add)(lease[0])
            return
        if key in (Check.KEY, Read.KEY):
            (self._checked.add if succeeds else self._checked.discard)(lease)
        if outcome is Outcome.SKIPPED and key != Write.KEY:
            del self._leases[lease]
        elif isinstance(step, Release) and self._leases[lease] and not step.again:
            self._leases[lease] -= 1

    async def _cancel(self, client: str, command: Command, when: Trigger) -> None:
        await self._due(when, self._player.now_ns())
        await self._player.cancel(client, command)

    def take_apart(self) -> None:
        """Refer to nothing any more: then it is gone at once, and no collector has to look for it."""
        vars(self._heard).clear()
        vars(self).clear()

    def of_clients(self) -> Iterator[tuple[str, asyncio.Task[None]]]:
        """The tasks that play tracks of clients, with these."""
        for client, tracks in self._of_client.items():
            yield from ((client, track.playing) for track in tracks)

    @staticmethod
    def waits_for_sendings(tracks: Mapping[str, tuple[Timed, ...]]) -> set[str]:
        """The clients of which something waits until they are about to send."""
        triggers = (each for track in tracks.values() for timed in track for each in timed.triggers)
        return {(each.track or "").partition("/")[0] for each in triggers if each.operation == SENDS}

    def hear_sendings(self, client: str, sendings: Sendings) -> None:
        """Hear when a client is about to send; if a fault waits for that, nothing leaves until it has struck.

        What a client sends before the start does not count.
        """

        def begins() -> None:
            now_ns = self._player.now_ns()
            if now_ns >= self._start_ns and (due := self._heard.note(client, SENDS, "invoke", now_ns)):
                sendings.hold()
                self._begin(self._strike_and_go_on(due, now_ns, sendings))

        sendings.begins.append(begins)

    async def _strike_and_go_on(self, due: list[_Waiting], now_ns: int, sendings: Sendings) -> None:
        try:
            await self._heard.wake(due, now_ns)
        finally:
            sendings.go_on()

    async def _tell(self, track: str, timed: Timed, outcome: str, ending: str = "") -> None:
        """An event of an action, or of the end of a fault."""
        now_ns, key = self._player.now_ns(), ending or timed.step.KEY
        if self._played is not None:
            self._played.append(Played(now_ns, track, key, str(outcome), timed))
        if due := self._heard.note(track, key, outcome, now_ns):
            await self._heard.wake(due, now_ns)

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
        await self._until_ns(before_ns + trigger.after_ns)

    async def _until_ns(self, time_ns: int) -> None:
        left_ns = time_ns - self._player.now_ns()
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


def _awaited(tracks: Mapping[str, tuple[Timed, ...]]) -> Iterator[tuple[str, str]]:
    """The tracks and actions that the triggers of these tracks name."""
    for timed in chain.from_iterable(tracks.values()):
        for trigger in timed.triggers:
            if trigger.track is not None:
                yield trigger.track, trigger.operation if trigger.lease is None else Acquire.KEY


def _at_once(trigger: Trigger | None) -> bool:
    """Whether a fault with this trigger strikes as soon as an event of another track has come."""
    return trigger is not None and not (trigger.lease or trigger.anchor or trigger.after_ns)
