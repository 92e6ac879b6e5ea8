"""Every algorithm against an oracle, in volume: python -m tests.fuzz.linearizability --histories 1000000

Families named after a model compare the polynomial test with the bounded search; `search-…` families
compare that search with brute force, which shares no code with it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checker.linearizability import owned, unowned
from checker.linearizability.columns import OpColumns
from checker.linearizability.model import (
    IMPOSSIBLE,
    UNKNOWN_VALUE,
    Model,
    Op,
    State,
    cas_register,
    lock_ops,
    owner_mutex,
)
from checker.linearizability.owned import check_owned
from checker.linearizability.result import Violation
from checker.linearizability.unowned import check_unowned
from checker.linearizability.wgl import search
from tests.fuzz import brute
from tests.fuzz.generator import Shape, draw
from tests.fuzz.registers import draw_register

Check = Callable[[OpColumns], list[Violation]]
# What one history told: the answer under test, the oracle's, and the reason of a violation.
Answers = tuple[str, str, int]


def mutex() -> Model:
    """A lock that is free or held, no matter by whom; a try is refused while it is held."""

    def step(held: State, op: Op) -> Any:
        if op.f == "acquire":
            return True if not held else IMPOSSIBLE
        if op.f == "release":
            return False if held else IMPOSSIBLE
        return held if held else IMPOSSIBLE

    return Model("mutex", False, step, anonymous=True)


@dataclass(frozen=True, slots=True)
class Family:
    """A source of histories with two judges; `reasons` are those that a run must meet."""

    name: str
    judge: Callable[[Random], tuple[Answers, Any]]
    reasons: tuple[int, ...] = ()


@dataclass(slots=True)
class Tally:
    """What a run of one family saw."""

    valid: int = 0
    invalid: int = 0
    seconds: float = 0.0
    reasons: Counter[int] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    @property
    def histories(self) -> int:
        """How many were judged."""
        return self.valid + self.invalid

    def add(self, other: Tally) -> None:
        """Take in what another run saw."""
        self.valid += other.valid
        self.invalid += other.invalid
        self.seconds += other.seconds
        self.reasons += other.reasons
        self.disagreements += other.disagreements


def _lock(name: str, model: Model, shape: Shape, check: Check, reasons: Sequence[int]) -> Family:
    def judge(random: Random) -> tuple[Answers, Any]:
        columns = draw(random, model, shape)
        found = check(columns)
        oracle = search(lock_ops(columns), model).outcome
        return ("violated" if found else "ok", oracle, found[0].reason if found else 0), columns

    return Family(name, judge, tuple(reasons))


def _owned(depth: int, fenced: bool) -> Family:
    model = owner_mutex(depth, fenced=fenced)
    reasons = [owned.CORES_OVERLAP, owned.TOO_DEEP, owned.NOT_HELD, owned.FREE_ALL_THE_TIME]
    reasons += [owned.REFUSED_TO_HOLDER] if depth > 1 else []
    reasons += [owned.FENCE_NOT_GREATER] if fenced else []
    shape = Shape(ops=7 + depth, processes=4 if depth == 1 else 3, fenced=fenced, release=0.7 - 0.15 * depth)
    return _lock(model.name, model, shape, lambda c: check_owned(c, depth=depth, fenced=fenced), reasons)


def _searched(name: str, model: Model, shape: Shape, rule: brute.Rule, start: Any) -> Family:
    def judge(random: Random) -> tuple[Answers, Any]:
        columns = draw(random, model, shape)
        ops = lock_ops(columns)
        return (search(ops, model).outcome, _word(brute.possible(ops, rule, start)), 0), columns

    return Family(f"search-{name}", judge)


def _register(name: str, initial: Any) -> Family:
    model = cas_register(initial)

    def judge(random: Random) -> tuple[Answers, Any]:
        ops: list[Op] = draw_register(random)
        oracle = brute.possible(ops, brute.register_rule, brute.register_start(initial))
        return (search(ops, model).outcome, _word(oracle), 0), ops

    return Family(f"search-{name}", judge)


def _word(possible: bool) -> str:
    return "ok" if possible else "violated"


_UNOWNED = (unowned.NO_RELEASE, unowned.NO_ACQUIRE, unowned.NEVER_HELD)
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _lock("mutex", mutex(), Shape(owned=False), check_unowned, _UNOWNED),
        *(_owned(depth, fenced) for depth in (1, 2, 3) for fenced in (False, True)),
        _searched("mutex", mutex(), Shape(ops=6, owned=False), brute.mutex_rule, 0),
        _searched("owner", owner_mutex(), Shape(ops=6), brute.owned_rule(1, False), brute.OWNED_START),
        # Processes that go on after an unknown outcome: nothing but the search covers them.
        _searched(
            "identity-kept",
            owner_mutex(2, fenced=True),
            Shape(ops=6, processes=3, owned=False, fenced=True, unknown=0.25),
            brute.owned_rule(2, True),
            brute.OWNED_START,
        ),
        _register("register", 0),
        _register("register-unknown-start", UNKNOWN_VALUE),
    )
}


def run(name: str, histories: int, seed: int) -> Tally:
    """Judge so many histories of one family; the seed names them."""
    family, random, tally = FAMILIES[name], Random(f"{name}/{seed}"), Tally()
    started = time.perf_counter()
    for number in range(histories):
        (answer, oracle, reason), history = family.judge(random)
        if oracle == "ok":
            tally.valid += 1
        else:
            tally.invalid += 1
        tally.reasons[reason] += 1
        if answer != oracle:
            tally.disagreements.append(f"{name}/{seed} #{number}: {answer}, oracle {oracle}: {history}")
    tally.seconds = time.perf_counter() - started
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """Run families in parallel and print what they saw; status 1 on a disagreement."""
    parser = argparse.ArgumentParser(description="Fuzz the linearizability checks against their oracles.")
    parser.add_argument("--histories", type=int, default=1_000_000, help="in all, shared by the families")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append")
    options = parser.parse_args(arguments)
    names = options.family or list(FAMILIES)
    share = -(-options.histories // len(names))
    chunk = 10_000
    jobs = [(n, min(chunk, share - at), options.seed + at) for at in range(0, share, chunk) for n in names]
    tallies = {name: Tally() for name in names}
    write = sys.stdout.write
    write(f"seed {options.seed}, {share:,} histories for each of {len(names)} families\n")
    with ProcessPoolExecutor(options.workers) as pool:
        for (name, _, _), tally in zip(jobs, pool.map(run, *zip(*jobs, strict=True)), strict=True):
            tallies[name].add(tally)
    write(f"{'family':32}{'valid':>10}{'invalid':>10}{'disagree':>10}{'µs each':>9}  reasons\n")
    for name, tally in tallies.items():
        each = tally.seconds / max(tally.histories, 1) * 1e6
        reasons = " ".join(f"{r}:{n:,}" for r, n in sorted(tally.reasons.items()) if r)
        counts = f"{tally.valid:>10,}{tally.invalid:>10,}{len(tally.disagreements):>10}"
        write(f"{name:32}{counts}{each:>9.0f}  {reasons}".rstrip() + "\n")
        for disagreement in tally.disagreements[:3]:
            write(f"  {disagreement}\n")
    return 1 if any(tally.disagreements for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
