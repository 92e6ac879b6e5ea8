"""How many runs a second go through in virtual time: `python -m benchmarks.virtual [--trials N] [DRIVER …]`.

For each driver that is installed: schedules of two clients on simulated nodes, as `lab test` and `lab search`
run them, with the drivers used again; and one scenario on real redis-servers, whose processes
are started for each run. Both in one run, beside the lab's own Redlock, with the machine's load, on which the
figures depend.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
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


def rate(work: Callable[[int], object], times: int) -> float:
    """How often a second, after one time that does not count."""
    work(-1)
    began = time.perf_counter()
    for at in range(times):
        work(at)
    return times / (time.perf_counter() - began)


def trial_of(lock: str, nodes: int, seed: int) -> Trial:
    """Two clients, one critical section each."""
    clients: dict[str, tuple[Round, ...]] = {
        "alice": (Round(0, 20 * MS_NS),),
        "bob": (Round(5 * MS_NS, 20 * MS_NS),),
    }
    return Trial(lock=lock, clients=clients, nodes=nodes, seed=seed + 2)


def measure(lock: str, nodes: int, times: int, runs: int) -> tuple[float, float]:
    """Schedules a second, and runs of a scenario a second."""
    with trials():
        schedules = rate(lambda seed: run_trial(trial_of(lock, nodes, seed)), times)
    settings = (f"lock.name={lock}", f"cluster.nodes={nodes}", "lock.options={}")
    with tempfile.TemporaryDirectory() as out:

        def one(seed: int) -> None:
            run(RunRequest(SCENARIO, settings, seed=seed + 2, substrate="virtual", out=Path(out)))

        return schedules, rate(one, runs)


def main() -> int:
    """Print a line for each lock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="how many schedules of each")
    parser.add_argument("--runs", type=int, default=5, help="how many runs of the scenario")
    parser.add_argument("drivers", nargs="*", help="by default all that are installed")
    asked = parser.parse_args()
    found = rows()
    wanted = asked.drivers or [
        name for name in found if why_not(name) is None and found[name].language != "Go"
    ]
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", file=sys.stderr)
    print(f"{'lock':24} {'runtime':12} nodes {'schedules/s':>12} {'runs/s':>8}")
    for name in (OWN, *wanted):
        nodes = 5 if name == OWN else found[name].nodes or 5
        lock = OWN if name == OWN else f"driver:{name}"
        language = "(in the lab)" if name == OWN else found[name].language
        schedules, runs = measure(lock, nodes, asked.trials, asked.runs)
        print(f"{name:24} {language:12} {nodes:5} {schedules:12.0f} {runs:8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
