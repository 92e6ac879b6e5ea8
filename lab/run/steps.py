"""Playing steps: one after the other, each reported as an event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, get_args

from lab.client_protocol import POINTS_BEFORE_GRANT, Answer, Command, Outcome, Verb
from lab.drivers import is_driver
from lab.durations import format_duration
from lab.errors import UnknownOutcome
from lab.faults.base import Fault
from lab.faults.links import LinkStep
from lab.faults.nemesis import End, Injected, Nemesis
from lab.faults.prime import Prime
from lab.run.anchors import Anchors, History, Lasting, Observations
from lab.run.events import OnEvent, RunEvent
from lab.scenario.actions import Action
from lab.scenario.anchors import (
    Anchor,
    ClientAt,
    KeysGone,
    LeaseOver,
    NodesExecuted,
    Replicated,
    Synced,
    VoteSplit,
)
from lab.scenario.model import Scenario
from lab.scenario.step_base import StepModel
from lab.scenario.steps import (
    Acquire,
    Do,
    Extend,
    Finish,
    Operation,
    Release,
    Say,
    Start,
    Until,
    Wait,
    Write,
)
from lab.scenario.triggers import SENDS
from lab.substrates.base import Capability, Cluster

ACTION_TIMEOUT_S = 120.0
WATCH_TIMEOUT_S = 10.0
ON_KEYS = (KeysGone, VoteSplit, Synced, Replicated)
"""The anchors that need observations of the lock's key on the nodes."""
VERBS: dict[str, Verb] = {
    "acquires": "acquire",
    "extends": "extend",
    "reads": "read",
    "checks": "check",
    "writes": "write",
    "releases": "release",
    "works": "work",
    "continues": "continue",
}

OPERATIONS: dict[str, Verb] = {verb: verb for verb in get_args(Verb)}


class Player:
    """Plays steps on a cluster.

    Args:
        ttl_ns: the lock's TTL, for the anchor that a lease is over.
        slack_ns: how much clock drift and stamping may add to it.
        key_of: a key that an operation names, as the lock's pattern of keys has it.
        on_event: told what happens; None: nothing is reported.
    """

    def __init__(
        self,
        cluster: Cluster,
        observer: Observations,
        nemesis: Nemesis,
        recorder: History,
        on_event: OnEvent | None,
        *,
        ttl_ns: int,
        slack_ns: int,
        key_of: Callable[[str], str] = str,
    ) -> None:
        self._key_of = key_of
        self._cluster = cluster
        self._observer = observer
        self._nemesis = nemesis
        self._recorder = recorder
        self.now_ns: Callable[[], int] = recorder.now_ns
        """Returns the time on the history's clock."""
        self._reports = on_event is not None
        self._on_event: OnEvent = on_event or _unheard
        self._commands = 0
        self._pending: dict[str, asyncio.Task[Answer]] = {}
        self._ttl_ns, self._slack_ns = ttl_ns, slack_ns
        self._leases: dict[str, Lasting] = {}
        self._started_ns = recorder.now_ns()
        self._anchors = Anchors(
            cluster,
            observer,
            nemesis,
            recorder,
            started_ns=lambda: self._started_ns,
            leases=self._leases,
            pending=self._pending,
            slack_ns=slack_ns,
        )
        self.missed: list[str] = []
        """Anchors that were never observed, and what was instead; any of them makes the run ``unknown``."""

    async def play(self, steps: tuple[StepModel, ...]) -> None:
        """Play all steps, then wait for actions that are still going on.

        Raises:
            UnknownOutcome: a client died or did not answer, or a fault could not be injected.
        """
        for step in steps:
            await self.play_one(step)
            if self.missed:
                return  # the next steps assume what was not observed
        for client in list(self._pending):
            await self._finish(client)

    async def abandon(self) -> None:
        """Cancel actions that are still going on; used when a run ends early."""
        for task in self._pending.values():
            task.cancel()
        await asyncio.gather(*self._pending.values(), return_exceptions=True)
        await self._nemesis.abandon()

    async def play_one(self, step: StepModel) -> bool:
        """Play one step to its end and report it; whether its receipt is there. Raises as ``play`` does."""
        match step:
            case Do():
                for action in step.actions:
                    self._begin(action)
                    await self._finish(action.client)
            case Start():
                self._started_ns = self._recorder.now_ns()
                self._begin(step.action)
                self._on_event(RunEvent(step.action.client, f"begins: {step.action}", "plain"))
            case Finish():
                for client in step.clients:
                    await self._finish(client)
            case Operation():
                client = step.client or ""
                await self.order(client, client, self.command_for(step))
            case Fault():
                return (await self.inject(step)).receipt.confirmed
            case End():
                return await self._end(step)
            case Prime():
                await self._prime(step)
            case Until():
                await self.observed(step.anchor)
            case Wait():
                self._on_event(RunEvent("lab", f"waits {format_duration(step.duration_ns)}", "plain"))
                await asyncio.sleep(step.duration_ns / 1e9)
            case Say():
                self._on_event(RunEvent("lab", step.text, "plain"))
            case _:
                raise TypeError(f"the step {step.KEY} is neither a fault nor the end of one")
        return True

    async def inject(self, fault: Fault) -> Injected:
        """Inject a fault and report it. Raises ``UnknownOutcome``."""
        # The action of a client that is to be killed never ends, so it is not awaited.
        left = self._pending.pop(fault.kills, None) if fault.kills is not None else None
        if before := fault.observed_before(self._cluster):
            await self._observer.observe(before)
        injected = await self._nemesis.inject(fault)
        if left is not None:
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
        if self._reports:
            confirmed = injected.receipt.confirmed
            missing = "" if confirmed else " (NO RECEIPT: it did not take effect)"
            status = "fault" if confirmed else "fail"
            self._on_event(RunEvent("nemesis", f"{fault.KEY}: {injected.words}{missing}", status))
        if after := fault.observed_after():
            await self._observer.observe(after)
        return injected

    def lasts(self, injected: Injected) -> bool:
        """Whether some of a fault has not been ended yet."""
        return self._nemesis.lasts(injected)

    async def _end(self, step: End) -> bool:
        words, confirmed = await self._nemesis.end(step)
        self._on_event(RunEvent("nemesis", step.SAYS.format(words), "fault" if confirmed else "fail"))
        names = step.brings_up(self._cluster)
        if names and not await self._observer.until_watching(names, WATCH_TIMEOUT_S):
            raise UnknownOutcome(f"node {', '.join(names)} was restarted and can't be watched")
        return confirmed

    def _begin(self, action: Action) -> None:
        if action.client in self._pending:
            raise UnknownOutcome(
                f"{action.client} is still busy at the step: {action}",
                hint=f"put a step 'finish: {action.client}' before it",
            )
        command = self.command(VERBS[action.verb], until=action.until)
        self._pending[action.client] = asyncio.create_task(
            self.order(action.client, action.client, command, action.verb)
        )

    def command(self, verb: Verb, **about: Any) -> Command:
        """A command with an id of its own."""
        self._commands += 1
        return Command(self._commands, verb, **about)

    def command_for(self, step: Operation, task: int = 1) -> Command:
        """The command for an operation of one of a client's tasks."""
        about: dict[str, Any] = {}
        match step:
            case Acquire():
                about["ttl_ns"], about["mode"] = step.ttl_ns, step.mode
            case Extend():
                about["ttl_ns"] = step.ttl_ns
            case Release():
                about["again"] = step.again
            case Write():
                about["if_checked"] = step.if_checked
        key = None if step.key is None else self._key_of(step.key)
        return self.command(OPERATIONS[step.KEY], task=task, key=key, **about)

    async def order(self, track: str, name: str, command: Command, verb: str = "") -> Answer:
        """Give a client a command, wait for its answer, and report it.

        Args:
            track: whose lease it is that the command may be about.
            name: the client.
            command: what it is to do.
            verb: the command as a sentence says it.
        """
        asked_ns = self.now_ns()
        answer = await self._cluster.clients[name].order(command)
        # Its lease was granted between these two instants, so each of them is on one safe side.
        granted = answer.outcome is Outcome.OK or (
            answer.outcome is Outcome.HELD and answer.text not in POINTS_BEFORE_GRANT
        )
        if granted and command.verb in ("acquire", "extend", "work"):
            ttl_ns, now_ns = command.ttl_ns or self._ttl_ns, self.now_ns()
            believed_ns = None if answer.believed_ns is None else now_ns + answer.believed_ns
            self._leases[track] = Lasting(asked_ns + ttl_ns, now_ns + ttl_ns, believed_ns)
        if self._reports:
            self._report(track, command, answer, verb)
        return answer

    def _report(self, track: str, command: Command, answer: Answer, verb: str) -> None:
        text = f"waits at the point {answer.text!r}" if answer.outcome is Outcome.HELD else answer.text
        skipped = f"{verb or command.verb}: skipped, since it {text}"
        text = skipped if answer.outcome is Outcome.SKIPPED else text
        self._on_event(
            RunEvent(track, text, "plain" if answer.outcome is Outcome.HELD else str(answer.outcome))
        )

    async def cancel(self, name: str, command: Command) -> None:
        """Let a client cancel a command that it carries out, if it has not ended yet."""
        self._on_event(RunEvent(name, f"cancels its {command.verb}", "plain"))
        await self._cluster.clients[name].send(Command(command.id, "cancel"))

    async def lease_over(self, track: str, *, believed: bool) -> None:
        """Wait until the lease of a track is over, by what its client was told or for certain."""
        while (left_ns := self._over_ns(track, believed=believed) - self.now_ns()) > 0:
            await asyncio.sleep(left_ns / 1e9)

    def _over_ns(self, track: str, *, believed: bool) -> int:
        lease = self._leases[track]
        if believed and lease.believed_ns is not None:
            return lease.believed_ns
        return lease.latest_ns + self._slack_ns

    async def _finish(self, client: str) -> None:
        task = self._pending.pop(client, None)
        if task is None:
            return
        try:
            async with asyncio.timeout(ACTION_TIMEOUT_S):
                await task
        except TimeoutError as error:
            raise UnknownOutcome(f"{client} did not finish within {ACTION_TIMEOUT_S:.0f} s") from error

    async def observed(self, anchor: Anchor, since_ns: int | None = None) -> bool:
        """Wait for an anchor and report it; whether it was observed. If not, the run is unknown."""
        words, observed = await self._anchors.wait_for(anchor, since_ns)
        if isinstance(anchor, ClientAt) and observed:
            self._pending.pop(anchor.client)  # it waits at its point, so there is nothing to finish
        if observed:
            self._on_event(RunEvent("lab", f"observed: {words}", "plain"))
        else:
            waited = "" if _is_checked_once(anchor) else f": not within {anchor.within_ns / 1e9:g} s"
            instead = self._anchors.instead(anchor, since_ns)
            self.miss(f"{words}{waited}" + (f"; {instead}" if instead else ""))
        return observed

    async def _prime(self, step: Prime) -> None:
        receipt = await step.prime(self._cluster)
        names = list(receipt.evidence)
        words = f"node {', '.join(names)} just past a sync to disk"
        if not receipt.confirmed:
            self.miss(f"{words}: {receipt.evidence}")
            return
        self._recorder.write("lab", "ok", "prime", targets=names, receipt=dict(receipt.evidence))
        self._on_event(RunEvent("lab", f"brings {words}", "plain"))

    def miss(self, error: str) -> None:
        """Record that an anchor was not observed, which makes the run unknown."""
        self.missed.append(error)
        self._recorder.write("lab", "fail", "anchor", error=error)
        self._on_event(RunEvent("lab", f"NEVER OBSERVED: {error}", "fail"))


def _unheard(event: RunEvent) -> None:
    """Report nothing."""


def _is_checked_once(anchor: Anchor) -> bool:
    match anchor:
        case Synced(synced=False) | Replicated(replicated=False) | LeaseOver(over=False):
            return True
    return False


def needs(played: Iterable[StepModel], awaited: Iterable[Anchor] = ()) -> frozenset[Capability]:
    """The capabilities that a substrate must have for these steps, and for the anchors of triggers."""
    steps = tuple(played)
    anchors = (*awaited, *(step.anchor for step in steps if isinstance(step, Until)))
    needed = {step.needs for step in steps if isinstance(step, Fault)}
    if any(isinstance(step, Prime) for step in steps) or any(isinstance(one, Synced) for one in anchors):
        needed.add(Capability.POWER_CUTS)
    if any(isinstance(one, ON_KEYS) for one in anchors):
        needed.add(Capability.WATCH_KEYS)
    if any(isinstance(one, NodesExecuted) for one in anchors):
        needed.add(Capability.SEE_COMMANDS)
    return frozenset(needed)


def needed_of(scenario: Scenario) -> frozenset[Capability]:
    """The capabilities that a scenario's nodes, its lock, links between servers, and events need."""
    driver = {Capability.DRIVERS} if is_driver(scenario.lock.name) else set()
    others = {Capability.OTHER_SERVICES} if scenario.cluster.service != "redis" else set()
    copies = {Capability.REPLICATION} if scenario.cluster.replicas else set()
    if scenario.cluster.sentinels:
        copies.add(Capability.SENTINELS)
    if scenario.cluster.sharded:
        copies.add(Capability.REDIS_CLUSTER)
    apart = any(isinstance(step, LinkStep) and step.node for step in scenario.every_step)
    peers = {Capability.CUT_PEERS} if others and apart else set()
    heard = any(each.operation == SENDS for timed in scenario.every_timed for each in timed.triggers)
    return frozenset(driver | others | copies | peers | ({Capability.HEAR_SENDS} if heard else set()))
