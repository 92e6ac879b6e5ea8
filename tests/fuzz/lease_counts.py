"""How the lease model fares on many executions: `python -m tests.fuzz.lease_counts --executions N --seed S`.

To N executions within the assumptions it plays N/5 with leases of mixed length, and four times N/10 in which
nodes forget or clocks jump, with clocks that err and with clocks that do not. It prints what it counted; the
exit code is 1 if an execution without an overlap was accused or a clear overlap was missed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from typing import get_args

from checker import check
from checker.history.events import Event, Params
from checker.history.history import History
from checker.verdict import Property, Verdict
from tests.fuzz.lease_executions import EPSILON_NS, RHO, TTL_NS, Execution, Fault, executions

PROMISES = (Property.MUTUAL_EXCLUSION, Property.LEASE_HONESTY, Property.DEADLOCK_FREEDOM)
"""What an execution within the assumptions may not be accused of."""


def params(rho: float = RHO) -> Params:
    """What the checker may assume of these executions."""
    return Params(rho=rho, epsilon_ns=EPSILON_NS, stall_ns=3_600_000_000_000)


def loss_ns(rho: float = RHO) -> int:
    """An overlap longer than that must be seen: stamps blur both ends twice, and rates are allowed for."""
    return 4 * EPSILON_NS + int(4 * rho * TTL_NS)


def judged(some: list[Execution], rho: float = RHO) -> Verdict:
    """The verdict on the executions as one history: keys are independent."""
    events: list[Event] = [event for execution in some for event in execution.events]
    ordered = sorted(events, key=lambda event: event.time_ns)
    return check(History.from_events(ordered, params(rho), has_header=False))


def accused(some: list[Execution], rho: float = RHO) -> set[str]:
    """The keys of the executions of which something is said to be violated."""
    verdict = judged(some, rho)
    found = [finding for name in PROMISES for finding in verdict[name].violations]
    if len(found) < 10:
        return {str(finding.key) for finding in found}
    if len(some) == 1:
        return {str(some[0].events[0].key)}
    half = len(some) // 2  # only the first few are listed
    return accused(some[:half], rho) | accused(some[half:], rho)


def within(seed: int, number: int, counts: Counter[str], *, mixed: bool) -> None:
    """Count executions within the assumptions."""
    some = list(executions(seed, number, mixed=mixed))
    counts["executed"] += number
    counts["accused"] += len(accused(some))
    counts["with two grants or more"] += sum(len(e.holds) > 1 for e in some)


def beyond(seed: int, number: int, counts: Counter[str], fault: Fault, rho: float) -> None:
    """Count executions in which nodes forget or clocks jump."""
    some = [e for e in executions(seed, number, fault, rho=rho) if e.events]
    found = accused(some, rho)
    truly = {str(e.events[0].key): e.overlap_ns for e in some}
    clear = {str(e.events[0].key) for e in some if e.clear_ns > loss_ns(rho)}
    counts["executed"] += number
    counts["true overlaps"] += sum(overlap_ns > 0 for overlap_ns in truly.values())
    counts[f"true overlaps above {loss_ns(rho) / 1e6:.0f} ms"] += len(clear)
    counts["of these found"] += len(clear & found)
    counts["of these missed"] += len(clear - found)
    counts["shorter ones found"] += sum(0 < truly[key] <= loss_ns(rho) for key in found)
    counts["accused without an overlap"] += sum(truly[key] <= 0 for key in found)


def counted(number: int, seed: int, together: int = 1_000) -> Iterator[tuple[str, Counter[str]]]:
    """What was counted on so many executions and their shares of the others, `together` in one history."""

    def sizes(share: int) -> list[int]:
        return [min(together, number // share - done) for done in range(0, number // share, together)]

    for mixed, share in ((False, 1), (True, 5)):
        counts: Counter[str] = Counter()
        for at, size in enumerate(sizes(share)):
            within(seed + at, size, counts, mixed=mixed)
            sys.stderr.write(f"\r{counts['executed']:,} executed, {counts['accused']:,} accused ")
        yield f"within the assumptions, {'mixed TTLs' if mixed else 'one TTL'}", counts
    for rho in (RHO, 0.0):
        for fault in get_args(Fault):
            counts = Counter()
            for at, size in enumerate(sizes(10)):
                beyond(seed + at, size, counts, fault, rho)
            yield f"beyond them: nodes {fault}, clocks err by {rho:.0%}, ε = 1 ms", counts


def main() -> int:
    """Count, print, and say by the exit code whether the numbers are as they have to be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--executions", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    asked = parser.parse_args()
    wrong = 0
    for kind, counts in counted(asked.executions, asked.seed):
        sys.stdout.write(f"{kind}\n")
        sys.stdout.writelines(f"  {name:<34}{number:>12,}\n" for name, number in counts.items())
        sys.stdout.flush()
        wrong += counts["of these missed"] + counts["accused without an overlap"]
        wrong += counts["accused"]
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
