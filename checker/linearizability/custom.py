"""A model of one's own: is there an order of the operations that it allows?

A model is any class with two methods, as Porcupine's models have them (A. Athalye, "Porcupine: A fast
linearizability checker in Go", 2017)::

    class Counter(CustomModel):
        def init(self):
            return 0

        def step(self, state, operation):
            if operation.f == "write":
                return state + 1
            return state if operation.output in (None, state) else IMPOSSIBLE

`step` gives the state after an operation, or `IMPOSSIBLE` if an object that behaves well could not have
answered so. States are hashable and never changed in place. `partition` names the independent object that an
operation belongs to (its key, unless the model says otherwise): each is decided alone, since a history is
linearizable if and only if it is so for every object (Herlihy and Wing, 1990).

The search is Wing and Gong's with Lowe's memory (`checker.linearizability.wgl`). It is exact: an `ok` comes
with an order, a `violated` means that there is none. It is bounded: `unknown` when the budget is spent.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from checker.errors import HistoryError
from checker.history.history import History
from checker.history.operations import MISSING, NEVER, F, Operations, Status
from checker.linearizability.model import IMPOSSIBLE, Model, Op
from checker.linearizability.result import Outcome
from checker.linearizability.wgl import DEFAULT_BUDGET_STEPS, search

__all__ = [
    "IMPOSSIBLE",
    "CustomModel",
    "CustomResult",
    "Operation",
    "check_model",
    "load_model",
    "operations_of",
]

_KIND: Final = "custom"  # the search must take no operation of a model of one's own for a mere observer
OperationStatus = Literal["ok", "fail", "info"]
_STATUS: Final[dict[Status, OperationStatus]] = {Status.OK: "ok", Status.FAIL: "fail", Status.INFO: "info"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a client: what it asked for, what came back, and when.

    Times are of one clock, in any unit; operations that share an instant count as concurrent. `returned` is
    None for an operation of unknown outcome: it may have taken effect at any time after its call, or never.
    `status` "fail" is a definite answer like "ok" (a refused try, say): the model decides what it means.
    """

    process: str
    f: str
    called: int
    returned: int | None
    input: Hashable = None
    output: Hashable = None
    key: Hashable = None
    status: OperationStatus = "ok"


class CustomModel:
    """Derive from this, and give `init` and `step`.

    `looks_at_failures` says that `step` wants to see recorded operations that failed, too; they are left out
    otherwise, since a failed operation had no effect.
    """

    looks_at_failures: bool = False

    def init(self) -> Hashable:
        """The state in which every object starts."""
        raise NotImplementedError

    def step(self, state: Any, operation: Operation) -> Any:
        """The state after the operation, or `IMPOSSIBLE`."""
        raise NotImplementedError

    def partition(self, operation: Operation) -> Hashable:
        """The object that an operation belongs to; by default its key."""
        return operation.key


@dataclass(frozen=True, slots=True)
class CustomResult:
    """The answer for one object.

    `order` holds the positions of the operations in the longest order found: all certain ones if `ok`. If
    violated, `blocked` is the position of the operation that no order explains.
    """

    outcome: Outcome
    partition: Hashable
    steps: int
    order: tuple[int, ...] = ()
    blocked: int | None = None


def check_model(
    operations: Sequence[Operation], model: CustomModel, *, budget_steps: int = DEFAULT_BUDGET_STEPS
) -> list[CustomResult]:
    """Decide for every object whether its operations are linearizable by the model.

    `budget_steps` bounds the search of each object. Positions are those in `operations`.

    Raises:
        HistoryError: an operation returns before it is called; the model raised an exception.
    """
    parts: dict[Hashable, list[int]] = {}
    for at, operation in enumerate(operations):
        if operation.returned is not None and operation.returned < operation.called:
            raise HistoryError(
                f"operation {at} returns at {operation.returned}, before its call", field="returned"
            )
        parts.setdefault(_asked(model.partition, operation), []).append(at)
    return [_decide(operations, some, name, model, budget_steps) for name, some in parts.items()]


def _decide(
    operations: Sequence[Operation], some: list[int], name: Hashable, model: CustomModel, budget_steps: int
) -> CustomResult:
    ops = _ranked(operations, some)

    def step(state: Hashable, op: Op) -> Any:
        return _asked(model.step, state, operations[op.row])

    answer = search(ops, Model(type(model).__name__, _asked(model.init), step), budget_steps)
    order = tuple(ops[at].row for at in answer.order)
    blocked = ops[answer.blocked].row if answer.outcome == "violated" else None
    return CustomResult(answer.outcome, name, answer.steps, order, blocked)


def _asked(method: Any, *arguments: Any) -> Any:
    """Call a method of the model; an exception in it is the model's, and says so."""
    try:
        answer = method(*arguments)
        hash(answer)
    except Exception as error:
        raise HistoryError(
            f"{method.__qualname__} raised {type(error).__name__}: {error}",
            field="model",
            hint="return IMPOSSIBLE for an answer that the model does not allow; states must be hashable",
        ) from error
    return answer


def _ranked(operations: Sequence[Operation], some: list[int]) -> list[Op]:
    """The operations for the search; calls come before returns at the same instant."""
    events = [(operations[at].called, 0, at) for at in some]
    events += [(r, 1, at) for at in some if (r := operations[at].returned) is not None]
    rank = {(kind, at): position for position, (_, kind, at) in enumerate(sorted(events))}
    return [
        # Twins (equal operations of unknown outcome) are told apart by their row: no two are interchangeable.
        Op(at, _KIND, at, rank[0, at], rank.get((1, at), NEVER), at)
        for at in some
    ]


def operations_of(history: History, *, failed: bool = False) -> list[Operation]:
    """The client operations of a recorded history, in the order of their calls.

    Those that failed had no effect and are left out, unless `failed` asks for them (their `status` tells).

    `input` is the `value` of a write, the pair of a cas, the TTL (ns) of an acquire or extend; `output` the
    `value` of a read, the fence of an acquire. Unknown numbers are None.
    """
    ops = history.ops
    return [_operation(ops, row) for row in range(len(ops)) if failed or ops.status[row] != Status.FAIL]


def _operation(ops: Operations, row: int) -> Operation:
    kind, status = F(int(ops.f[row])), Status(int(ops.status[row]))
    value = ops.name("value", row)
    ttl, fence = int(ops.ttl_ns[row]), int(ops.fence[row])
    asked: Hashable = value if kind in (F.WRITE, F.CAS) else None if ttl == MISSING else ttl
    answered: Hashable = value if kind is F.READ else None if fence == MISSING else fence
    return Operation(
        process=str(ops.name("process", row)),
        f=kind.name.lower(),
        called=int(ops.call_ns[row]),
        returned=None if status is Status.INFO else int(ops.return_ns[row]),
        input=asked,
        output=answered,
        key=ops.name("key", row),
        status=_STATUS[status],
    )


def load_model(name: str) -> CustomModel:
    """Import `package.module:Class` (from the current directory, too) and make a model of it.

    Raises:
        HistoryError: it cannot be imported, or has no `init` and `step`.
    """
    place, _, attribute = name.partition(":")
    expected = "expected package.module:Class, a class with `init` and `step`"
    if not attribute:
        raise HistoryError(f"saw {name!r}, {expected}", field="model")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a plain string for sys.path
    try:
        found = getattr(importlib.import_module(place), attribute)
        model = found() if isinstance(found, type) else found
    except Exception as error:
        raise HistoryError(
            f"saw {name!r}, which cannot be loaded ({type(error).__name__}: {error}), {expected}",
            field="model",
        ) from error
    finally:
        sys.path.pop(0)
    if not all(callable(getattr(model, method, None)) for method in ("init", "step")):
        raise HistoryError(f"saw {name!r}, which has no `init` and `step`, {expected}", field="model")
    return model if isinstance(model, CustomModel) else _Adapted(model)


class _Adapted(CustomModel):
    """A class that has the methods, but is not derived from `CustomModel`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.looks_at_failures = bool(getattr(model, "looks_at_failures", False))

    def init(self) -> Any:
        return self._model.init()

    def step(self, state: Any, operation: Operation) -> Any:
        return self._model.step(state, operation)

    def partition(self, operation: Operation) -> Hashable:
        own = getattr(self._model, "partition", None)
        return own(operation) if own else operation.key


def violations(results: Iterable[CustomResult]) -> list[CustomResult]:
    """Those results that are violated."""
    return [result for result in results if result.outcome == "violated"]
