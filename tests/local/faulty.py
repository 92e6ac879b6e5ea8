"""A small cluster to break: two nodes, one client, real processes, and a nemesis that keeps a history."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.client_protocol import Setup
from lab.faults.base import Receipt, Tolerance
from lab.faults.nemesis import Nemesis
from lab.processes import processes_of
from lab.redis_model.persistence import Persistence
from lab.run.recorder import Recorder
from lab.scenario.registry import steps
from lab.substrates.base import STORE, Capability
from lab.substrates.local.cluster import LocalCluster
from lab.substrates.local.sharded import ShardedCluster
from lab.substrates.plan import ClusterPlan

S = 1_000_000_000
MS = 1_000_000
KEY = "stock"
"""The key of the lock in a Redis Cluster; of three masters A serves its slot."""


def step(**body: Any) -> Any:
    """One step as a file has it: `step(jump={"node": "A", "by": "+11s"})`."""
    ((key, value),) = body.items()
    return steps()[key].model_validate({key: value})


@dataclass
class Broken:
    """A running cluster, its nemesis, and what was recorded."""

    cluster: LocalCluster
    nemesis: Nemesis
    directory: Path
    recorder: Recorder

    async def inject(self, **body: Any) -> Receipt:
        """Inject the fault of one step."""
        return (await self.nemesis.inject(step(**body)))[1]

    def events(self) -> list[dict[str, Any]]:
        """What the lab has recorded so far."""
        lines = (self.directory / "events" / "lab.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def of(self, f: str) -> list[dict[str, Any]]:
        """The nemesis' completions of one kind."""
        return [e for e in self.events() if e["f"] == f and e["type"] != "invoke"]


@asynccontextmanager
async def broken(
    directory: Path,
    *,
    nodes: str = "AB",
    persistence: Persistence = "none",
    replicas: Mapping[str, str] | None = None,
    needs: frozenset[Capability] = frozenset(),
    sharded: bool = False,
) -> AsyncIterator[Broken]:
    """Bring a cluster up for a test; nothing of it is left afterwards. ``sharded``: a Redis Cluster."""
    run_id = f"test-{secrets.token_hex(6)}"
    logs = directory / "logs"
    logs.mkdir(exist_ok=True)
    recorder = Recorder(directory, {})
    plan = ClusterPlan(
        tuple(nodes),
        ("alice",),
        persistence,
        None,
        replicas or {},
        needs,
        lock_keys=(KEY,),
        node_timeout_ms=1000 if sharded else None,
    )
    cluster = (ShardedCluster if sharded else LocalCluster)(plan, run_id, logs)
    tolerance = Tolerance(clock_error_ns=10 * MS, persistence=persistence)
    nemesis = Nemesis(cluster, recorder, tolerance)
    try:
        await cluster.up()
        await cluster.clients["alice"].start(_setup(cluster, recorder))
        yield Broken(cluster, nemesis, directory, recorder)
        assert not cluster.failed.done(), cluster.failed.result()
    finally:
        await nemesis.abandon()
        await asyncio.shield(cluster.down())
    assert processes_of(run_id) == []


async def stopped_before_the_sync(lab: Broken) -> tuple[str, bytes]:
    """Prime node A, write a key, stop the node before that is synced; return the key and what is not synced.

    A machine that stands still for a second is no failure: it is tried again, with another key, since what an
    earlier try wrote may be on the disk.
    """
    node = lab.cluster.nodes["A"]
    for tried in range(20):
        key = f"victim-{tried:02}"
        word = b"$%d\r\n%s\r\n" % (len(key), key.encode())
        receipt = await step(prime={"nodes": ["A"]}).prime(lab.cluster)
        await node.ask("SET", key, "v")
        await lab.inject(pause={"node": "A"})
        unsynced = (await node.disk()).unsynced
        if receipt.confirmed and word in unsynced:
            return key, unsynced
        await lab.nemesis.end(step(resume={"node": "A"}))
    raise AssertionError(f"a write was always synced at once: {receipt.evidence}")


def _setup(cluster: LocalCluster, recorder: Recorder) -> Setup:
    return Setup(
        client="alice",
        key="resource",
        lock="single",
        ttl_ns=10 * S,
        options={},
        nodes=[cluster.link("alice", next(iter(cluster.nodes))).address],
        store=cluster.link("alice", STORE).address,
        checks_fences=False,
        check_before_write=True,
        log_path=str(recorder.client_log("alice")),
        seed=1,
    )
