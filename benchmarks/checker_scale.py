"""How long one full check takes, by the number of operations: `python benchmarks/checker_scale.py [SIZES…]`.

Each size runs in a process of its own, so that the memory told is that of this size. `load` is from a JSON
Lines file to columns (for sizes up to a million), `check` is everything after it.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
FILE_MAX = 1_000_000


def measure(operations: int, variant: str) -> str:
    """One row of the table, measured in this process."""
    from benchmarks.histories import correct_lock
    from checker.check import check
    from checker.formats import load, save

    history = correct_lock(
        operations, info=0.01 if "info" in variant else 0.0, late_violation="violation" in variant
    )
    load_s = float("nan")
    if operations <= FILE_MAX:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "history.jsonl"
            save(history, path)
            begin = time.perf_counter()
            history = load(path)
            load_s = time.perf_counter() - begin
    begin = time.perf_counter()
    verdict = check(history)
    check_s = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    outcome = verdict["mutual_exclusion"].outcome
    return f"{len(history.ops):>12,} {variant:<16} {load_s:>9.2f} {check_s:>9.2f} {peak:>10,.0f}  {outcome}"


def main(arguments: list[str]) -> int:
    """Print the table."""
    if arguments[:1] == ["--one"]:
        print(measure(int(arguments[1]), arguments[2]))
        return 0
    if not all(a.replace("_", "").isdigit() for a in arguments):
        print(
            f"error: saw {' '.join(arguments)}\n  expected: sizes, such as 10_000 1_000_000", file=sys.stderr
        )
        return 2
    sizes = [int(a.replace("_", "")) for a in arguments] or list(SIZES)
    print(
        f"{'operations':>12} {'variant':<16} {'load s':>9} {'check s':>9} {'peak MB':>10}  mutual exclusion"
    )
    for size in sizes:
        for variant in ("clean", "info", "info+violation"):
            command = [sys.executable, __file__, "--one", str(size), variant]
            environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            print(done.stdout.rstrip() or f"{size:>12,} {variant:<16} failed: {done.stderr.strip()[-300:]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
