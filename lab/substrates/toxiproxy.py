"""Toxiproxy as the links between clients and nodes: one proxy per link, since toxics are per proxy.

toxiproxy-python keeps the server's address in a class attribute, so each call here sets it first, under a
lock; and it does not look at every error status, so what it returns is checked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import requests
from toxiproxy import Toxiproxy as Api
from toxiproxy.api import APIConsumer
from toxiproxy.proxy import Proxy

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.substrates.answering import Answering
from lab.substrates.base import ConnectionKind, Direction, Probe, Stream
from lab.substrates.probe import OpenConnection, Ping, echo

T = TypeVar("T")

TOXIPROXY_STREAM: Final[dict[Stream, str]] = {"requests": "upstream", "replies": "downstream"}
HOUR_MS: Final = 3_600_000
"""How long a held packet would wait if nobody healed the link."""

API_TIMEOUT_S: Final = 15.0
LINKS_PER_SERVER: Final = 200
"""A server with thousands of proxies no longer answers in time; so many are asked for in one request."""
NEUTRAL: Final[dict[str, dict[str, int]]] = {
    "latency": {"latency": 0, "jitter": 0},
    "bandwidth": {"rate": 1_000_000_000},
}
"""What makes a toxic of each type let everything pass at once."""

WILDCARDS: Final = frozenset(("0.0.0.0", "[::]"))
"""A proxy that listens there is reached where its server is."""

_api_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """A way to be made: from whom to whom, what lies behind it and how that is asked.

    ``port`` tells several ways from one to the other apart. ``answering`` is what answers commands with
    errors behind the proxy. ``listen`` is where the proxy listens, if that may not be left to the system.
    ``label`` is how its name begins, in a Toxiproxy that others use as well.
    """

    client: str
    target: str
    behind: Address
    ping: Ping = echo
    port: int | None = None
    answering: Answering | None = None
    listen: str | None = None
    label: str = ""

    @property
    def name(self) -> str:
        """What its proxy is called."""
        return f"{self.label}{self.client}-{self.target}" + ("" if self.port is None else f"-{self.port}")


class ToxiproxyServer:
    """One running toxiproxy-server, reached at ``host:port``."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._api = Api()

    async def call(self, action: Callable[[Api], T], *, alone: bool = True) -> T:
        """Run ``action`` with the API of this server, in a thread.

        One that does not use the library, whose address is shared, need not be ``alone``.

        Raises:
            UnknownOutcome: the server did not answer, or refused.
        """
        # Toxiproxy can freeze for good when a toxic is taken from a connection that died (its issue 558), and
        # toxiproxy-python waits for ever. The thread that waits ends when the server is killed.
        try:
            run = self._call if alone else self._run
            return await asyncio.wait_for(asyncio.to_thread(run, action), API_TIMEOUT_S)
        except TimeoutError as error:
            raise UnknownOutcome(
                f"Toxiproxy did not answer its API within {API_TIMEOUT_S:.0f} s: it is frozen",
                where=f"the Toxiproxy API at {self.host}:{self.port}",
            ) from error

    def _call(self, action: Callable[[Api], T]) -> T:
        with _api_lock:
            self._api.update_api_consumer(self.host, self.port)
            return self._run(action)

    def _run(self, action: Callable[[Api], T]) -> T:
        try:
            return action(self._api)
        except Exception as error:
            raise UnknownOutcome(
                f"Toxiproxy did not do what it was asked: {type(error).__name__}: {error}",
                where=f"the Toxiproxy API at {self.host}:{self.port}",
                hint="see logs/toxiproxy.log in the run's directory",
            ) from error

    async def version(self) -> str:
        """Return the server's version; also the proof that it answers."""

        def get(api: Api) -> str:
            answer = requests.get(f"http://{APIConsumer.host}:{APIConsumer.port}/version", timeout=2)
            answer.raise_for_status()
            return str(answer.json()["version"])

        return await self.call(get)

    async def create_links(self, plans: Sequence[LinkPlan]) -> list[ToxiproxyLink]:
        """Make one proxy for each plan, on ports the system chooses unless the plan names one."""

        def create(some: Sequence[LinkPlan], _: Api) -> list[Proxy]:
            # The library asks for all proxies before it makes one.
            wanted = [
                {
                    "name": plan.name,
                    "listen": plan.listen or f"{self.host}:0",
                    "upstream": f"{plan.behind.host}:{plan.behind.port}",
                    "enabled": True,
                }
                for plan in some
            ]
            place = f"http://{self.host}:{self.port}/populate"
            answer = requests.post(place, json=wanted, timeout=API_TIMEOUT_S)
            answer.raise_for_status()
            proxies = {each["name"]: Proxy(**each) for each in answer.json()["proxies"]}
            return [proxies[plan.name] for plan in some]

        made: list[Proxy] = []
        for first in range(0, len(plans), LINKS_PER_SERVER):
            some = plans[first : first + LINKS_PER_SERVER]
            made += await self.call(partial(create, some), alone=False)
        links = []
        for plan, proxy in zip(plans, made, strict=True):
            host, _, port = proxy.listen.rpartition(":")
            reached = self.host if host in WILDCARDS else host
            address = Address(plan.target, reached, int(port))
            link = ToxiproxyLink(self, proxy, plan.client, plan.target, address, plan.ping)
            link.answering = plan.answering
            links.append(link)
        return links


class ToxiproxyLink:
    """The way from one client to one target through its own proxy."""

    def __init__(
        self,
        server: ToxiproxyServer,
        proxy: Proxy,
        client: str,
        target: str,
        address: Address,
        ping: Ping = echo,
    ) -> None:
        self.client, self.target, self.address = client, target, address
        self.answering: Answering | None = None
        self._ping = ping
        self._server = server
        self._proxy = proxy
        self._toxics: dict[str, tuple[str, dict[str, int]]] = {}

    def only(self, kind: ConnectionKind) -> ToxiproxyLink:
        """Never asked: toxics are per proxy, and all connections of a link pass through one."""
        raise UnknownOutcome(f"Toxiproxy does not tell the {kind} of {self.client} apart")

    async def cut(self, direction: Direction, *, refused: bool) -> None:
        """A ``timeout`` toxic of 0 swallows what passes; ``refused`` closes the proxy's port instead."""
        if refused:
            await self._server.call(lambda _: self._proxy.disable())
            return
        await self._add("cut", direction, "timeout", {"timeout": 0})

    async def hold(self, direction: Direction) -> None:
        """A ``latency`` toxic of an hour; making it none delivers at once what it kept."""
        await self._add("hold", direction, "latency", {"latency": HOUR_MS, "jitter": 0})

    async def delay(self, by_ns: int, jitter_ns: int, direction: Direction) -> None:
        """A ``latency`` toxic in each direction; Toxiproxy counts in milliseconds."""
        await self._add(
            "delay", direction, "latency", {"latency": _ms(by_ns), "jitter": jitter_ns // 1_000_000}
        )

    async def narrow(self, rate_kb_per_s: int, direction: Direction) -> None:
        """A ``bandwidth`` toxic in each direction."""
        await self._add("bandwidth", direction, "bandwidth", {"rate": rate_kb_per_s})

    async def reset(self) -> None:
        """Close the proxy's port and open it again, which ends all its connections.

        They end with a FIN: the ``reset_peer`` toxic sends an RST only on connections made after it was
        added, and only when they are used. What was in flight is lost either way.
        """

        def shut_and_open(_: Api) -> None:
            self._proxy.disable()
            self._proxy.enable()

        await self._server.call(shut_and_open)

    async def troubles(self) -> list[str]:
        """Ask Toxiproxy what the toxics of this proxy do, and whether it is open."""

        def look(api: Api) -> list[str]:
            proxy = api.get_proxy(self._proxy.name)
            toxics = proxy.toxics().values()
            acting = [toxic.name for toxic in toxics if toxic.attributes != NEUTRAL.get(toxic.type)]
            if self.answering is not None and self.answering.error is not None:
                acting.append(f"answers {self.answering.error}")
            return sorted(acting) + ([] if proxy.enabled else ["refused"])

        return await self._server.call(look)

    async def witness(self) -> OpenConnection:
        """A connection through the proxy, open and idle. Raises ``UnknownOutcome``."""
        return await OpenConnection.make(self.address, f"{self.client} to {self.target}")

    async def heal(self) -> None:
        """Let everything pass again, what was kept included, and open the proxy.

        Toxics that keep packets are made neutral and stay: to remove one can hang Toxiproxy for ever when a
        connection with kept packets was given up by its client (Shopify/toxiproxy, issue 558). Those that
        hold come last, so that what they let go finds the rest of the way free; and these are asked for
        without waiting for other links, so that links which are healed together let go together, as nearly
        as Toxiproxy answers requests side by side. The ``timeout`` toxic of a cut is removed, which also
        ends its connections: bytes were lost on them.
        """
        if self.answering is not None:
            self.answering.end()
        names = sorted(self._toxics)
        holding = [name for name in names if name.startswith("hold")]

        def undo(_: Api) -> None:
            for name in names:
                kind = self._toxics[name][0] if name in self._toxics else None  # healed twice at once
                if kind in NEUTRAL and name not in holding:
                    self._update(name, kind, NEUTRAL[kind])
                elif kind is not None and kind not in NEUTRAL:
                    self._proxy.destroy_toxic(name)
                    del self._toxics[name]
            if not self._proxy.enabled:
                self._proxy.enable()

        await self._server.call(undo)
        let_go = (partial(self._let_go, name) for name in holding)
        await asyncio.gather(*(self._server.call(action, alone=False) for action in let_go))

    def _let_go(self, name: str, _: Api) -> None:
        kind = self._toxics[name][0]
        self._update(name, kind, NEUTRAL[kind])

    @property
    def name(self) -> str:
        """What its proxy is called."""
        return str(self._proxy.name)

    @property
    def ways(self) -> tuple[()]:
        """None: it is one way itself."""
        return ()

    async def remove(self) -> None:
        """Remove the proxy, which ends its connections. Raises ``UnknownOutcome``."""
        await self._server.call(lambda _: self._proxy.destroy())

    async def probe(self, timeout_s: float, payload_bytes: int = 5) -> Probe:
        """Ask through the proxy on a connection of its own."""
        return await self._ping(self.address, timeout_s, payload_bytes)

    async def _add(self, name: str, direction: Direction, kind: str, attributes: dict[str, int]) -> None:
        """Add a toxic in each direction, or change the one that is there already."""
        streams = TOXIPROXY_STREAM.values() if direction == "both" else [TOXIPROXY_STREAM[direction]]

        def add(_: Api) -> None:
            for stream in streams:
                toxic = f"{name}-{stream}"
                if toxic not in self._toxics:
                    self._proxy.add_toxic(name=toxic, type=kind, stream=stream, attributes=attributes)
                    self._toxics[toxic] = (kind, attributes)
                elif self._toxics[toxic] != (kind, attributes):
                    self._update(toxic, kind, attributes)
            there = self._proxy.toxics()
            missing = [f"{name}-{stream}" for stream in streams if f"{name}-{stream}" not in there]
            if missing:
                raise RuntimeError(f"it did not add {missing} to {self._proxy.name}")

        await self._server.call(add)

    def _update(self, toxic: str, kind: str, attributes: dict[str, int]) -> None:
        """Change a toxic in place; the library has no call for it."""
        place = f"http://{self._server.host}:{self._server.port}/proxies/{self._proxy.name}/toxics/{toxic}"
        answer = requests.post(place, json={"attributes": attributes}, timeout=API_TIMEOUT_S)
        answer.raise_for_status()
        self._toxics[toxic] = (kind, attributes)


def _ms(duration_ns: int) -> int:
    """Whole milliseconds, rounded up: a delay below one must not become none."""
    return -(-duration_ns // 1_000_000)
