"""The same seed gives the same history, to the byte: in other processes, hash seeds, and orders of runs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.substrates.sim.simulate import simulate
from tests.hash_seeds import HASH_SEEDS

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = Path(__file__).with_name("everything.yaml")
DIRECTED = (
    "clock-drift",
    "client-crash",
    "failover-race",
    "gc-pause-in-flight",
    "late-release",
    "partition-clockjump",
    "power-cut-everysec",
    "redlock-fenced",
    "restart-delayed",
    "sentinel-extension",
    "split-vote",
)


def start(hash_seed: str, jobs: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.sim.digests", *jobs],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> dict[tuple[str, str], str]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return {(name, seed): digest for name, seed, digest in map(str.split, out.splitlines())}


@pytest.mark.timeout(900)  # up to two hundred runs, twice, whatever else the machine does
@pytest.mark.parametrize("seeds", [8, pytest.param(100, marks=pytest.mark.full)])
def test_the_same_seed_gives_the_same_bytes(seeds: int) -> None:
    forward = [f"{EVERYTHING}=1:{seeds}", *(f"{name}=1:2" for name in DIRECTED)]
    backward = [*(f"{name}=2:1" for name in reversed(DIRECTED)), f"{EVERYTHING}={seeds}:1"]
    one, other = map(start, HASH_SEEDS, (forward, backward))
    first, second = answer(one), answer(other)
    different = [run for run in first if first[run] != second[run]]
    assert not different
    assert len(first) == len(second) == seeds + 2 * len(DIRECTED)
    assert len(set(first.values())) == len(first), "another seed gives another history"


async def test_a_world_leaves_the_running_loop_as_it_was() -> None:
    before = asyncio.get_running_loop()

    async def inner() -> asyncio.AbstractEventLoop:
        await asyncio.sleep(0.1)
        return asyncio.get_running_loop()

    async def outer() -> bool:
        ours = asyncio.get_running_loop()
        other = asyncio.create_task(asyncio.sleep(0.1))
        theirs = simulate(inner, 2)  # a world inside of a world
        same = asyncio.get_running_loop() is ours
        await other
        return same and asyncio.get_running_loop() is ours and theirs is not ours

    assert simulate(outer, 1)
    assert asyncio.get_running_loop() is before


PRINT_SCHEDULES = """
import hashlib
import sys
from itertools import islice
from random import Random

from lab.examine.schedules.anchored import anchored
from lab.examine.kinds import Kind
from lab.examine.schedules.plan import drawn, singles
from lab.examine.profile.probes import Profile
from lab.examine.programs import PROGRAMS, Setting
from lab.examine.schedules.situations import situations
from lab.search.runner import trials

setting = Setting("redlock", {"node_timeout": "250ms", "retry_count": 1})
profile = Profile(Kind(True), extends=True)
with trials():
    made = {
        "directed": lambda: situations(setting, profile, PROGRAMS),
        "singles": lambda: singles(setting, PROGRAMS, Random(1)),
        "anchored": lambda: anchored(setting, profile, Random(1)),
        "drawn": lambda: drawn(setting, Random(1), []),
    }
    for name in sys.argv[1:]:
        for trial in islice(made[name](), 1_000):
            print(name, hashlib.sha256(repr(trial.key()).encode()).hexdigest())
"""


@pytest.mark.parametrize(
    "part", ["directed", "singles", "drawn", pytest.param("anchored", marks=pytest.mark.full)]
)
def test_lab_test_tries_the_same_schedules_in_the_same_order_in_any_process(part: str) -> None:
    one, other = (
        subprocess.run(
            [sys.executable, "-c", PRINT_SCHEDULES, part],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout.splitlines()
        for seed in HASH_SEEDS
    )
    assert len(one) > 50
    assert one == other
