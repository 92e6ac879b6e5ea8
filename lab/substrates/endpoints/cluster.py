"""A cluster of servers that exist, with the lab's own store, clients and proxy before them.

A client's command takes this way: client → gateway (loopback; TLS, login, guard) → Toxiproxy → server.
The lab's own questions go by a gateway without a proxy behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import requests

from lab.addresses import Address, prefix_of
from lab.errors import LabError, UnknownOutcome
from lab.servers import Server
from lab.substrates.base import STORE
from lab.substrates.endpoints.door import CONNECT_TIMEOUT_S, Door, Refused, Way
from lab.substrates.endpoints.gateway import Gateway
from lab.substrates.endpoints.guard import Guard
from lab.substrates.endpoints.node import EndpointNode
from lab.substrates.endpoints.traces import Left, Traces, left_behind, place_of
from lab.substrates.local.cluster import LocalProcesses
from lab.substrates.plan import ClusterPlan
from lab.substrates.probe import Ping
from lab.substrates.toxiproxy import LinkPlan, ToxiproxyLink, ToxiproxyServer

MARKER_MS: Final = 3_600_000
"""How long the key stays that marks a prefix as taken, if nobody removes it."""
LOOK_EVERY_S: Final = 0.1
SILENT_S: Final = 5.0
"""How long a server may take to say what it is during the run."""
CLOCK_STEP_NS: Final = 100_000_000
"""By how much the clock of a server may move against this machine's during a run."""
AGAIN_S: Final = 0.2
"""After this time keys are removed once more: a command may still have been on its way."""


class EndpointCluster(LocalProcesses[EndpointNode]):
    """As many nodes as there are endpoints, in their order."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> None:
        super().__init__(plan, run_id, log_dir)
        assert plan.endpoints is not None
        self._asked = plan.endpoints
        self._prefix = prefix_of(run_id)
        self._marker = f"{self._prefix}run"
        self._doors: dict[str, Door] = {}
        self._guards: dict[str, Guard] = {}
        self._gateways: list[Gateway] = []
        self._told: dict[str, Mapping[str, str]] = {}
        self._traces: Traces | None = None
        self._watches: list[asyncio.Task[None]] = []
        self._existing: ToxiproxyServer | None = None
        self._in_existing: list[ToxiproxyLink] = []

    async def up(self) -> None:
        """Look at every endpoint first, and start what is the lab's own when all of them are fit."""
        for name, endpoint in zip(self._plan.nodes, self._asked.servers, strict=True):
            self._doors[name] = Door(name, endpoint, self._asked.tls)
        if self._asked.proxy:
            self._existing = await _existing(self._asked.proxy)
        self._traces = Traces(self._run_id, self._asked.proxy)
        left = list(left_behind())
        for name, door in self._doors.items():
            await self._look_at(name, door, left)
        _forget(left, {place_of(door.endpoint) for door in self._doors.values()}, self._asked.proxy)
        await super().up()
        self._watches = [asyncio.create_task(self._watch(door)) for door in self._doors.values()]

    async def down(self) -> None:
        """End what is the lab's own, and then remove every key that was named on an endpoint."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for node in self.nodes.values():
            await node.close()
        for client in self.clients.values():
            client.close()
        await self._nursery.stop_all()
        for gateway in self._gateways:
            await gateway.close()
        for link in self._in_existing:
            with contextlib.suppress(UnknownOutcome):
                await link.remove()
        removed = await asyncio.gather(*(self._clean(name) for name in self._guards))
        if self._traces is not None:
            self._traces.close(forget=all(removed))
        await super().down()

    async def _look_at(self, name: str, door: Door, left: Sequence[Left]) -> None:
        """Refuse a server that is not fit; mark the prefix as taken. Raises ``LabError``."""
        assert self._traces is not None
        traces, endpoint = self._traces, door.endpoint
        guard = Guard(self._prefix, endpoint.database, lambda key: traces.note(endpoint, key))
        way = await door.enter()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._told[name] = told = await door.about(way)
                if told.get("mode", "standalone") != "standalone":
                    raise door.is_no_master(f"it runs in the mode {told['mode']}")
                if told.get("role") != "master":
                    raise door.is_no_master(f"it is a {told.get('role')}")
                await self._remove_left(way, place_of(endpoint), left)
                for words in (("TIME",), ("ECHO", "lock-lab"), ("GET", self._marker), ("PTTL", self._marker)):
                    await _asked(way, guard, *words)
                taken = await _asked(way, guard, "EXISTS", *self._plan.lock_keys)
                if not taken:
                    self._guards[name] = guard  # whatever ends the run from now on, the marker is removed
                    marked = ("SET", self._marker, self._run_id, "NX", "PX", MARKER_MS)
                    taken = await _asked(way, guard, *marked) is None
        except Refused as error:
            raise door.not_allowed(str(error)) from None
        except (OSError, TimeoutError) as error:
            raise LabError(f"{name} stopped answering: {error!r}", where=door.where) from None
        finally:
            way.close()
        if taken:
            self._guards.pop(name, None)  # what is there is not this run's
            raise self._is_taken(name, door)

    def _is_taken(self, name: str, door: Door) -> LabError:
        same = list(self._guards)
        return LabError(
            f"{name} holds keys that begin with {self._prefix} before the run",
            where=door.where,
            expected="a server without keys of this run",
            hint=f"is it the same server as {' or '.join(same)}?" if same else "start the run again",
        )

    async def _remove_left(self, way: Way, place: str, left: Sequence[Left]) -> None:
        for one in left:
            if keys := one.keys.get(place):
                await way.ask("DEL", *keys)

    async def _clean(self, name: str) -> bool:
        """Remove the keys of the run from a server; return whether they are gone."""
        keys = [key.decode(errors="surrogateescape") for key in sorted(self._guards[name].keys)]
        try:
            async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
                way = await self._doors[name].open()
                try:
                    for pause_s in (0.0, AGAIN_S):
                        await asyncio.sleep(pause_s)
                        for key in keys:
                            await way.ask("DEL", key)
                finally:
                    way.close()
        except (OSError, TimeoutError, Refused) as error:
            self._versions[f"keys left on {name}"] = f"{len(keys)} with {self._prefix} ({error!r})"
            return False
        return True

    async def _watch(self, door: Door) -> None:
        """End the run if a server restarts, becomes a replica, is out of reach, or has its clock set.

        Nothing of this is a fault of the run's, so the lock could be blamed for it.
        """
        try:
            why = await self._until_changed(door)
        except (OSError, TimeoutError, Refused, LabError) as error:
            why = f"the lab's own connection to it ended ({error!r}): it may have restarted"
        if not self.failed.done():
            self.failed.set_result(f"{door.name} ({door.endpoint.place}) is not what it was: {why}")

    async def _until_changed(self, door: Door) -> str:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            way = await door.open()
        try:
            least, most = await _ahead(way)
            while True:
                async with asyncio.timeout(SILENT_S):
                    told = await door.about(way)
                    low, high = await _ahead(way)
                if told.get("role") != "master":
                    return f"it has become a {told.get('role')}"
                if low > most + CLOCK_STEP_NS or high < least - CLOCK_STEP_NS:
                    return f"its clock moved by some {(low - least) / 1e9:.3f} s"
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            way.close()

    async def _start_nodes(
        self, ports: Mapping[str, int | None], toxiproxy: Awaitable[ToxiproxyServer]
    ) -> dict[str, EndpointNode]:
        """Open the way by which the lab itself asks each server."""
        nodes = {}
        for name, door in self._doors.items():
            gateway = self._gateway(door, "the lab")
            told = self._told[name]
            product = "valkey" if told.get("server") == "valkey" else "redis"
            nodes[name] = EndpointNode(await gateway.open(), Server(product, told.get("version", "?")))
            self._versions[f"endpoint {name}"] = (
                f"{door.endpoint.words}, {product} {told.get('version', '?')}"
            )
        self._versions["persistence"] = "not known, since the servers are not the lab's"
        return nodes

    def _gateway(self, door: Door, whose: str) -> Gateway:
        gateway = Gateway(door, self._guards[door.name], whose, self._refused)
        self._gateways.append(gateway)
        return gateway

    def _refused(self, sentence: str) -> None:
        if not self.failed.done():
            self.forbidden = True
            self.failed.set_result(sentence)

    async def _link_plan(self, client: str, behind: Address, ping: Ping) -> LinkPlan:
        if behind.name == STORE:
            return await super()._link_plan(client, behind, ping)
        return LinkPlan(
            client, behind.name, self._doors[behind.name].address, ping, label=f"lock-lab-{self._run_id}-"
        )

    async def _shared_out(
        self, plans: Sequence[LinkPlan], proxies: Sequence[ToxiproxyServer]
    ) -> list[ToxiproxyLink]:
        """Make the links to nodes in the proxy that exists, if there is one; put a gateway before each."""
        to_store = [plan for plan in plans if plan.target == STORE]
        to_nodes = [plan for plan in plans if plan.target != STORE]
        links = await super()._shared_out(to_nodes, [self._existing] if self._existing else proxies)
        if self._existing:
            self._in_existing = list(links)
        for link in links:
            gateway = self._gateway(self._doors[link.target], link.client)
            link.address = await gateway.open(link.address)
        return [*links, *await super()._shared_out(to_store, proxies[:1])]


async def _asked(way: Way, guard: Guard, *words: str | int) -> Any:
    """Ask by the rules of the guard, which hold for the lab as well. Raises ``Refused``."""
    if why := guard.refuses([str(word).encode() for word in words]):
        raise Refused(why)
    return await way.ask(*words)


async def _ahead(way: Way) -> tuple[int, int]:
    """By how much the server's clock is ahead of this machine's, in nanoseconds: at least, and at most."""
    before_ns = time.time_ns()
    seconds, micros = await way.ask("TIME")
    after_ns = time.time_ns()
    node_ns = int(seconds) * 1_000_000_000 + int(micros) * 1_000
    return node_ns - after_ns, node_ns + 1_000 - before_ns


async def _existing(place: str) -> ToxiproxyServer:
    """The Toxiproxy whose API is at ``host:port``. Raises ``LabError``."""
    address = Address.parse(place)
    server = ToxiproxyServer(address.host, address.port)
    try:
        await server.version()
    except UnknownOutcome as error:
        raise LabError(
            f"the Toxiproxy cannot be used: {error.seen}",
            where=f"{place}, key `cluster.proxy`",
            expected="the address of the API of a Toxiproxy that runs",
            hint="without it, the lab starts one of its own",
        ) from None
    return server


def _forget(left: Sequence[Left], places: set[str], proxy: str | None) -> None:
    """Forget what killed runs had on these servers, and remove their proxies from the same Toxiproxy."""
    for one in left:
        if proxy and one.proxy == proxy:
            with contextlib.suppress(requests.RequestException, ValueError):
                remove_proxies(proxy, f"lock-lab-{one.run_id}-")
        one.removed(places)


def remove_proxies(api: str, label: str) -> None:
    """Remove the proxies of one run from a Toxiproxy. Raises ``requests.RequestException``."""
    for name in requests.get(f"http://{api}/proxies", timeout=CONNECT_TIMEOUT_S).json():
        if str(name).startswith(label):
            requests.delete(f"http://{api}/proxies/{name}", timeout=CONNECT_TIMEOUT_S)
