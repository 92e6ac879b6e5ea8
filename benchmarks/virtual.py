"""How many runs a second go through in virtual time: `python -m benchmarks.virtual [--seconds S] [DRIVER …]`.

For each driver that is installed: schedules of two clients on simulated nodes, as `lab test` runs them, with
the drivers used again, by one process and by as many as there are cores; and one scenario on real
redis-servers, always with one seed, whose runs share their processes (`many_runs`), by one process and by one
per core, and how many of the histories are equal, that of a run alone included. What starts the processes is
not counted: of the runs, the first one of each process. All in one run, beside the lab's own Redlock, with
the machine's load, on which the rates depend, and with the CPU time of one schedule or run, of the lab and of
all processes, which depends on it less; also that of a run alone, which starts all of its processes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from lab.batch.executor import cores
from lab.drivers.environment import why_not
from lab.drivers.registry import rows
from lab.examine.examination import tried
from lab.run import many_runs, run
from lab.run.request import RunRequest
from lab.search.runner import trials
from lab.search.trial import Round, Trial
from lab.search.workers import QUEUED, Workers

MS_NS = 1_000_000
SCENARIO = "healthy"
OWN = "redlock"
T = TypeVar("T")


def spent(work: Callable[[], T]) -> tuple[T, float, float]:
    """What ``work``, which ends its processes, returns, the seconds that it takes, and the CPU seconds."""
    wall_s, cpu_s = time.perf_counter(), sum(os.times()[:4])
    returned = work()
    return returned, time.perf_counter() - wall_s, sum(os.times()[:4]) - cpu_s


def trial_of(lock: str, nodes: int, seed: int) -> Trial:
    """Two clients, one critical section each."""
    clients: dict[str, tuple[Round, ...]] = {
        "alice": (Round(0, 20 * MS_NS),),
        "bob": (Round(5 * MS_NS, 20 * MS_NS),),
    }
    return Trial(lock=lock, clients=clients, nodes=nodes, seed=seed + 2)


def schedules(lock: str, nodes: int, jobs: int, seconds: float) -> tuple[int, float]:
    """How many trials go through so many processes in ``seconds``, once each has drivers; and a second."""
    with closing(Workers(tried, jobs)) as workers, trials():
        found = ((None, trial_of(lock, nodes, seed)) for seed in count())
        in_order = workers.in_order(found, 2 * QUEUED * jobs)
        for _, job in in_order:
            workers.result(job)
            if workers.helping == jobs - 1:
                break
        began_s, done, took_s = time.perf_counter(), 0, 0.0
        while took_s < seconds:
            workers.result(next(in_order)[1])
            done, took_s = done + 1, time.perf_counter() - began_s
    return done, done / took_s if done else 0.0


def runs(lock: str, nodes: int, times: int, *, shared: bool = True) -> tuple[list[bytes], float]:
    """Run the scenario so many times, with one seed: the histories, and the seconds after the first run."""
    settings = (f"lock.name={lock}", f"cluster.nodes={nodes}", "lock.options={}")
    histories: list[bytes] = []
    begun_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as out, many_runs() if shared else nullcontext():
        for _ in range(times):
            result = run(RunRequest(SCENARIO, settings, seed=1, substrate="virtual", out=Path(out)))
            if not histories:
                begun_s = time.perf_counter()
            histories.append((result.directory / "history.jsonl").read_bytes())
        return histories, time.perf_counter() - begun_s


def runs_by_all(lock: str, nodes: int, times: int) -> float:
    """How many runs a second go through as many processes as there are cores, each of which does so many."""
    with ProcessPoolExecutor(cores(), get_context("spawn")) as pool:
        done = pool.map(partial(runs, lock, nodes), [times] * cores())
        return sum((times - 1) / seconds for _, seconds in done)


def main() -> int:
    """Print a line for each lock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long schedules of each are run")
    parser.add_argument("--runs", type=int, default=2, help="how many runs of the scenario after the first")
    parser.add_argument("drivers", nargs="*", help="by default all that are installed")
    asked = parser.parse_args()
    found = rows()
    wanted = asked.drivers or [
        name for name in found if why_not(name) is None and found[name].language != "Go"
    ]
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", file=sys.stderr)
    on_all = f"/s on {cores()}"
    print(f"{'':43} {'schedules':^26} {'runs':^36}")
    print(
        f"{'lock':24} {'runtime':12} nodes {'/s':>8} {on_all:>8} {'CPU ms':>8} "
        f"{'/s':>8} {on_all:>8} {'CPU ms':>8} {'alone':>8}   equal"
    )
    schedules(OWN, 5, 1, 0)  # this imports what is needed
    runs(OWN, 5, 1)
    locks = [(name, f"driver:{name}", found[name].language, found[name].nodes or 5) for name in wanted]
    for name, lock, language, nodes in ((OWN, OWN, "(in the lab)", 5), *locks):
        _, _, start_s = spent(partial(schedules, lock, nodes, 1, 0))
        (done, rate), _, cpu_s = spent(partial(schedules, lock, nodes, 1, asked.seconds))
        _, all_of_them = schedules(lock, nodes, cores(), asked.seconds)
        _, _, first_s = spent(partial(runs, lock, nodes, 1))
        (histories, took_s), _, of_runs_s = spent(partial(runs, lock, nodes, 1 + asked.runs))
        (alone, _), _, alone_s = spent(partial(runs, lock, nodes, 1, shared=False))
        runs_of_all = runs_by_all(lock, nodes, 1 + asked.runs)
        histories += alone
        equal = f"{max(Counter(histories).values())} of {len(histories)}"
        print(
            f"{name:24} {language:12} {nodes:5} {rate:8.1f} {all_of_them:8.1f} "
            f"{1000 * (cpu_s - start_s) / done:8.1f} {asked.runs / took_s:8.1f} {runs_of_all:8.1f} "
            f"{1000 * (of_runs_s - first_s) / asked.runs:8.1f} {1000 * alone_s:8.1f}   {equal}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
