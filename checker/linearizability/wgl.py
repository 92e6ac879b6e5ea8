"""Search for a linearization of any model, within a budget: Wing and Gong's search with Lowe's memory.

J. M. Wing, C. Gong, "Testing and Verifying Concurrent Objects", J. Parallel Distrib. Comput. 17 (1993), and
G. Lowe, "Testing for linearizability", Concurrency Computat. Pract. Exper. 29 (2017): walk the calls and
returns in order; order any called operation that the model allows now; on the return of an operation not
yet ordered, take back the last choice. A pair (set of ordered operations, state) seen before is not entered
again. Operations of unknown outcome are tried last. Exponential at worst, which is why it is bounded, used
for what no polynomial test covers, and as the judge of those tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from checker.linearizability.model import IMPOSSIBLE, OBSERVERS, Model, Op, State
from checker.linearizability.result import Outcome

DEFAULT_BUDGET_STEPS: Final = 2_000_000

# What is ordered already: how many of the certain calls form a full prefix, and which of the later ones.
_Seen: TypeAlias = tuple[int, int, State]


@dataclass(frozen=True, slots=True)
class Search:
    """Answer of a search. `order` is the longest linearization met (positions in the given sequence).

    When violated, `blocked` is the position of the operation by whose return no order exists: everything that
    returned before it can be ordered, it cannot.
    """

    outcome: Outcome
    steps: int
    order: tuple[int, ...]
    blocked: int = -1


def search(ops: Sequence[Op], model: Model, budget_steps: int = DEFAULT_BUDGET_STEPS) -> Search:
    """Decide whether `ops` are linearizable by `model`; `unknown` after `budget_steps` tried steps.

    Operations of unknown outcome may be ordered at any point after their call, or left out. Those of one
    process are kept in order only by their intervals.
    """
    return _Walk(ops, model).run(budget_steps)


class _Walk:
    """The linked list of calls and returns, the choices made, and what was seen."""

    def __init__(self, ops: Sequence[Op], model: Model) -> None:
        self.ops = ops
        self.step = model.step
        self.state = model.init
        self.choices: list[tuple[int, State, int, int]] = []
        self.seen: dict[_Seen, list[int]] = {}
        self.prefix = 0
        self.certain_mask = 0
        self.unknown_mask = 0
        self.longest: tuple[int, ...] = ()
        self.blocked_at = 0
        self.limit = 0
        self._link(model.anonymous)

    def _link(self, anonymous: bool) -> None:
        """Entries 1..m in order of rank; `entry_op` is negative (-1 - op) for a return.

        Two circular lists run through them: from entry 0 the certain calls and their returns, from entry m
        + 1 the calls of unknown outcome, which are tried only when nothing certain gets past a return.
        """
        entries = [(op.called, at) for at, op in enumerate(self.ops)]
        entries += [(op.returned, -1 - at) for at, op in enumerate(self.ops) if op.certain]
        entries.sort()
        self.unknown_head = len(entries) + 1
        self.entry_op = [0, *(code for _, code in entries), 0]
        self.following = list(range(len(entries) + 2))
        self.previous = list(range(len(entries) + 2))
        self.call_entry = [0] * len(self.ops)
        self.return_entry = [0] * len(self.ops)
        self.bit = [0] * len(self.ops)
        counts = [0, 0]
        for entry, (_, code) in enumerate(entries, 1):
            certain = code < 0 or self.ops[code].certain
            head = 0 if certain else self.unknown_head
            last = self.previous[head]
            self.following[last] = self.previous[head] = entry
            self.previous[entry], self.following[entry] = last, head
            if code < 0:
                self.return_entry[-1 - code] = entry
            else:
                self.call_entry[code] = entry
                self.bit[code] = counts[certain]
                counts[certain] += 1
        self.remaining = counts[True]
        self._find_twins(anonymous)

    def _find_twins(self, anonymous: bool) -> None:
        """Of equal operations of unknown outcome the earlier called goes first: the bit of that
        predecessor.
        """
        self.twin = [0] * len(self.ops)
        latest: dict[tuple[object, ...], int] = {}
        entry = self.following[self.unknown_head]
        while entry != self.unknown_head:
            at = self.entry_op[entry]
            op = self.ops[at]
            kind = (op.f, op.value, op.fence, -1 if anonymous else op.process)
            if kind in latest:
                self.twin[at] = 1 << latest[kind]
            latest[kind] = self.bit[at]
            entry = self.following[entry]

    def run(self, budget_steps: int) -> Search:
        """Walk until everything certain is ordered, nothing is left to try, or the budget is spent."""
        steps = 0
        entry = self.following[0]
        while self.remaining:
            at = self.entry_op[entry]
            if at < 0:
                # The return of an operation not ordered yet: only one of unknown outcome may still come
                # before.
                self.limit = entry
                if entry > self.blocked_at:
                    self.blocked_at, self.longest = entry, self._chosen()
                entry = self.following[self.unknown_head]
            elif entry == self.unknown_head or (entry > self.limit and not self.ops[at].certain):
                undone = self._take_back()
                if not undone:
                    return Search("violated", steps, self.longest, -1 - self.entry_op[self.blocked_at])
                entry = self.following[undone]
            elif steps == budget_steps:
                return Search("unknown", steps, self._longest())
            else:
                steps += 1
                entry = self.following[0 if self._order(at) else entry]
        return Search("ok", steps, self._chosen())

    def _order(self, at: int) -> bool:
        """Order op `at` next if the model allows it and nobody has been there."""
        op = self.ops[at]
        after = self.step(self.state, op)
        if after is IMPOSSIBLE:
            return False
        certain, unknown, prefix = self.certain_mask, self.unknown_mask, self.prefix
        if op.certain:
            certain |= 1 << (self.bit[at] - prefix)
            while certain & 1:
                certain >>= 1
                prefix += 1
        elif after == self.state or self.twin[at] & ~unknown:
            return False  # leaving it out, or taking its twin, is as good
        else:
            unknown |= 1 << self.bit[at]
        seen = self.seen.setdefault((prefix, certain, after), [])
        # Whoever got here with fewer operations of unknown outcome could do all that is possible now.
        if any(mask & ~unknown == 0 for mask in seen):
            return False
        seen.append(unknown)
        self.choices.append((at, self.state, self.prefix, self.limit))
        self.state, self.prefix, self.certain_mask, self.unknown_mask = after, prefix, certain, unknown
        self._unlink(self.call_entry[at])
        if op.certain:
            self._unlink(self.return_entry[at])
            self.remaining -= 1
        return True

    def _take_back(self) -> int:
        """Undo the last choice that had an alternative; the entry of its call, 0 when there is none.

        An operation that only observes, was possible and changed nothing had none: any order without it so
        far can take it in at this very place.
        """
        while self.choices:
            at, before = self.choices[-1][0], self.state
            entry = self._undo()
            if before != self.state or self.ops[at].f not in OBSERVERS:
                return entry
        return 0

    def _undo(self) -> int:
        at, self.state, prefix, self.limit = self.choices.pop()
        if self.ops[at].certain:
            self._relink(self.return_entry[at])
            self.remaining += 1
            moved = self.prefix - prefix
            # Everything below the later prefix was ordered; put those bits back, then clear this one.
            mask = (self.certain_mask << moved) | ((1 << moved) - 1)
            self.certain_mask = mask & ~(1 << (self.bit[at] - prefix))
        else:
            self.unknown_mask &= ~(1 << self.bit[at])
        self.prefix = prefix
        self._relink(self.call_entry[at])
        return self.call_entry[at]

    def _unlink(self, entry: int) -> None:
        before, after = self.previous[entry], self.following[entry]
        self.following[before], self.previous[after] = after, before

    def _relink(self, entry: int) -> None:
        before, after = self.previous[entry], self.following[entry]
        self.following[before] = self.previous[after] = entry

    def _chosen(self) -> tuple[int, ...]:
        return tuple(at for at, *_ in self.choices)

    def _longest(self) -> tuple[int, ...]:
        return self.longest or self._chosen()
