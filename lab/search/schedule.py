"""The faults of a trial, each at its moment: injected and ended by ``lab.faults``, as in every run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from lab.client.log import Sink
from lab.faults.base import Fault as FaultStep
from lab.faults.base import Receipt
from lab.faults.client_crash import ClientCrash
from lab.faults.clock import ClockFault
from lab.faults.correct import correct_clock
from lab.faults.down import DownFault
from lab.faults.drift import Drift
from lab.faults.heal import heal_links
from lab.faults.links import LinkFault
from lab.faults.machine import MachineStep
from lab.faults.pause import Pause
from lab.faults.restart import comes_back
from lab.faults.resume import resume
from lab.scenario.registry import fault_steps
from lab.search.cluster import TrialCluster
from lab.search.instant import InstantLoop
from lab.search.trial import FOR_GOOD, KEY, START_NS, Fault, Trial
from lab.substrates.base import Cluster
from lab.substrates.sim.world import World

HEARD = {
    ("acquire", "invoke"): "asks",
    ("acquire", "ok"): "granted",
    ("release", "invoke"): "releases",
    ("extend", "invoke"): "extends",
}
Record = Callable[[Fault, bool, Receipt], None]


@functools.lru_cache(maxsize=1024)
def step_of(fault: Fault) -> FaultStep:
    """The step of a scenario that injects this fault."""
    step = cast(type[FaultStep], fault_steps()[fault.kind])
    of_machine = fault.is_a(MachineStep)
    given: dict[str, Any] = {
        "client": (fault.client or None) if of_machine else fault.client,
        "node": fault.nodes[0] if of_machine and not fault.client else None,
        "nodes": fault.nodes,
        "direction": fault.direction,
        "by_ns": fault.by_ns,
        "ppm": fault.ppm,
        "mode": "refused" if fault.refused else "blackhole",
    }
    return step.model_construct(**{name: value for name, value in given.items() if name in step.model_fields})


def by_machine(fault: Fault) -> tuple[Fault, ...]:
    """A fault of several nodes, or of their clocks, as one for each; any other as it is.

    Each node has a receipt of its own, and comes back by itself.
    """
    if not fault.is_a(DownFault, ClockFault) or len(fault.nodes) <= 1:
        return (fault,)
    return tuple(replace(fault, nodes=(node,)) for node in fault.nodes)


class ScheduledFaults:
    """Hears what clients record and lets the faults that wait for it happen.

    Args:
        world: whose time it is.
        trial: what is to happen.
        cluster: what it happens to.
        record: told of each fault that begins (True) or ends, with its receipt.
    """

    def __init__(self, world: World, trial: Trial, cluster: TrialCluster, record: Record) -> None:
        self._world, self._trial, self._cluster, self._record = world, trial, cluster, record
        self._faulted = cast(Cluster, cluster)  # of which faults ask no more than it has
        self._loop = InstantLoop(world)
        self._waiting: dict[tuple[str, str, int], list[Fault]] = {}
        self._seen: dict[tuple[str, str], int] = {}
        self._doing: dict[str, tuple[str, str]] = {}
        self._held: dict[str, tuple[bytes, int]] = {}
        self.node_key = KEY.encode()
        """Under which name the lock's key lies on the nodes."""
        self.covered: set[tuple[str, str]] = set()
        """Which kind of fault left the lock in which state."""
        self.eroded = 0
        """How many nodes had forgotten a lease that somebody rightly counted on when another client asked."""
        for fault in trial.faults:
            when = fault.when
            if when.moment == "start":
                world.at(START_NS + when.after_ns, self.strike, fault)
            else:
                self._waiting.setdefault((when.client, when.moment, when.nth), []).append(fault)
        for client in {client for client, moment, _ in self._waiting if moment == "sends"}:
            cluster.sendings_of(client).begins.append(partial(self._sends, client))
        for fault in trial.faults:
            if fault.is_a(ClientCrash):
                cluster.sendings_of(fault.client)  # by which it sends nothing any more

    def listening(self, sink: Sink) -> Sink:
        """A sink that passes everything on, and hears it."""
        world, ttl_ns = self._world, self._trial.ttl_ns

        def hear(event: dict[str, Any]) -> None:
            sink(event)
            client = event["client"]
            self._doing[client] = what = event["f"], event["type"]
            moment = HEARD.get(what)
            if moment is None:
                return
            if moment == "granted":
                if token := event.get("token"):  # some libraries do not show theirs
                    self._held[client] = token.encode(), world.now_ns + ttl_ns
            elif moment == "releases":
                self._held.pop(client, None)
            elif moment == "asks":
                self.eroded = max(self.eroded, self._forgotten())
            self._reached(client, moment)

        return hear

    def passes(self, client: str, point: str) -> bool:
        """A client is at a point; whether it stands still now."""
        if point == "before-write":
            self._reached(client, point)
            return self._cluster.clients[client].host.paused
        return False

    def _sends(self, client: str) -> None:
        """A client is about to send to nodes; what it does while it connects does not count."""
        if self._world.now_ns >= START_NS:
            self._reached(client, "sends")

    def _reached(self, client: str, moment: str) -> None:
        nth = self._seen[client, moment] = self._seen.get((client, moment), 0) + 1
        for fault in self._waiting.pop((client, moment, nth), ()):
            if fault.when.after_ns:
                self._world.after(fault.when.after_ns, self.strike, fault)
            else:
                self.strike(fault)

    def strike(self, fault: Fault) -> None:
        """Inject a fault now, and arrange its end if it has one; nothing where it is so already."""
        for each in by_machine(fault):
            self._strike(each)

    def _strike(self, fault: Fault) -> None:
        if self._is_so_already(fault):
            return
        if fault.is_a(Drift):
            receipt = self._drift(fault)
        else:
            receipt = self._loop.run(step_of(fault).inject(self._faulted))
        self._record(fault, True, receipt)
        if fault.lasts_ns != FOR_GOOD and fault.lasts:
            self._world.after(fault.lasts_ns, self.end, fault, receipt.evidence)
        doing = "/".join(sorted(f"{f}-{kind}" for f, kind in self._doing.values()))
        self.covered.add((fault.kind, f"{doing}, {self._forgotten()} forgot"))

    def _drift(self, fault: Fault) -> Receipt:
        """Let a clock drift; its rate is looked up, since to watch it would take time."""
        machine = self._cluster.clients[fault.client] if fault.client else self._cluster.nodes[fault.nodes[0]]
        before_ppm = machine.host.clock.ppm
        self._loop.run(machine.drift_clock(fault.ppm))
        after_ppm = machine.host.clock.ppm
        return Receipt(before_ppm != after_ppm == fault.ppm, {"ppm_before": before_ppm, "ppm": after_ppm})

    def _is_so_already(self, fault: Fault) -> bool:
        if fault.client:
            host = self._cluster.clients[fault.client].host
            if host.down or (fault.is_a(Pause) and host.paused):
                return True
        return fault.is_a(DownFault) and not self._cluster.nodes[fault.nodes[0]].alive

    def _forgotten(self) -> int:
        """Of all nodes, how many do not keep the token of a lease that is still counted on; at most so."""
        now_ns, key = self._world.now_ns, self.node_key
        kept = [node.keeps(key) for node in self._cluster.nodes.values()] if self._held else []
        return max(
            (sum(token != each for each in kept) for token, end in self._held.values() if end > now_ns),
            default=0,
        )

    def end(self, fault: Fault, evidence: Mapping[str, Any]) -> None:
        """End a fault now; ``evidence`` is that of its receipt."""
        if fault.is_a(Pause) and self._cluster.clients[fault.client].host.down:
            return  # it was killed meanwhile
        if fault.is_a(LinkFault):
            ending = heal_links(fault.client, fault.nodes, self._faulted)
        elif fault.is_a(Pause):
            ending = resume(fault.client, self._faulted)
        elif fault.is_a(ClockFault):
            ending = correct_clock(fault.client or fault.nodes[0], self._faulted)
        else:
            (name,) = fault.nodes
            ending = comes_back(self._faulted.nodes[name], evidence.get(name) or {}, {})
        self._record(fault, False, self._loop.run(ending))
