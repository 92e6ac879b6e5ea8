"""How many runs a second go through in virtual time: `python -m benchmarks.virtual [--trials N] [DRIVER …]`.

For each driver that is installed: schedules of two clients on simulated nodes, as `lab test` and `lab search`
run them, with the drivers used again; and one scenario on real redis-servers, whose processes are started for
each run, always with one seed, and how many of its histories are equal. Both in one run, beside the lab's
own Redlock, with the machine's load, on which the rates depend, and with the CPU time of one, of the lab and
of all processes, which depends on it less.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.drivers.environment import why_not
from lab.drivers.registry import rows
from lab.run import run
from lab.run.request import RunRequest
from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial

MS_NS = 1_000_000
SCENARIO = "healthy"
OWN = "redlock"


@dataclass(frozen=True)
class Cost:
    """What some work takes: in real time, and in CPU time of this process and those that it started."""

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{1 / self.wall_s:8.1f} {1000 * self.cpu_s:8.1f}"


def cost(work: Callable[[int], object], most: int) -> Cost:
    """What one time more of ``work`` takes, which does something so many times, and ends its processes."""
    taken = []
    for times in (1, 1, most):  # the first imports what it needs
        wall_s, cpu_s = time.perf_counter(), sum(os.times()[:4])
        work(times)
        taken.append((time.perf_counter() - wall_s, sum(os.times()[:4]) - cpu_s))
    _, (first_wall_s, first_cpu_s), (wall_s, cpu_s) = taken
    return Cost((wall_s - first_wall_s) / (most - 1), (cpu_s - first_cpu_s) / (most - 1))


def trial_of(lock: str, nodes: int, seed: int) -> Trial:
    """Two clients, one critical section each."""
    clients: dict[str, tuple[Round, ...]] = {
        "alice": (Round(0, 20 * MS_NS),),
        "bob": (Round(5 * MS_NS, 20 * MS_NS),),
    }
    return Trial(lock=lock, clients=clients, nodes=nodes, seed=seed + 2)


def schedules(lock: str, nodes: int, times: int) -> None:
    """Run so many trials, with drivers of their own."""
    with trials():
        for seed in range(times):
            run_trial(trial_of(lock, nodes, seed))


def runs(lock: str, nodes: int, histories: list[bytes], times: int) -> None:
    """Run the scenario so many times, with the same seed, and add the histories."""
    settings = (f"lock.name={lock}", f"cluster.nodes={nodes}", "lock.options={}")
    with tempfile.TemporaryDirectory() as out:
        for _ in range(times):
            result = run(RunRequest(SCENARIO, settings, seed=1, substrate="virtual", out=Path(out)))
            histories.append((result.directory / "history.jsonl").read_bytes())


def main() -> int:
    """Print a line for each lock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="how many schedules of each, at least 2")
    parser.add_argument("--runs", type=int, default=18, help="how many runs of the scenario, at least 2")
    parser.add_argument("drivers", nargs="*", help="by default all that are installed")
    asked = parser.parse_args()
    found = rows()
    wanted = asked.drivers or [
        name for name in found if why_not(name) is None and found[name].language != "Go"
    ]
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", file=sys.stderr)
    print(f"{'':43} {'schedules':^17} {'runs':^17}")
    print(f"{'lock':24} {'runtime':12} nodes {'/s':>8} {'CPU ms':>8} {'/s':>8} {'CPU ms':>8}   equal")
    for name in (OWN, *wanted):
        nodes = 5 if name == OWN else found[name].nodes or 5
        lock = OWN if name == OWN else f"driver:{name}"
        language = "(in the lab)" if name == OWN else found[name].language
        histories: list[bytes] = []
        costs = (
            cost(partial(schedules, lock, nodes), asked.trials),
            cost(partial(runs, lock, nodes, histories), asked.runs),
        )
        equal = f"{max(Counter(histories).values())} of {len(histories)}"
        print(f"{name:24} {language:12} {nodes:5} {costs[0]} {costs[1]}   {equal}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
