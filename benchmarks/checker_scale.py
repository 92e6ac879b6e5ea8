"""How long one full check takes, by the number of operations: `python benchmarks/checker_scale.py [SIZES…]`.

Each size runs in a process of its own, so that the memory told is that of this size. `jsonl` and `parquet`
are from such a file to columns, for sizes up to a million: the median of five loads after a first one, and
beside it the processor time of all threads and processes, which other work on the machine changes less.
`check` is everything after that, `linear.` linearizability alone (as a mutex with owners), `B/op`
the memory that the loaded operations take, `check B/op` the most that the check takes besides, and `load` the
load average of the machine.
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checker.history.history import History
    from checker.history.operations import Operations

ROOT = Path(__file__).resolve().parent.parent
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
FILE_MAX = 1_000_000
SUFFIXES = (".jsonl", ".parquet")
RUNS = 5


def measure(operations: int, variant: str) -> str:
    """One row of the table, measured in this process."""
    from benchmarks.histories import correct_lock
    from checker import check
    from checker.formats import load, save
    from checker.history.evidence import Evidence
    from checker.properties.linearizable import check_lock

    history = correct_lock(
        operations, info=0.01 if "info" in variant else 0.0, late_violation="violation" in variant
    )
    loads: dict[str, tuple[float, float]] = dict.fromkeys(SUFFIXES, (math.nan, math.nan))
    if operations <= FILE_MAX:
        with tempfile.TemporaryDirectory() as directory:
            for suffix in SUFFIXES:
                path = Path(directory) / f"history{suffix}"
                save(history, path)
                load(path)  # imports, and compiles once per machine
                taken = []
                for _ in range(RUNS):
                    begin, used = time.perf_counter(), processor_s()
                    history = load(path)
                    taken.append((time.perf_counter() - begin, processor_s() - used))
                wall, processor = zip(*taken, strict=True)
                loads[suffix] = statistics.median(wall), statistics.median(processor)
    begin = time.perf_counter()
    verdict = check(history)
    check_s = time.perf_counter() - begin
    begin = time.perf_counter()
    check_lock(Evidence(history, "owner-mutex"))
    linear_s = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    besides = check_memory(history) / len(history.ops)
    outcome = verdict["mutual_exclusion"].outcome
    times = " ".join(f"{wall:>9.2f} {processor:>6.2f}" for wall, processor in loads.values())
    size = f"{memory(history.ops) / len(history.ops):>9.0f} {besides:>10.0f}"
    figures = f"{times} {check_s:>9.2f} {linear_s:>9.2f} {size} {peak:>9,.0f} {os.getloadavg()[0]:>6.1f}"
    return f"{len(history.ops):>12,} {variant:<16} {figures}  {outcome}"


def processor_s() -> float:
    """The processor time so far, of this process with all threads and of the helpers that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def check_memory(history: History) -> int:
    """The most bytes that a check holds besides the operations."""
    from checker import check

    tracemalloc.start()
    check(history)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def memory(ops: Operations) -> int:
    """How many bytes a table takes: its columns (those that repeat one number take none) and its names."""
    from checker.history.operations import CODE_COLUMNS, COLUMNS

    columns = [getattr(ops, name) for name in COLUMNS]
    total: int = sum(column.nbytes for column in columns if column.strides != (0,))
    for names in (getattr(ops.names, name) for name in CODE_COLUMNS):
        listed = isinstance(names, list)
        total += sum(8 + sys.getsizeof(name) for name in names) if listed else getattr(names, "nbytes", 0)
    return total


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
    files = " ".join(f"{head:>9} {'cpu s':>6}" for head in ("jsonl s", "parquet s"))
    columns = f"{files} {'check s':>9} {'linear. s':>9} {'B/op':>9} {'check B/op':>10} {'peak MB':>9}"
    print(f"{'operations':>12} {'variant':<16} {columns} {'load':>6}  mutual exclusion")
    for size in sizes:
        for variant in ("clean", "info", "info+violation"):
            command = [sys.executable, __file__, "--one", str(size), variant]
            environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            print(done.stdout.rstrip() or f"{size:>12,} {variant:<16} failed: {done.stderr.strip()[-300:]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
