"""What the search's first look saves: `python -m benchmarks.first_look [--trials N]`.

Drawn trials of Redlock are run, looked at (`lab.search.suspicion`), and judged by the checker, each in turn:
processor time of each step for a trial, and how many trials the look suspects.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import pairwise
from random import Random

from checker import check
from lab.search.command import OPTIONS
from lab.search.draw import RandomDraw, Space, draw_trial
from lab.search.runner import run_trial, trials
from lab.search.suspicion import history_of, suspected

STEPS = ("run", "first look", "history", "check")


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=400, help="how many")
    asked = parser.parse_args()
    space = Space("redlock", dict(OPTIONS), demand_ns=10_000_000_000)
    draw, took_s, suspects = RandomDraw(Random(1)), dict.fromkeys(STEPS, 0.0), 0
    with trials():
        for number in range(asked.trials + 1):
            trial = draw_trial(draw, space, "guided")
            at_s = [time.process_time()]
            outcome = run_trial(trial)
            at_s.append(time.process_time())
            suspicious = bool(suspected(outcome))
            at_s.append(time.process_time())
            history = history_of(outcome)
            at_s.append(time.process_time())
            check(history)
            at_s.append(time.process_time())
            if number:  # the first one imports what it needs
                suspects += suspicious
                for step, (begun_s, ended_s) in zip(STEPS, pairwise(at_s), strict=True):
                    took_s[step] += ended_s - begun_s
    print(f"{asked.trials} trials, {suspects} suspected, load {os.getloadavg()[0]:.1f}")
    for step, seconds in took_s.items():
        print(f"{step:<12}{1e3 * seconds / asked.trials:8.2f} ms{seconds / took_s['run']:8.2f} of a run")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
