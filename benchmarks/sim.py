"""How fast the simulation is: `python -m benchmarks.sim [--rounds N] [--runs N]`.

1. Schedules per second on one core, on the direct wire and on the RESP wire: 2 clients, about 10
   acquisitions, 30 simulated seconds, up to 8 faults of every kind, the lock with the options that a search
   gives it. Bare, with the first look that a search takes at each, and with the whole checker.
2. `lab run partition-clockjump --on sim`, from the return key to the verdict and to the end, in a terminal.
3. Runs of scenarios per second, with history, observers, receipts and the checker: what a campaign does.

Everything is measured twice, by the clock on the wall and in processor time: on a machine that others use too
the two differ, and the second is the better guess for a quiet one.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from msgspec.structs import replace

from lab.batch.scenario_task import ScenarioTask
from lab.durations import UNITS_NS
from lab.scenario.load import load_scenario
from lab.search.command import OPTIONS
from lab.search.draw import RandomDraw, Space, draw_trial
from lab.search.runner import WIRES, Outcome, Wire, run_trial, trials
from lab.search.suspicion import named, suspect
from lab.search.trial import Round, Trial

SCHEDULES = 50
ROUNDS_PER_CLIENT = 5
SCENARIOS = ("partition-clockjump", "healthy", "power-cut-everysec")
SCENARIO = "partition-clockjump"
MS_NS = UNITS_NS["ms"]


@dataclass(frozen=True)
class Rate:
    """How much was done in a second: of the wall's clock, and of processor time."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:>12.1f} {self.cpu:>12.1f}"


def load_words() -> str:
    """How busy the machine is."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


def best(work: Callable[[], int], rounds: int) -> Rate:
    """The best of several rounds; ``work`` answers how much it did."""
    rates = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        done = work()
        gc.collect()  # what a simulation leaves has to be swept up now and then, and counts
        rates.append(Rate(done / (time.perf_counter() - wall), done / (time.process_time() - cpu)))
    return Rate(max(rate.wall for rate in rates), max(rate.cpu for rate in rates))


def schedule(seed: int) -> Trial:
    """A drawn cluster and its faults, with five rounds for each client that fill 30 s."""
    random = Random(seed)
    trial = draw_trial(RandomDraw(random), Space("redlock", options=OPTIONS), "guided")
    rounds = {
        name: tuple(
            Round(random.randint(4500, 6500) * MS_NS, random.randint(50, 500) * MS_NS)
            for _ in range(ROUNDS_PER_CLIENT)
        )
        for name in trial.clients
    }
    return replace(trial, clients=rounds)


def size_words(outcomes: list[Outcome]) -> str:
    """What these schedules were like, from their histories."""
    acquires = [
        sum(event["f"] == "acquire" and event["type"] == "invoke" for event in outcome.events)
        for outcome in outcomes
    ]
    lengths_s = [(outcome.events[-1]["time_ns"] - outcome.events[0]["time_ns"]) / 1e9 for outcome in outcomes]
    faults = [len(outcome.trial.faults) for outcome in outcomes]
    return (
        f"{len(outcomes)} schedules: median {statistics.median(acquires):.0f} acquisitions, "
        f"{statistics.median(lengths_s):.1f} simulated seconds, {statistics.median(faults):.0f} faults"
    )


def bench_wire(wire: Wire, rounds: int) -> None:
    """Print three rows for one wire."""
    drawn = [schedule(seed) for seed in range(SCHEDULES)]
    with trials(wire):
        outcomes = [run_trial(trial, wire) for trial in drawn]  # warms up, too
        print(f"\n{wire} wire, {size_words(outcomes)}; {load_words()}")

        def bare() -> int:
            for trial in drawn:
                run_trial(trial, wire)
            return len(drawn)

        def looked() -> int:
            for trial in drawn:
                suspect(run_trial(trial, wire), "overlap")
            return len(drawn)

        def checked() -> int:
            for trial in drawn:
                named(run_trial(trial, wire))
            return len(drawn)

        print(f"{'schedules per second':<28} {'wall':>12} {'processor':>12}")
        for name, work in (("bare", bare), ("with a first look", looked), ("with the checker", checked)):
            print(f"{name:<28} {best(work, rounds)}")


def until_verdict(out: Path) -> tuple[float, float, float]:
    """Run the scenario in a terminal: seconds to the verdict, seconds to the end, processor seconds."""
    ours, theirs = pty.openpty()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    words = ["-m", "lab", "run", SCENARIO, "--on", "sim", "--out", str(out), "--seed", "1"]
    process = subprocess.Popen([sys.executable, *words], stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    seen = b""
    verdict_s = float("nan")
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end of a terminal is closed
            break
        seen += piece
        if verdict_s != verdict_s and b"as expected" in seen:
            verdict_s = time.perf_counter() - began
    os.close(ours)
    if process.wait() != 0:
        raise SystemExit(f"lab run ended with {process.returncode}:\n{seen.decode(errors='replace')}")
    end_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return verdict_s, end_s, after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime


def bench_command(runs: int) -> None:
    """Print how long `lab run` takes, over so many runs after one that warms up."""
    with tempfile.TemporaryDirectory() as scratch:
        until_verdict(Path(scratch))
        times = [until_verdict(Path(scratch)) for _ in range(runs)]
    print(f"\nlab run {SCENARIO} --on sim, {runs} runs; {load_words()}")
    print(f"{'seconds':<28} {'median':>12} {'least':>12} {'most':>12}")
    for at, name in enumerate(("to the verdict", "to the end, with pictures", "processor, to the end")):
        column = [each[at] for each in times]
        print(f"{name:<28} {statistics.median(column):>12.2f} {min(column):>12.2f} {max(column):>12.2f}")


def bench_scenarios(rounds: int) -> None:
    """Print how many runs of a scenario one process makes in a second."""
    print(f"\n{'runs per second':<28} {'wall':>12} {'processor':>12}   {load_words()}")
    for name in SCENARIOS:
        task = ScenarioTask.of(load_scenario(name), name)
        with task.session():
            task(0)

            def work(task: ScenarioTask = task) -> int:
                for seed in range(3):
                    if task(seed).exit_code:
                        raise SystemExit(f"{task.repeat(seed)} does not come out as expected")
                return 3

            print(f"{name:<28} {best(work, rounds)}")


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="rounds, of which the best counts")
    parser.add_argument(
        "--runs", type=int, default=10, help="runs of the command, of which the median counts"
    )
    asked = parser.parse_args()
    # How it was built matters: one Python 3.11 can be half as fast again as another on the same machine.
    print(f"{sys.executable}: Python {platform.python_version()} of {platform.python_build()[1]}")
    for wire in WIRES:
        bench_wire(wire, asked.rounds)
    bench_command(asked.runs)
    bench_scenarios(asked.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
