"""Waiting for the anchors of a scenario: events observed on nodes, disks and clients, never guessed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from lab.client_protocol import Answer, Outcome
from lab.errors import UnknownOutcome
from lab.faults.base import is_running
from lab.faults.nemesis import Nemesis, Record
from lab.run.executed_instead import Executed, executed_instead
from lab.scenario.anchors import (
    Anchor,
    ClientAt,
    HeldDown,
    KeysGone,
    Leads,
    LeaseOver,
    MasterIs,
    NodesExecuted,
    NodesUp,
    Replicated,
    RoleIs,
    Synced,
    VoteSplit,
)
from lab.substrates.base import LEADER, MASTER, Cluster, Reporter, View

POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class Lasting:
    """A lease that was granted, on the history's clock: when it ends at the earliest, and at the latest.

    ``believed_ns``: when it ends by what the lock told its client, if it told anything.
    """

    earliest_ns: int
    latest_ns: int
    believed_ns: int | None = None


class Observations(Protocol):
    """What nodes show of the lock's key: an ``Observer`` of a run, or what a trial has in its place."""

    @property
    def node_key(self) -> str:
        """The name of the lock's key on the nodes."""
        ...

    async def observe(self, nodes: Iterable[str] | None = None) -> None:
        """Record the state of these nodes; of all if none is named."""
        ...

    async def token(self, node: str) -> str | None:
        """The value of the key on a node; None if it is not there."""
        ...

    async def until_watching(self, nodes: Iterable[str], timeout_s: float) -> bool:
        """Wait until every command of these nodes is seen; False: not in time."""
        ...

    async def until_executed(
        self, nodes: Iterable[str], command: str, since_ns: int, timeout_s: float, *, times: int = 1
    ) -> bool:
        """Wait until each node executed ``command`` on the key so often after ``since_ns``; False: not so."""
        ...

    async def until_gone(self, nodes: Iterable[str], timeout_s: float) -> bool:
        """Wait until the key is on none of these nodes; False: it stayed."""
        ...

    def executed_since(self, nodes: Iterable[str], since_ns: int) -> dict[str, Executed]:
        """What each of these nodes executed after ``since_ns``."""
        ...


class History(Record, Protocol):
    """A history that is being written, with its clock."""

    def now_ns(self) -> int:
        """The time on the history's clock."""
        ...


class Anchors:
    """Waits for anchors.

    Args:
        started_ns: returns when the last action was started; only what is executed after that counts.
        leases: the last lease of each client.
        pending: the actions of clients that are not awaited yet.
        slack_ns: how much clock drift and stamping may add to a TTL.
    """

    def __init__(
        self,
        cluster: Cluster,
        observer: Observations,
        nemesis: Nemesis,
        recorder: History,
        *,
        started_ns: Callable[[], int],
        leases: Mapping[str, Lasting],
        pending: Mapping[str, asyncio.Task[Answer]],
        slack_ns: int,
    ) -> None:
        self._cluster = cluster
        self._observer = observer
        self._nemesis = nemesis
        self._recorder = recorder
        self._started_ns = started_ns
        self._leases = leases
        self._pending = pending
        self._slack_ns = slack_ns

    async def wait_for(self, anchor: Anchor, since_ns: int | None = None) -> tuple[str, bool]:
        """Wait for an anchor; return it as text, and whether it was observed in time.

        Commands that nodes execute count from ``since_ns`` on; without it from the last `start` step.
        """
        timeout_s = anchor.within_ns / 1e9
        since_ns = self._started_ns() if since_ns is None else since_ns
        match anchor:
            case NodesExecuted():
                names = self._names(anchor.nodes)
                came = await self._observer.until_executed(
                    names, anchor.executed, since_ns, timeout_s, times=anchor.times
                )
                often = f" {anchor.times} times" if anchor.times > 1 else ""
                return f"node {_nodes(anchor.nodes)} executed {anchor.executed}{often}", came
            case KeysGone():
                gone = self._observer.until_gone(self._names(anchor.nodes), timeout_s)
                return f"the lock's key is gone from node {_nodes(anchor.nodes)}", await gone
            case VoteSplit():
                split = self._until(lambda: self._split(anchor), timeout_s, once=False)
                return f"no token stands on a majority of node {_nodes(anchor.nodes)}", await split
            case LeaseOver(over=False):
                return f"the lease of {anchor.lease} certainly lasts on", self._lasts(anchor.lease)
            case LeaseOver():
                over = self._until_lease_over(anchor.lease, timeout_s)
                return f"the lease of {anchor.lease} is certainly over", await over
            case NodesUp():
                return f"node {_nodes(anchor.nodes)} is up", await self._until_up(anchor, timeout_s)
            case ClientAt():
                return f"{anchor.client} is at {anchor.at}", await self._until_at(anchor, timeout_s)
            case Synced():
                words = "synced" if anchor.synced else "written and not synced"
                came_now = await self._until(lambda: self._synced(anchor), timeout_s, once=not anchor.synced)
                return f"what node {_nodes(anchor.nodes)} holds of the lock is {words}", came_now
            case Replicated():
                words = "holds what its master" if anchor.replicated else "lacks what its master"
                once = not anchor.replicated
                came_now = await self._until(lambda: self._replicated(anchor), timeout_s, once=once)
                return f"replica {_nodes(anchor.nodes)} {words} holds of the lock", came_now

            case MasterIs():
                came_now = await self._until(lambda: self._is_master(anchor), timeout_s, once=False)
                return (
                    f"{anchor.master} is the master, by {self._reporters(anchor.by)} and by itself",
                    came_now,
                )
            case HeldDown():
                came_now = await self._until(lambda: self._is_held_down(anchor), timeout_s, once=False)
                return f"{self._reporters(anchor.by)} hold {anchor.sdown} to be down", came_now
            case RoleIs():
                role = self._until(lambda: self._has_role(anchor.role_of, anchor.role), timeout_s, once=False)
                return f"{anchor.role_of} says that it is a {anchor.role}", await role
            case Leads():
                words = "leads" if anchor.leads else "does not lead"
                return f"node {_nodes(anchor.nodes)} {words}", await self._until(
                    lambda: self._leads(anchor), timeout_s, once=False
                )

    def _reports(self, by: str | tuple[str, ...]) -> list[Reporter]:
        """The Sentinels, or nodes of a Redis Cluster, of these names; of all those that run."""
        named = self._cluster.reporters
        return [one for one in named.values() if (is_running(one) if by == "all" else one.name in by)]

    def _reporters(self, by: str | tuple[str, ...]) -> str:
        if by != "all":
            return ", ".join(by)
        return "all Sentinels" if self._cluster.sentinels else "all nodes"

    async def _is_master(self, anchor: MasterIs) -> bool:
        """Whether these servers name it and it says so."""
        views = await self._views(anchor.by)
        if not views or any(view.master != anchor.master for view in views):
            return False
        return await self._has_role(anchor.master, MASTER)

    async def _is_held_down(self, anchor: HeldDown) -> bool:
        others = tuple(one.name for one in self._reports(anchor.by) if one.name != anchor.sdown)
        views = await self._views(others)
        return bool(views) and all(anchor.sdown in view.down for view in views)

    async def _views(self, by: str | tuple[str, ...]) -> list[View]:
        """What these servers report; nothing if one of them does not answer."""
        try:
            return await asyncio.gather(*(one.view() for one in self._reports(by)))
        except UnknownOutcome:
            return []

    async def _has_role(self, name: str, role: str) -> bool:
        node = self._cluster.nodes[name]
        try:
            return is_running(node) and (await node.role()).name == role
        except UnknownOutcome:  # Sentinel ends all connections to a node whose role it changes
            return False

    def instead(self, anchor: Anchor, since_ns: int | None = None) -> str:
        """What was observed instead of an anchor, and what to do; empty: not known."""
        if not isinstance(anchor, NodesExecuted):
            return ""
        executed = self._observer.executed_since(
            self._names(anchor.nodes), self._started_ns() if since_ns is None else since_ns
        )
        return executed_instead(anchor.executed, self._observer.node_key, executed)

    async def _leads(self, anchor: Leads) -> bool:
        """Whether one of the servers reports that it leads, or none does."""
        nodes = (self._cluster.nodes[name] for name in self._names(anchor.nodes))
        roles = await asyncio.gather(*(node.role() for node in nodes if is_running(node)))
        return any(role.name == LEADER for role in roles) is anchor.leads

    async def _until_up(self, anchor: NodesUp, timeout_s: float) -> bool:
        names = self._names(anchor.nodes)
        if not await self._nemesis.until_up(names, timeout_s):
            return False
        return await self._observer.until_watching(names, timeout_s)

    async def _until_at(self, anchor: ClientAt, timeout_s: float) -> bool:
        task = self._pending.get(anchor.client)
        if task is None:
            return False
        await asyncio.wait([task], timeout=timeout_s)
        return task.done() and task.result().outcome is Outcome.HELD and task.result().text == anchor.at

    async def _until(self, is_so: Callable[[], Awaitable[bool]], timeout_s: float, *, once: bool) -> bool:
        """Poll until it is so; ``once``: what is not so now can't become so any more."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + timeout_s
        while not await is_so():
            if once or loop.time() > give_up:
                return False
            await asyncio.sleep(POLL_S)
        return True

    async def _split(self, anchor: VoteSplit) -> bool:
        """Whether all nodes hold the lock's key, and none of its values stands on a majority of them."""
        names = self._names(anchor.nodes)
        tokens = await asyncio.gather(*(self._observer.token(name) for name in names))
        return None not in tokens and max(map(tokens.count, tokens)) <= len(names) // 2

    async def _synced(self, anchor: Synced) -> bool:
        """Whether the lock's key is in the part of the file that is not synced, or not in that part.

        Of a snapshot: whether there were changes since the last one.
        """
        key = self._observer.node_key.encode()
        word = b"$%d\r\n%s\r\n" % (len(key), key)
        for name in self._names(anchor.nodes):
            node = self._cluster.nodes[name]
            if self._cluster.persistence == "rdb":
                waits = await node.changes() > 0
            else:
                waits = word in (await node.disk()).unsynced
            if waits is anchor.synced or (anchor.synced and await self._observer.token(name) is None):
                return False
        return True

    async def _replicated(self, anchor: Replicated) -> bool:
        """Whether masters hold the lock's key, and their replicas the same, or nothing.

        The same: a replica has also processed all that its master had written, such as an extension.
        """
        for name in self._names(anchor.nodes):
            master, replica = self._cluster.nodes[self._cluster.replicas[name]], self._cluster.nodes[name]
            written = (await master.role()).offset if anchor.replicated else 0
            held = await self._observer.token(master.name)
            copied = await self._observer.token(name)
            if held is None or copied != (held if anchor.replicated else None):
                return False
            if anchor.replicated and (await replica.role()).offset < written:
                return False
        return True

    def _lasts(self, client: str) -> bool:
        lease = self._leases.get(client)
        return lease is not None and self._recorder.now_ns() < lease.earliest_ns - self._slack_ns

    async def _until_lease_over(self, client: str, timeout_s: float) -> bool:
        lease = self._leases.get(client)
        if lease is None:
            return False
        left_s = (lease.latest_ns + self._slack_ns - self._recorder.now_ns()) / 1e9
        if left_s > timeout_s:
            await asyncio.sleep(timeout_s)
            return False
        await asyncio.sleep(max(0.0, left_s))
        return True

    def _names(self, nodes: str | tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._cluster.nodes) if nodes == "all" else tuple(nodes)


def _nodes(nodes: str | tuple[str, ...]) -> str:
    return "A…" if nodes == "all" else ", ".join(nodes)
