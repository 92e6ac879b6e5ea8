"""Tiny histories of a compare-and-set register, right by construction, bent, or without sense."""

from __future__ import annotations

from random import Random

from checker.history.operations import NEVER
from checker.linearizability.model import Op


def draw_register(
    random: Random, ops: int = 8, processes: int = 4, values: int = 3, unknown: float = 0.25
) -> list[Op]:
    """One history over a register that starts at 0; most of them with an answer or two changed."""
    found: list[Op] = []
    state = 0
    pending: dict[int, tuple[Op, bool]] = {}
    now = 0
    target = random.randint(2, ops)
    while len(found) + len(pending) < target or pending:
        now += 1
        process = random.randrange(processes)
        if process not in pending:
            if len(found) + len(pending) < target:
                pending[process] = (_ask(random, process, now, values), False)
            continue
        op, effective = pending[process]
        if random.random() < unknown:
            found.append(op._replace(returned=NEVER, value=None if op.f == "read" else op.value))
            del pending[process]
        elif effective:
            found.append(op._replace(returned=now))
            del pending[process]
        else:
            state, answered = _play(state, op)
            pending[process] = (answered, True)
    found = [op._replace(row=row) for row, op in enumerate(found) if op.f != "read" or op.certain]
    certain = [at for at, op in enumerate(found) if op.certain]
    for _ in range(random.randint(0, 2) if certain else 0):
        at = random.choice(certain)
        found[at] = _bent(random, found[at], values)
    return found


def _ask(random: Random, process: int, now: int, values: int) -> Op:
    f = random.choice(("read", "write", "cas"))
    old, new = random.randrange(values), random.randrange(values)
    return Op(0, f, process, now, NEVER, (old, new) if f == "cas" else new)


def _play(state: int, op: Op) -> tuple[int, Op]:
    if op.f == "read":
        return state, op._replace(value=state)
    if op.f == "write":
        assert isinstance(op.value, int)
        return op.value, op
    assert isinstance(op.value, tuple)
    return (op.value[1], op) if op.value[0] == state else (state, op._replace(f="refused cas"))


def _bent(random: Random, op: Op, values: int) -> Op:
    if op.f == "refused cas":
        return op._replace(f="cas")
    if op.f == "cas" and op.certain and random.random() < 0.5:
        return op._replace(f="refused cas")
    other = random.randrange(values)
    return op._replace(value=(other, random.randrange(values)) if op.f == "cas" else other)
