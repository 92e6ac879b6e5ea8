"""The checker against Porcupine on the same histories: `python benchmarks/checker_vs_porcupine.py [SIZES…]`.

One lock with owners, histories that are right, with 1% of the outcomes unknown, and with one violation near
the end. `waiting` is how many clients call acquire and wait for their turn at any time: a lock that is
fought for is what makes search expensive. Both read the same file of arrays, each in a process of its own;
time runs from arrays in memory to the answer. Porcupine gets a time limit and a memory limit; running into
one is shown as such and is no answer.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
PORCUPINE_MAX = 1_000_000
UNKNOWN = -1
GB = 1 << 30
VARIANTS = ("clean", "1% unknown", "1% unknown, late violation")


def contended(operations: int, waiting: int, unknown: float, late_violation: bool) -> NDArray[np.int64]:
    """Rows of kind (0 acquire, 1 release), process, call, return (UNKNOWN: nobody knows), in order of call.

    `waiting` clients take the lock in random order; each calls acquire again right after its release
    returned. Of the unknown outcomes half are releases, whose client goes on as a new process, and half are
    acquires that time out and are not granted. No call shares its stamp with a return.
    """
    rng = np.random.default_rng(1)
    timed_out = int(operations * unknown / 2)
    turns = (operations - timed_out) // 2
    rounds = -(-turns // waiting)
    # Each round every client gets the lock once, in an order of its own.
    client = np.argsort(rng.random((rounds, waiting)), axis=1).reshape(-1)[:turns]
    turn = np.arange(turns)
    mine = np.argsort(client, kind="stable")  # the turns of client 0, of client 1, …
    first = np.ones(turns, np.bool_)
    first[1:] = client[mine][1:] != client[mine][:-1]
    before = np.empty(turns, np.int64)
    before[mine] = np.where(first, -1, np.roll(mine, 1))
    acquired, released = 40 * turn + 20, 40 * turn + 36
    returned = released + 4 * rng.integers(1, 4, turns)
    called = np.where(before < 0, 0, returned[before]) + 4
    lost = rng.random(turns) < unknown
    fresh = first | lost[np.roll(mine, 1)]
    process = np.empty(turns, np.int64)
    process[mine] = np.cumsum(fresh) - 1
    if late_violation:
        victim = int(turns * 0.97)
        acquired[victim] = released[victim - 1] - 8
        called[victim] = min(called[victim], acquired[victim] - 4)
    rows = np.empty((2 * turns + timed_out, 4), np.int64)
    rows[:turns] = np.stack([np.zeros(turns, np.int64), process, 4 * called, 4 * acquired + 1], 1)
    back = np.where(lost, UNKNOWN, 4 * returned + 3)
    rows[turns : 2 * turns] = np.stack([np.ones(turns, np.int64), process, 4 * released + 2, back], 1)
    strangers = np.arange(timed_out) + process.max() + 1
    rows[2 * turns :, 0], rows[2 * turns :, 1], rows[2 * turns :, 3] = 0, strangers, UNKNOWN
    rows[2 * turns :, 2] = 4 * rng.integers(0, 40 * turns, timed_out)
    return rows[np.argsort(rows[:, 2], kind="stable")]


def ours(path: Path) -> dict[str, Any]:
    """Our answer on a file of rows; the second of two runs, the first with what importing and compiling
    cost.
    """
    from checker.history.operations import NEVER
    from checker.linearizability.owned import check_owned, keeps_identity
    from tests.op_columns import op_columns

    rows = np.fromfile(path, np.int64).reshape(-1, 4)
    kind, process, call, back = (np.ascontiguousarray(column) for column in rows.T)
    back[back == UNKNOWN] = NEVER
    order = np.arange(len(kind))
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        columns = op_columns(kind, process, call, back, call_index=2 * order, return_index=2 * order + 1)
        assert not keeps_identity(columns).any()
        found = check_owned(columns)
        seconds.append(time.perf_counter() - begin)
    return {
        "result": "Illegal" if found else "Ok",
        "seconds": seconds[1],
        "first": seconds[0],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def build(directory: Path) -> tuple[Path | None, str]:
    """The Go program, or None and why it is not there."""
    go = shutil.which("go")
    if go is None:
        return None, "there is no Go here"
    binary = directory / "porcupine"
    source = ROOT / "benchmarks" / "porcupine"
    done = subprocess.run(
        [go, "build", "-o", str(binary), "."], cwd=source, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None, f"go build failed: {done.stderr.strip()[-300:]}"
    return binary, ""


def run(command: list[str], memory_bytes: int | None, timeout_s: float) -> dict[str, Any]:
    """The JSON that a command prints; `result` tells when it ran into a limit instead."""

    def limit() -> None:
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limit,
            cwd=ROOT,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return {"result": "time-out"}
    if done.returncode:
        out_of_memory = "out of memory" in done.stderr or "cannot allocate" in done.stderr
        return {"result": "out of memory" if out_of_memory else f"failed: {done.stderr.strip()[-200:]}"}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sizes", nargs="*", type=lambda s: int(s.replace("_", "")), default=list(SIZES))
    parser.add_argument("--waiting", type=int, nargs="+", default=[4, 50])
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one answer of Porcupine")
    parser.add_argument("--memory-gb", type=float, default=12.0, help="address space for Porcupine")
    parser.add_argument("--ours", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.ours:
        print(json.dumps(ours(options.ours)))
        return 0
    head = f"{'operations':>10} {'waiting':>7} {'history':<27} {'checker s':>10} {'MB':>6} {'answer':<8}"
    print(f"{head} {'Porcupine s':>11} {'MB':>6} {'answer':<14} ratio")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        binary, reason = build(directory)
        if binary is None:
            print(f"Porcupine skipped: {reason}", file=sys.stderr)
        for size in options.sizes:
            for waiting in options.waiting:
                for variant in VARIANTS:
                    print(row(directory, binary, size, waiting, variant, options), flush=True)
    return 0


def row(
    directory: Path, binary: Path | None, size: int, waiting: int, variant: str, options: argparse.Namespace
) -> str:
    """One line of the table: the same file, one after the other."""
    unknown = 0.0 if variant == "clean" else 0.01
    path = directory / "history"
    contended(size, waiting, unknown, "violation" in variant).tofile(path)
    mine = run([sys.executable, "-m", "benchmarks.checker_vs_porcupine", "--ours", str(path)], None, 600)
    left = f"{size:>10,} {waiting:>7} {variant:<27}"
    if "seconds" not in mine:
        return f"{left} {mine['result']}"
    left += f" {mine['seconds']:>10.4f} {mine['peak_mb']:>6.0f} {mine['result']:<8}"
    if binary is None or size > PORCUPINE_MAX:
        return f"{left} {'-':>11} {'-':>6} not run"
    command = [str(binary), "-timeout", f"{options.timeout}s", str(path)]
    peer = run(command, int(options.memory_gb * GB), options.timeout + 60)
    if "seconds" not in peer:
        return f"{left} {'-':>11} {'-':>6} {peer['result']}"
    seconds = peer["seconds"]
    told = "time-out" if peer["result"] == "Unknown" else peer["result"]
    ratio = f"{'> ' if told == 'time-out' else ''}{seconds / mine['seconds']:,.0f}x"
    return f"{left} {seconds:>11.3f} {peer['peak_mb']:>6.0f} {told:<14} {ratio}"


if __name__ == "__main__":
    raise SystemExit(main())
