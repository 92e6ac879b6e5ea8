"""The faults of a trial, at their moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lab.client.log import Sink
from lab.search.direct import TrialNode
from lab.search.trial import FOR_GOOD, LINK_KINDS, START_NS, Fault
from lab.substrates.sim.loop import HostLoop
from lab.substrates.sim.network import Pipe, Way
from lab.substrates.sim.world import World

KEY = b"resource"
HEARD = {("acquire", "invoke"): "asks", ("acquire", "ok"): "granted", ("release", "invoke"): "releases"}


class TrialNemesis:
    """Hears what clients record and lets the faults that wait for it happen.

    Args:
        world: whose time it is.
        faults: what is to happen.
        nodes: the nodes by name.
        clients: the clients' event loops by name.
        ways: the links from each client to each node.
        record: told of each fault that begins (True) or ends.
        ttl_ns: how long a lease lasts.
    """

    def __init__(
        self,
        world: World,
        faults: tuple[Fault, ...],
        nodes: Mapping[str, TrialNode],
        clients: Mapping[str, HostLoop],
        ways: Mapping[tuple[str, str], Way],
        record: Callable[[Fault, bool], None],
        ttl_ns: int,
    ) -> None:
        self._world, self._nodes, self._clients, self._ways = world, nodes, clients, ways
        self._record, self._ttl_ns = record, ttl_ns
        self._waiting: dict[tuple[str, str, int], list[Fault]] = {}
        self._seen: dict[tuple[str, str], int] = {}
        self._doing: dict[str, tuple[str, str]] = {}
        self._held: dict[str, tuple[bytes, int]] = {}
        self.covered: set[tuple[str, str]] = set()
        """Which kind of fault left the lock in which state."""
        self.eroded = 0
        """How many nodes had forgotten a lease that somebody rightly counted on when another client asked."""
        for fault in faults:
            when = fault.when
            if when.moment == "start":
                world.at(START_NS + when.after_ns, self._strike, fault)
            else:
                self._waiting.setdefault((when.client, when.moment, when.nth), []).append(fault)

    def listening(self, sink: Sink) -> Sink:
        """A sink that passes everything on, and lets the nemesis know."""
        world, ttl_ns = self._world, self._ttl_ns

        def hear(event: dict[str, Any]) -> None:
            sink(event)
            client = event["client"]
            self._doing[client] = what = event["f"], event["type"]
            moment = HEARD.get(what)
            if moment is None:
                return
            if moment == "granted":
                self._held[client] = event["token"].encode(), world.now_ns + ttl_ns
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
            return self._clients[client].host.paused
        return False

    def _reached(self, client: str, moment: str) -> None:
        nth = self._seen[client, moment] = self._seen.get((client, moment), 0) + 1
        for fault in self._waiting.pop((client, moment, nth), ()):
            if fault.when.after_ns:
                self._world.after(fault.when.after_ns, self._strike, fault)
            else:
                self._strike(fault)

    def _strike(self, fault: Fault) -> None:
        if self._is_so_already(fault):
            return
        self._record(fault, True)
        self._hit(fault)
        doing = "/".join(sorted(f"{f}-{kind}" for f, kind in self._doing.values()))
        self.covered.add((fault.kind, f"{doing}, {self._forgotten()} forgot"))

    def _is_so_already(self, fault: Fault) -> bool:
        if fault.kind == "pause":
            return self._clients[fault.client].host.paused
        return fault.kind in ("crash", "power_cut") and not self._nodes[fault.nodes[0]].alive

    def _forgotten(self) -> int:
        """Of all nodes, how many do not keep the token of a lease that is still counted on; at most so."""
        now_ns = self._world.now_ns
        kept = [node.keeps(KEY) for node in self._nodes.values()] if self._held else []
        return max(
            (sum(token != each for each in kept) for token, end in self._held.values() if end > now_ns),
            default=0,
        )

    def _hit(self, fault: Fault) -> None:
        if fault.kind in LINK_KINDS:
            for pipe in self._pipes(fault):
                if fault.kind == "cut":
                    pipe.suffer(lost=True)
                elif fault.kind == "hold":
                    pipe.suffer(held=True)
                else:
                    pipe.suffer(delay_ns=fault.by_ns)
        elif fault.kind == "pause":
            self._clients[fault.client].host.pause()
        else:
            for name in fault.nodes:
                self._strike_node(self._nodes[name], fault)
        if fault.lasts_ns != FOR_GOOD:
            self._world.after(fault.lasts_ns, self._end, fault)

    def _strike_node(self, node: TrialNode, fault: Fault) -> None:
        if fault.kind == "jump":
            node.host.clock.jump(fault.by_ns)
            node.clock_changed()
        elif node.alive:
            node.die(power_cut=fault.kind == "power_cut")

    def _end(self, fault: Fault) -> None:
        self._record(fault, False)
        if fault.kind in LINK_KINDS:
            self._heal(fault)
        elif fault.kind == "pause":
            self._clients[fault.client].host.resume()
        elif fault.kind != "jump":
            for name in fault.nodes:
                if not self._nodes[name].alive:
                    self._nodes[name].boot()

    def _heal(self, fault: Fault) -> None:
        """End everything on these links, as healing does on every substrate."""
        for node in fault.nodes:
            way = self._ways[fault.client, node]
            if any(pipe.trouble is not None and pipe.trouble.lost for pipe in (way.requests, way.replies)):
                way.break_connections(reset=False)
            way.requests.release()
            way.replies.release()

    def _pipes(self, fault: Fault) -> list[Pipe]:
        ways = [self._ways[fault.client, node] for node in fault.nodes]
        requests = [way.requests for way in ways if fault.direction != "replies"]
        return requests + [way.replies for way in ways if fault.direction != "requests"]
