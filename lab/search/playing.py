"""What the player of tracks needs of a trial: a history in memory, a nemesis, and what nodes show.

Nothing here takes any time: receipts come from looking at the cluster, and nobody is connected to it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, cast

from lab.analysis.assumptions import RHO
from lab.client.log import Sink
from lab.faults.answers import Answers
from lab.faults.base import Fault as FaultStep
from lab.faults.base import Receipt, Target, Tolerance
from lab.faults.down import DownFault
from lab.faults.drift import Drift
from lab.faults.failover import Failover
from lab.faults.nemesis import Action, Nemesis
from lab.faults.pause import Pause
from lab.run.executed_instead import Executed
from lab.scenario.tracks import Timed
from lab.search.cluster import TrialCluster
from lab.search.faults import FOR_GOOD, every_fault, fault_of, in_machines, lasting, with_fields
from lab.search.trial import Trial
from lab.substrates.base import Cluster
from lab.substrates.sim.world import World

Event = dict[str, Any]
POLL_S: Final = 0.001


class MemoryHistory:
    """A history as the nemesis and the player write it.

    Args:
        events: where its events are appended.
        now_ns: its clock.
    """

    def __init__(self, events: list[Event], now_ns: Callable[[], int]) -> None:
        self._events = events
        self.now_ns = now_ns

    def write(self, process: str, kind: str, f: str, **fields: Any) -> None:
        """Append an event of the nemesis; what never came to happen is no event of a trial."""
        if process == "nemesis":
            about = {name: value for name, value in fields.items() if value is not None}
            self._events.append({"time_ns": self.now_ns(), "process": process, "f": f, **about, "type": kind})


class Coverage:
    """Hears what clients record: which kind of fault hit which state of the lock.

    Args:
        world: whose time it is.
        trial: its TTL.
        cluster: its nodes.
    """

    def __init__(self, world: World, trial: Trial, cluster: TrialCluster) -> None:
        self._world, self._ttl_ns, self._cluster = world, trial.ttl_ns, cluster
        self._doing: dict[str, tuple[str, str]] = {}
        self._held: dict[str, tuple[bytes, int]] = {}
        self.node_key = b""
        """Under which name the lock's key lies on the nodes."""
        self.covered: set[tuple[str, str]] = set()
        """Which kind of fault left the lock in which state."""
        self.eroded = 0
        """How many nodes had forgotten a lease that somebody rightly counted on when another client asked."""

    def listening(self, sink: Sink) -> Sink:
        """A sink that passes everything on, and hears it."""

        def hear(event: Event) -> None:
            sink(event)
            client = event["client"]
            self._doing[client] = what = event["f"], event["type"]
            if what == ("acquire", "ok"):
                if token := event.get("token"):  # some libraries do not show theirs
                    self._held[client] = token.encode(), self._world.now_ns + self._ttl_ns
            elif what == ("release", "invoke"):
                self._held.pop(client, None)
            elif what == ("acquire", "invoke"):
                self.eroded = max(self.eroded, self._forgotten())

        return hear

    def struck(self, kind: str) -> None:
        """A fault has taken effect."""
        doing = "/".join(sorted(f"{f}-{outcome}" for f, outcome in self._doing.values()))
        self.covered.add((kind, f"{doing}, {self._forgotten()} forgot"))

    def _forgotten(self) -> int:
        """Of all nodes, how many do not keep the token of a lease that is still counted on; at most so."""
        now_ns, key = self._world.now_ns, self.node_key
        kept = [node.keeps(key) for node in self._cluster.nodes.values()] if self._held else []
        return max(
            (sum(token != each for each in kept) for token, end in self._held.values() if end > now_ns),
            default=0,
        )


class TrialNemesis(Nemesis):
    """Injects the faults of a trial; they are ``f1``, ``f2`` in the history, in their order.

    Args:
        cluster: what they happen to.
        history: where they are recorded.
        coverage: told of each.
        trial: its faults, and how long those of its tracks are to last.
    """

    def __init__(
        self, cluster: TrialCluster, history: MemoryHistory, coverage: Coverage, trial: Trial
    ) -> None:
        tolerance = Tolerance(
            clock_error_ns=round(RHO * trial.ttl_ns),
            clock_rate=RHO,
            network_delay_ns=trial.ttl_ns // 10,
            persistence=trial.persistence,
        )
        super().__init__(cast(Cluster, cluster), history, tolerance)  # faults ask no more than it has
        self._hit, self._now_ns, self._coverage = cluster, history.now_ns, coverage
        self._told: dict[FaultStep, list[Timed]] = {}
        for fault in in_machines(every_fault(trial)):
            self._told.setdefault(fault_of(fault), []).append(fault)
        self._next: FaultStep | None = None
        self._struck: dict[str, tuple[Timed, int]] = {}
        self._lasted_ns: dict[str, int] = {}
        self._decided = 0
        """How many failovers Sentinels decided on."""

    @property
    def struck(self) -> tuple[Timed, ...]:
        """The faults that happened, in their order, and how long each lasted, or was to."""
        return tuple(
            fault if fault.ending is None else lasting(fault, self._lasted_ns.get(fault_id, FOR_GOOD))
            for fault_id, (fault, _) in self._struck.items()
        )

    async def _inject(self, fault: FaultStep, target: Target) -> tuple[str, Receipt]:
        if self._is_so_already(fault):
            return "", Receipt(True, {})
        self._next = fault
        injected = await super()._inject(fault, target)
        self._coverage.struck(fault.KEY)
        return injected

    def _is_so_already(self, fault: FaultStep) -> bool:
        """Whether it cannot happen: its client was killed, or is paused, or its node is down."""
        client = getattr(fault, "client", None)
        if client is not None:
            host = self._hit.clients[client].host
            if host.down or (isinstance(fault, Pause) and host.paused):
                return True
        return isinstance(fault, DownFault) and not any(
            self._hit.nodes[name].alive for name in fault.target(self.cluster).ends
        )

    async def record(
        self, f: str, target: Target, breaks: str | None, action: Action, heals: str | None = None
    ) -> tuple[str, Receipt]:
        """Do something and record it; return its id in the history."""
        if f == Drift.KEY and isinstance(self._next, Drift):
            action = partial(self._drift, self._next)
        elif f == Answers.KEY and isinstance(self._next, Answers):
            action = partial(self._answer, self._next)
        return await super().record(f, target, breaks, action, heals)

    def _new_id(self, f: str, heals: str | None) -> str:
        if f == Failover.KEY and f not in self.under_way:  # Sentinels decided on it: no fault of the trial
            self._decided += 1
            return f"{Failover.KEY}-{self._decided}"
        if heals is not None:
            since_ns = self._struck[heals][1]
            self._lasted_ns[heals] = max(1, self._now_ns() - since_ns)
            return f"{heals}-end"
        fault_id = f"f{len(self._struck) + 1}"
        self._struck[fault_id] = self._as_told(), self._now_ns()
        return fault_id

    def _as_told(self) -> Timed:
        """The fault that begins, as the trial says it, or as it would."""
        step = self._next
        assert step is not None
        if told := self._told.get(step):
            fault = told[0] if len(told) == 1 else told.pop(0)
        else:
            fault = Timed.model_construct(step=step, at=None, until=None)
        if getattr(step, "nodes", None) == "all":
            fault = with_fields(fault, nodes=tuple(self._hit.nodes))
        self._lasted_ns[f"f{len(self._struck) + 1}"] = fault.lasts_ns
        return fault

    async def _drift(self, fault: Drift) -> Receipt:
        """Let a clock drift; its rate is looked up, since to watch it would take time."""
        hit = self._hit.clients[fault.client] if fault.client else self._hit.nodes[fault.node or ""]
        before_ppm = hit.host.clock.ppm
        await hit.drift_clock(fault.ppm)
        after_ppm = hit.host.clock.ppm
        return Receipt(before_ppm != after_ppm == fault.ppm, {"ppm_before": before_ppm, "ppm": after_ppm})

    async def _answer(self, fault: Answers) -> Receipt:
        """Let nodes answer with errors; that they do is looked up, since nobody is connected to ask."""
        troubles = {link.target: await link.troubles() for link in fault.begin(self.cluster)}
        confirmed = all(any(one.startswith(Answers.KEY) for one in each) for each in troubles.values())
        return Receipt(confirmed, {target: {"link": each} for target, each in troubles.items()})


class Shown:
    """What nodes show: to the player of tracks what the observer of a run is, without a connection.

    Args:
        cluster: the nodes.
        now_ns: the history's clock.
        notes: whether what nodes execute is to be noted, since something waits for that.
    """

    def __init__(self, cluster: TrialCluster, now_ns: Callable[[], int], *, notes: bool) -> None:
        self._cluster, self._now_ns = cluster, now_ns
        self.node_key = ""
        """Under which name the lock's key lies on the nodes."""
        self._executed: dict[str, list[tuple[int, str]]] = {name: [] for name in cluster.nodes}
        self._waiting: list[asyncio.Future[None]] = []
        for node in cluster.nodes.values() if notes else ():
            node.hear(partial(self._note, node.name))

    def _note(self, node: str, words: Sequence[bytes]) -> None:
        if self.node_key.encode() in words:
            self._executed[node].append((self._now_ns(), words[0].decode(errors="replace").upper()))
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    async def observe(self, nodes: Iterable[str] | None = None) -> None:
        """Do nothing: nobody looks at these observations."""

    async def token(self, node: str) -> str | None:
        """The value of the lock's key on a node; None if it is not there."""
        value = self._cluster.nodes[node].keeps(self.node_key.encode())
        return None if value is None else str(value)

    async def until_watching(self, nodes: Iterable[str], timeout_s: float) -> bool:
        """Every command is always seen."""
        return True

    async def until_executed(
        self, nodes: Iterable[str], command: str, since_ns: int, timeout_s: float, *, times: int = 1
    ) -> bool:
        """Wait until each node executed ``command`` on the key so often after ``since_ns``."""
        wanted = list(nodes)

        def all_seen() -> bool:
            return all(
                sum(name == command and at > since_ns for at, name in self._executed[node]) >= times
                for node in wanted
            )

        try:
            async with asyncio.timeout(timeout_s):
                while not all_seen():
                    self._waiting.append(asyncio.get_running_loop().create_future())
                    await self._waiting[-1]
        except TimeoutError:
            return False
        return True

    def executed_since(self, nodes: Iterable[str], since_ns: int) -> dict[str, Executed]:
        """What each of these nodes executed after ``since_ns``."""
        return {
            node: Executed(Counter(name for at, name in self._executed[node] if at > since_ns), Counter())
            for node in nodes
        }

    async def until_gone(self, nodes: Iterable[str], timeout_s: float) -> bool:
        """Wait until the key is on none of these nodes any more."""
        wanted = list(nodes)
        try:
            async with asyncio.timeout(timeout_s):
                while any([await self.token(node) is not None for node in wanted]):
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            return False
        return True
