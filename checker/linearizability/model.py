"""Sequential models: what one operation after another may do to a lock or a register.

A model is a start and a step. `step(state, op)` gives the state after the operation, or `IMPOSSIBLE` when
an object that behaves well could not have answered so. States are hashable and never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from checker.history.events import ABSENT
from checker.history.operations import NEVER
from checker.linearizability.columns import KIND_NAMES, NO_FENCE, OpColumns

State: TypeAlias = Hashable


class _Impossible(Enum):
    IMPOSSIBLE = "impossible"


IMPOSSIBLE: Final = _Impossible.IMPOSSIBLE

# The start of a register whose first value nobody recorded.
UNKNOWN_VALUE: Final = ("unknown",)


# Operations that tell about the state and never change one that is known.
OBSERVERS: Final = frozenset(("read", "refused acquire", "refused cas"))


class Op(NamedTuple):
    """One operation as the search sees it. `called` and `returned` are ranks as in `OpColumns`."""

    row: int
    f: str  # acquire | release | refused acquire | read | write | cas | refused cas
    process: int
    called: int
    returned: int
    value: Hashable = None
    fence: int = NO_FENCE

    @property
    def certain(self) -> bool:
        """Whether it is known to have taken effect."""
        return self.returned != NEVER


Step: TypeAlias = Callable[[State, Op], "State | _Impossible"]


@dataclass(frozen=True, slots=True)
class Model:
    """A sequential object: its name, its start, and what an operation does to it.

    `anonymous` says that `step` does not look at the process, so equal operations are interchangeable.
    """

    name: str
    init: State
    step: Step
    anonymous: bool = False


class Hold(NamedTuple):
    """Who holds (-1: nobody), how deep, the greatest fence so far, and whether this session has shown one."""

    owner: int = -1
    depth: int = 0
    fence: int = NO_FENCE
    shown: bool = False


def owner_mutex(depth: int = 1, *, fenced: bool = False) -> Model:
    """A lock that only its holder releases and that its holder may acquire `depth` times over.

    With `fenced`, the first fence that a session shows is greater than all before; an acquire nested in the
    session shows that fence again or one greater still. An acquire without a fence says nothing about
    fences.
    """

    def step(state: State, op: Op) -> State | _Impossible:
        assert isinstance(state, Hold)
        mine = state.owner == op.process
        if op.f == "acquire":
            if state.owner != -1 and not (mine and state.depth < depth):
                return IMPOSSIBLE
            after = Hold(op.process, state.depth + 1, state.fence, mine and state.shown)
            return after if not fenced or op.fence == NO_FENCE else _fenced(after, op.fence)
        if op.f == "release":
            if not mine:
                return IMPOSSIBLE
            below = state.depth - 1
            return state._replace(depth=below) if below else Hold(fence=state.fence)
        refusable = state.owner != -1 and (not mine or state.depth == depth)
        return state if refusable else IMPOSSIBLE

    kind = "fenced-mutex" if fenced else "mutex"
    plain = kind if fenced else f"owner-{kind}"
    return Model(plain if depth == 1 else f"reentrant-{kind}({depth})", Hold(), step)


def _fenced(after: Hold, fence: int) -> State | _Impossible:
    if fence > after.fence or (after.shown and fence == after.fence):
        return after._replace(fence=fence, shown=True)
    return IMPOSSIBLE


def cas_register(initial: Hashable = UNKNOWN_VALUE) -> Model:
    """A register with read, write and compare-and-set; a cas carries (old, new).

    The state None is that of a register that is absent, which a read of `ABSENT` tells; a read of None is one
    whose answer nobody recorded. A refused cas saw a value other than `old`. From an `UNKNOWN_VALUE` start
    the first operation that tells what it saw settles what the start was.
    """

    def step(state: State, op: Op) -> State | _Impossible:
        if op.f == "read":
            seen = None if op.value == ABSENT else op.value
            if op.value is None or seen == state:
                return state
            return seen if state == UNKNOWN_VALUE else IMPOSSIBLE
        if op.f == "write":
            return op.value
        assert isinstance(op.value, tuple)
        old, new = op.value
        if op.f == "cas":
            return new if state in (old, UNKNOWN_VALUE) else IMPOSSIBLE
        return state if state != old else IMPOSSIBLE

    return Model("cas-register", initial, step, anonymous=True)


def lock_ops(columns: OpColumns) -> list[Op]:
    """The rows of `OpColumns` as operations for the search."""
    columns = columns.ranked()
    kinds = [KIND_NAMES[kind] for kind in columns.kind.tolist()]
    lists = (columns.process, columns.called, columns.returned, columns.fence)
    return [
        Op(row, kind, process, called, returned, None, fence)
        for row, kind, process, called, returned, fence in zip(
            columns.row.tolist(), kinds, *(column.tolist() for column in lists), strict=True
        )
    ]
