"""Playing steps: one after the other, each reported as an event."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lab.client_protocol import POINTS_BEFORE_GRANT, Answer, Command, Outcome, Verb
from lab.drivers import is_driver
from lab.durations import format_duration
from lab.errors import UnknownOutcome
from lab.faults.base import Fault
from lab.faults.links import LinkStep
from lab.faults.nemesis import End, Nemesis
from lab.faults.prime import Prime
from lab.run.anchors import Anchors
from lab.run.events import OnEvent, RunEvent
from lab.run.observer import Observer
from lab.run.recorder import Recorder
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
from lab.scenario.steps import Do, Finish, Say, Start, Until, Wait
from lab.substrates.base import Capability, Client, Cluster

ACTION_TIMEOUT_S = 120.0
WATCH_TIMEOUT_S = 10.0
ON_KEYS = (NodesExecuted, KeysGone, VoteSplit, Synced, Replicated)
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


class Player:
    """Plays steps on a cluster.

    Args:
        ttl_ns: the lock's TTL, for the anchor that a lease is over.
        slack_ns: how much clock drift and stamping may add to it.
    """

    def __init__(
        self,
        cluster: Cluster,
        observer: Observer,
        nemesis: Nemesis,
        recorder: Recorder,
        on_event: OnEvent,
        *,
        ttl_ns: int,
        slack_ns: int,
    ) -> None:
        self._cluster = cluster
        self._observer = observer
        self._nemesis = nemesis
        self._recorder = recorder
        self._on_event = on_event
        self._commands = 0
        self._pending: dict[str, asyncio.Task[Answer]] = {}
        self._leased_ns: dict[str, tuple[int, int]] = {}
        self._started_ns = recorder.now_ns()
        self._anchors = Anchors(
            cluster,
            observer,
            nemesis,
            recorder,
            started_ns=lambda: self._started_ns,
            leased_ns=self._leased_ns,
            pending=self._pending,
            ttl_ns=ttl_ns,
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

    async def play_one(self, step: StepModel) -> None:
        """Play one step to its end and report it. Raises as ``play`` does."""
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
            case Fault():
                await self._inject(step)
            case End():
                await self._end(step)
            case Prime():
                await self._prime(step)
            case Until():
                await self._wait_for(step)
            case Wait():
                self._on_event(RunEvent("lab", f"waits {format_duration(step.duration_ns)}", "plain"))
                await asyncio.sleep(step.duration_ns / 1e9)
            case Say():
                self._on_event(RunEvent("lab", step.text, "plain"))
            case _:
                raise TypeError(f"the step {step.KEY} is neither a fault nor the end of one")

    async def _inject(self, fault: Fault) -> None:
        # The action of a client that is to be killed never ends, so it is not awaited.
        left = self._pending.pop(fault.kills, None) if fault.kills is not None else None
        if before := fault.observed_before(self._cluster):
            await self._observer.observe(before)
        words, receipt = await self._nemesis.inject(fault)
        if left is not None:
            left.cancel()
            await asyncio.gather(left, return_exceptions=True)
        missing = "" if receipt.confirmed else " (NO RECEIPT: it did not take effect)"
        status = "fault" if receipt.confirmed else "fail"
        self._on_event(RunEvent("nemesis", f"{fault.KEY}: {words}{missing}", status))
        if after := fault.observed_after():
            await self._observer.observe(after)

    async def _end(self, step: End) -> None:
        words, confirmed = await self._nemesis.end(step)
        self._on_event(RunEvent("nemesis", step.SAYS.format(words), "fault" if confirmed else "fail"))
        names = step.brings_up(self._cluster)
        if names and not await self._observer.until_watching(names, WATCH_TIMEOUT_S):
            raise UnknownOutcome(f"node {', '.join(names)} was restarted and can't be watched")

    def _begin(self, action: Action) -> None:
        if action.client in self._pending:
            raise UnknownOutcome(
                f"{action.client} is still busy at the step: {action}",
                hint=f"put a step 'finish: {action.client}' before it",
            )
        self._commands += 1
        command = Command(self._commands, VERBS[action.verb], action.until)
        client = self._cluster.clients[action.client]
        self._pending[action.client] = asyncio.create_task(self._order(client, command, action))

    async def _order(self, client: Client, command: Command, action: Action) -> Answer:
        asked_ns = self._recorder.now_ns()
        answer = await client.order(command)
        # Its lease was granted between these two instants, so each of them is on one safe side.
        granted = answer.outcome is Outcome.OK or (
            answer.outcome is Outcome.HELD and answer.text not in POINTS_BEFORE_GRANT
        )
        if granted and command.verb in ("acquire", "extend", "work"):
            self._leased_ns[client.name] = asked_ns, self._recorder.now_ns()
        text = f"waits at the point {answer.text!r}" if answer.outcome is Outcome.HELD else answer.text
        skipped = f"{action.verb}: skipped, since it {text}" if answer.outcome is Outcome.SKIPPED else text
        self._on_event(
            RunEvent(client.name, skipped, "plain" if answer.outcome is Outcome.HELD else str(answer.outcome))
        )
        return answer

    async def _finish(self, client: str) -> None:
        task = self._pending.pop(client, None)
        if task is None:
            return
        try:
            async with asyncio.timeout(ACTION_TIMEOUT_S):
                await task
        except TimeoutError as error:
            raise UnknownOutcome(f"{client} did not finish within {ACTION_TIMEOUT_S:.0f} s") from error

    async def _wait_for(self, step: Until) -> None:
        words, observed = await self._anchors.wait_for(step.anchor)
        if isinstance(step.anchor, ClientAt) and observed:
            self._pending.pop(step.anchor.client)  # it waits at its point, so there is nothing to finish
        if observed:
            self._on_event(RunEvent("lab", f"observed: {words}", "plain"))
        else:
            waited = (
                "" if _is_checked_once(step.anchor) else f": not within {step.anchor.within_ns / 1e9:g} s"
            )
            instead = self._anchors.instead(step.anchor)
            self._miss(f"{words}{waited}" + (f"; {instead}" if instead else ""))

    async def _prime(self, step: Prime) -> None:
        receipt = await step.prime(self._cluster)
        names = list(receipt.evidence)
        words = f"node {', '.join(names)} just past a sync to disk"
        if not receipt.confirmed:
            self._miss(f"{words}: {receipt.evidence}")
            return
        self._recorder.write("lab", "ok", "prime", targets=names, receipt=dict(receipt.evidence))
        self._on_event(RunEvent("lab", f"brings {words}", "plain"))

    def _miss(self, error: str) -> None:
        """Record that an anchor was not observed, which makes the run unknown."""
        self.missed.append(error)
        self._recorder.write("lab", "fail", "anchor", error=error)
        self._on_event(RunEvent("lab", f"NEVER OBSERVED: {error}", "fail"))


def _is_checked_once(anchor: Anchor) -> bool:
    match anchor:
        case Synced(synced=False) | Replicated(replicated=False) | LeaseOver(over=False):
            return True
    return False


def needs(played: Iterable[StepModel]) -> frozenset[Capability]:
    """The capabilities that a substrate must have for these steps."""
    steps = tuple(played)
    needed = {step.needs for step in steps if isinstance(step, Fault)}
    if any(isinstance(step, Prime) or _reads_disks(step) for step in steps):
        needed.add(Capability.POWER_CUTS)
    if any(isinstance(step, Until) and isinstance(step.anchor, ON_KEYS) for step in steps):
        needed.add(Capability.WATCH_KEYS)
    return frozenset(needed)


def needed_of(scenario: Scenario) -> frozenset[Capability]:
    """The capabilities that a scenario's nodes, its lock, and links between its servers need."""
    driver = {Capability.DRIVERS} if is_driver(scenario.lock.name) else set()
    others = {Capability.OTHER_SERVICES} if scenario.cluster.service != "redis" else set()
    copies = {Capability.REPLICATION} if scenario.cluster.replicas else set()
    apart = any(isinstance(step, LinkStep) and step.node for step in scenario.steps)
    peers = {Capability.CUT_PEERS} if others and apart else set()
    return frozenset(driver | others | copies | peers)


def _reads_disks(step: StepModel) -> bool:
    return isinstance(step, Until) and isinstance(step.anchor, Synced)
