"""How long containers take: a cluster of five nodes up and down, and what that adds to a run.

``python -m benchmarks.docker_up`` (needs an engine that answers, and ``lab images build``). Each round brings
five nodes, the store and Toxiproxy up and down on each substrate, without and with two clients, in turn, so
that what else the machine does hits all alike; figures are medians, with the least, the most, and the load.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from lab.errors import LabError
from lab.substrates import choose, substrate
from lab.substrates.plan import ClusterPlan

ROUNDS = 7
SUBSTRATES = ("docker", "local")
CLIENTS: tuple[tuple[str, ...], ...] = ((), ("alice", "bob"))
TARGETS_S = {"up": 1.5, "down": 1.0}


async def up_and_down(name: str, clients: tuple[str, ...]) -> tuple[float, float]:
    """Bring one cluster up and down; return how long each took, in seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        plan = ClusterPlan(tuple("ABCDE"), clients, "aof-always", client_logs=Path(scratch))
        cluster = substrate(name).cluster(plan, secrets.token_hex(8), Path(scratch))
        began = time.perf_counter()
        try:
            await cluster.up()
        finally:
            up_s = time.perf_counter() - began
            began = time.perf_counter()
            await cluster.down()
        return up_s, time.perf_counter() - began


async def main() -> None:
    """Measure and print."""
    measured: dict[tuple[str, int, str], list[float]] = {}
    for round_ in range(ROUNDS + 1):
        for name, clients in product(SUBSTRATES, CLIENTS):
            up_s, down_s = await up_and_down(name, clients)
            if round_:  # the first one only warms up
                measured.setdefault((name, len(clients), "up"), []).append(up_s)
                measured.setdefault((name, len(clients), "down"), []).append(down_s)
    print(f"{ROUNDS} rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print("seconds: median (least … most)")
    for (name, clients_, part), took in sorted(measured.items()):
        target = f"   target {TARGETS_S[part]}" if name == "docker" and not clients_ else ""
        figures = f"{statistics.median(took):6.2f} ({min(took):.2f} … {max(took):.2f})"
        print(f"{name:>7}, five nodes, {clients_} clients: {part:<5}{figures}{target}")


if __name__ == "__main__":
    try:
        choose("docker")
    except LabError as error:
        print(f"docker_up: nothing to measure: {error.seen}")
        sys.exit(0)
    asyncio.run(main())
