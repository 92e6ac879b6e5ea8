"""Fingerprints of simulated histories, one per line: ``python -m tests.sim.digests NAME=FIRST:LAST …``.

FIRST may be larger than LAST. It is a process of its own, so that another one, with another hash seed, other
addresses and another past, can be compared with it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lab.run.execution import Run
from lab.run.request import RunRequest
from lab.substrates.sim.patches import simulating
from lab.substrates.sim.simulate import simulate
from tests.sim.simulated import fingerprint


def main(arguments: list[str]) -> None:
    """Print a line for each seed of each scenario."""
    with tempfile.TemporaryDirectory(prefix="lock-lab-digests-") as scratch, simulating():
        for argument in arguments:
            name, _, seeds = argument.rpartition("=")
            first, _, last = seeds.partition(":")
            step = 1 if int(first) <= int(last) else -1
            for seed in range(int(first), int(last) + step, step):
                plan = RunRequest(name, seed=seed, substrate="sim", out=Path(scratch)).plan()
                directory = simulate(Run(plan).prepare(), seed).directory.path
                print(Path(name).stem, seed, fingerprint(directory), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
