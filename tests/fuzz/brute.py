"""The simplest possible judge: try every order, with rules written down a second time and nothing remembered.

It shares no code with the checker's models and search, so a mistake would have to be made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from checker.history.operations import NEVER
from checker.linearizability.columns import NO_FENCE
from checker.linearizability.model import UNKNOWN_VALUE, Op

Rule = Callable[[Any, Op], Any]  # the state afterwards, or None when the answer was wrong


def possible(ops: Sequence[Op], rule: Rule, start: Any) -> bool:
    """Whether some order that respects real time obeys the rule; unknown outcomes may be left out."""

    def go(left: frozenset[int], state: Any) -> bool:
        if all(ops[i].returned == NEVER for i in left):
            return True
        first_return = min(ops[i].returned for i in left)
        for i in left:
            if ops[i].called < first_return:
                after = rule(state, ops[i])
                if after is not None and go(left - {i}, after):
                    return True
        return False

    return go(frozenset(range(len(ops))), start)


def mutex_rule(holders: int, op: Op) -> int | None:
    """State: how many hold it, 0 or 1."""
    match op.f:
        case "acquire":
            return 1 if holders == 0 else None
        case "release":
            return 0 if holders == 1 else None
        case _:
            return 1 if holders == 1 else None


def owned_rule(depth: int, fenced: bool) -> Rule:
    """State: the stack of holders (all the same process), the greatest fence, the session's fence."""

    def rule(state: Any, op: Op) -> Any:
        stack, greatest, session = state
        if op.f == "release":
            if not stack or stack[-1] != op.process:
                return None
            return (stack[:-1], greatest, session if len(stack) > 1 else None)
        entered = not stack or (stack[0] == op.process and len(stack) < depth)
        if op.f == "refused acquire":
            return None if entered else state
        if not entered:
            return None
        if fenced and op.fence != NO_FENCE:
            if op.fence != session and op.fence <= greatest:
                return None
            greatest = session = op.fence
        return ((*stack, op.process), greatest, session)

    return rule


OWNED_START = ((), -1, None)  # fences are not negative here


def register_rule(value: Any, op: Op) -> Any:
    """State: the value in a list of one, an empty list while nobody knows it; None is a wrong answer."""
    match op.f:
        case "read":
            if op.value is None:
                return value
            return [op.value] if value in ([], [op.value]) else None
        case "write":
            return [op.value]
        case "cas":
            assert isinstance(op.value, tuple)
            return [op.value[1]] if value in ([], [op.value[0]]) else None
        case _:
            assert isinstance(op.value, tuple)
            return value if value != [op.value[0]] else None


def register_start(initial: Any) -> list[Any]:
    """The state in which a register with this first value starts."""
    return [] if initial == UNKNOWN_VALUE else [initial]
