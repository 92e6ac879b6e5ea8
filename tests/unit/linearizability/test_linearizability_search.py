"""The bounded search: models, budget, and what it tells when there is no order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from checker.history.operations import NEVER
from checker.linearizability.model import UNKNOWN_VALUE, Op, cas_register
from checker.linearizability.wgl import search
from tests.fuzz.registers import draw_register

Row = tuple[str, Any, int, int]


def ops(*rows: Row) -> list[Op]:
    """Operations as (f, value, called, returned)."""
    return [Op(row, f, row, called, back, value) for row, (f, value, called, back) in enumerate(rows)]


ACCEPTED: dict[str, tuple[Any, list[Row]]] = {
    "a read may see a write that is still open": (
        0, [("write", 1, 0, 5), ("read", 1, 1, 2), ("read", 1, 3, 4)],
    ),
    "a read may miss a write that is still open": (0, [("write", 1, 0, 5), ("read", 0, 1, 2)]),
    "an unknown write may have happened": (0, [("write", 1, 0, NEVER), ("read", 1, 1, 2)]),
    "an unknown write may happen late": (0, [("write", 1, 0, NEVER), ("read", 0, 1, 2), ("read", 1, 3, 4)]),
    "an unknown write may not have happened": (0, [("write", 1, 0, NEVER), ("read", 0, 1, 2)]),
    "a cas that matched": (0, [("cas", (0, 2), 0, 1), ("read", 2, 2, 3)]),
    "a cas that was refused": (0, [("refused cas", (1, 2), 0, 1), ("read", 0, 2, 3)]),
    "an unknown start is settled by the first read": (UNKNOWN_VALUE, [("read", 4, 0, 1), ("read", 4, 2, 3)]),
    "an unknown start is settled by a cas": (UNKNOWN_VALUE, [("cas", (4, 5), 0, 1), ("read", 5, 2, 3)]),
    "a read whose answer nobody recorded": (0, [("read", None, 0, 1), ("read", 0, 2, 3)]),
    "an unknown write is kept for where nothing else will do": (
        0,
        [("write", 1, 0, 10), ("write", 2, 1, 9), ("write", 1, 2, NEVER), ("read", 1, 11, 12),
         ("write", 3, 13, 14), ("read", 3, 15, 16), ("read", 1, 17, 18)],
    ),
    "the second of two unknown writes is kept for where nothing else will do": (
        0,
        [("write", 1, 0, 10), ("write", 2, 1, 9), ("write", 4, 2, NEVER), ("write", 1, 3, NEVER),
         ("read", 1, 11, 12), ("write", 3, 13, 14), ("read", 3, 15, 16), ("read", 1, 17, 18)],
    ),
    "a write that changes nothing may still be needed later": (
        0,
        [("write", 0, 0, 9), ("write", 1, 1, 8), ("read", 1, 2, 3), ("read", 0, 4, 5)],
    ),
}  # fmt: skip
REJECTED: dict[str, tuple[Any, int, list[Row]]] = {
    "a read of what was never written": (0, 0, [("read", 1, 0, 1)]),
    "two reads of an open write, newer first": (
        0, 2, [("write", 1, 0, 9), ("read", 1, 1, 2), ("read", 0, 3, 4)],
    ),
    "a cas that did not match": (0, 0, [("cas", (1, 2), 0, 1)]),
    "a cas refused although it matched": (0, 0, [("refused cas", (0, 2), 0, 1)]),
    "an unknown start settled twice": (UNKNOWN_VALUE, 1, [("read", 4, 0, 1), ("read", 5, 2, 3)]),
    "one unknown cas used twice": (
        0, 4, [("cas", (0, 1), 0, NEVER), ("read", 1, 1, 2), ("write", 0, 3, 4), ("read", 0, 5, 6),
               ("read", 1, 7, 8)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts_and_gives_an_order(name: str) -> None:
    initial, rows = ACCEPTED[name]
    found = ops(*rows)
    answer = search(found, cas_register(initial))
    assert answer.outcome == "ok"
    state: Any = initial
    for at in answer.order:  # the order given is one that the model allows
        state = cas_register(initial).step(state, found[at])
    assert state in {op.value[1] if isinstance(op.value, tuple) else op.value for op in found} | {initial}
    assert {at for at, op in enumerate(found) if op.certain} <= set(answer.order)


@pytest.mark.parametrize("name", REJECTED)
def test_rejects_and_names_the_operation_that_has_no_place(name: str) -> None:
    initial, blocked, rows = REJECTED[name]
    answer = search(ops(*rows), cas_register(initial))
    assert (answer.outcome, answer.blocked) == ("violated", blocked)


def test_a_spent_budget_is_unknown_and_never_a_verdict() -> None:
    many = ops(*(("write", number, 0 + number, 100 + number) for number in range(12)), ("read", -1, 200, 201))
    assert search(many, cas_register(0), budget_steps=500).outcome == "unknown"
    assert search(many, cas_register(0), budget_steps=500).steps == 500
    assert search(many, cas_register(0)).outcome == "violated"


def test_nothing_certain_needs_no_order() -> None:
    answer = search(ops(("write", 1, 0, NEVER)), cas_register(0))
    assert (answer.outcome, answer.order) == ("ok", ())


STEPS = [
    (43, 1085, 180),
    (46, 811, 44),
    (48, 817, 59),
    (45, 859, 63),
    (48, 1135, 287),
    (46, 888, 123),
    (45, 962, 111),
    (45, 1654, 332),
]
"""Of each 50 drawn histories: how many are right, steps in all, and steps of the longest search."""


def test_the_search_leaves_out_what_it_need_not_try() -> None:
    """Each short cut saves steps; which of them are right is shown against brute force."""
    found = []
    for group in range(8):
        random = Random(f"steps/{group}")
        some = [draw_register(random, ops=40, processes=9, values=3, unknown=0.4) for _ in range(50)]
        answers = [search(drawn, cas_register(0), 50_000) for drawn in some]
        steps = [answer.steps for answer in answers]
        found.append((sum(answer.outcome == "ok" for answer in answers), sum(steps), max(steps)))
    assert found == STEPS
