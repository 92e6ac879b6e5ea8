"""How soon a search finds the famous violation: `python -m benchmarks.search [--seeds N] [--budget SECONDS]`.

Guided search against uniform random search, over the same seeds: schedules, seconds and processor seconds
until the first violation, and how many faults are left of it when it is as small as it can be. A search that
finds nothing within the budget counts as longer than any that does.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from dataclasses import dataclass

from lab.search.command import OPTIONS
from lab.search.draw import STRATEGIES, Space, Strategy
from lab.search.find import Progress, Search


@dataclass(frozen=True)
class Found:
    """What one search came to; infinite if it found nothing."""

    tried: float
    seconds: float
    cpu_s: float
    faults: int | None
    per_second: float


def search_once(lock: str, finding: str, strategy: Strategy, seed: int, budget_s: float) -> Found:
    """Search with one seed."""
    first_cpu_s = math.inf
    began = time.process_time()

    def on_progress(progress: Progress) -> None:
        nonlocal first_cpu_s
        if progress.stage == "searching":
            first_cpu_s = time.process_time() - began

    search = Search(Space(lock, options=OPTIONS), finding, budget_s=budget_s, seed=seed, strategy=strategy)
    search.on_progress = on_progress
    ended = search.run()
    if ended.first is None:
        return Found(math.inf, math.inf, math.inf, None, ended.progress.per_second)
    rate = ended.first.tried / ended.first.seconds if ended.first.seconds else math.nan
    faults = len(ended.found.faults) if ended.found is not None else None
    return Found(ended.first.tried, ended.first.seconds, first_cpu_s, faults, rate)


def main() -> int:
    """Print a line for each search, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many searches of each kind")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds until a search gives up")
    parser.add_argument("--lock", default="redlock")
    parser.add_argument("--find", default="overlap")
    asked = parser.parse_args()
    rows: dict[Strategy, list[Found]] = {strategy: [] for strategy in STRATEGIES}
    for seed in range(asked.seeds):  # in turn, so that what disturbs the machine disturbs both
        for strategy in STRATEGIES:
            found = search_once(asked.lock, asked.find, strategy, seed, asked.budget)
            rows[strategy].append(found)
            print(
                f"seed {seed} {strategy}: {found.tried} schedules, {found.seconds:.1f} s, "
                f"{found.faults} faults left, {found.per_second:.0f} schedules/s",
                file=sys.stderr,
            )
    print(
        f"{asked.lock}, {asked.find}, {asked.seeds} seeds, at most {asked.budget:.0f} s each, "
        f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"
    )
    heads = ("found", "schedules", "seconds", "most", "processor s", "faults left")
    print(f"{'to the first violation':<24}" + "".join(f"{head:>13}" for head in heads))
    for strategy, founds in rows.items():
        hits = [found for found in founds if math.isfinite(found.tried)]
        faults = sorted(found.faults for found in hits if found.faults is not None)
        cells = (
            f"{len(hits)} of {len(founds)}",
            f"{statistics.median(found.tried for found in founds):.0f}",
            f"{statistics.median(found.seconds for found in founds):.2f}",
            f"{max(found.seconds for found in founds):.2f}",
            f"{statistics.median(found.cpu_s for found in founds):.2f}",
            f"{faults[0]} to {faults[-1]}" if faults else "–",
        )
        print(f"{strategy + ', median':<24}" + "".join(f"{cell:>13}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
