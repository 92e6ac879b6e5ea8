"""The linearizability check: which model, which algorithm, one result per key.

| model | algorithm | answer |
|---|---|---|
| mutex | lazy earliest-deadline-first (`unowned`) | exact |
| owner-, reentrant-, fenced-, reentrant-fenced-mutex | disjoint cores (`owned`) | exact |
| the same, on a key where that may be wrong (see `owners`) | search (`wgl`) | exact or unknown |
| the same, where the record leaves open who released (see `owners`) | the same, and a plain mutex | sound |
| lease | cores, where every lease was released before it could end by itself | exact there |
| cas-register | search (`wgl`) | exact or unknown |

Keys are independent objects, so each is decided alone (P-compositionality; Herlihy and Wing,
"Linearizability: a correctness condition for concurrent objects", TOPLAS 12, 1990).

Timed leases of mixed duration without releases are strongly NP-hard to decide (they contain sequencing
within intervals). Where a lease on a key may have ended by itself, this check answers ok with `exact=False`
and leaves the key to the test of guaranteed windows (`checker.properties.mutual_exclusion`), which is
sound and incomplete.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checker.history.events import ABSENT, SUPPOSED_MISMATCH
from checker.history.operations import NEVER, NONE, F, Operations
from checker.history.renaming import in_doubt, renaming
from checker.linearizability.adapter import lock_columns, register_ops, without_empty_cores
from checker.linearizability.columns import OpColumns
from checker.linearizability.lease import may_end_by_itself
from checker.linearizability.model import UNKNOWN_VALUE, Model, Op, cas_register, lock_ops, owner_mutex
from checker.linearizability.owned import check_owned
from checker.linearizability.owners import before, by_client, by_owner, doubts, to_be_searched
from checker.linearizability.result import Result, Violation
from checker.linearizability.sentences import Narrator, blocked_sentence, owned_sentence, unowned_sentence
from checker.linearizability.turns import in_turns
from checker.linearizability.unowned import check_unowned
from checker.linearizability.wgl import DEFAULT_BUDGET_STEPS, search

UNLIMITED_DEPTH: Final = 2**31 - 1
MODELS: Final = (
    "lease",
    "mutex",
    "owner-mutex",
    "reentrant-mutex",
    "fenced-mutex",
    "reentrant-fenced-mutex",
    "cas-register",
)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the check may take for granted.

    `depth` bounds reentrant locks (None: any depth). `refusals` are the errors of a failed acquire that say
    that the lock was seen held. `initial` is the first value of a register. `rho`, `delta_ns` and
    `epsilon_ns` are those of the history's parameters. `budget_steps` bounds each search.
    """

    depth: int | None = None
    refusals: Collection[str] = ()
    initial: Hashable = UNKNOWN_VALUE
    rho: float = 0.001
    delta_ns: int = 0
    epsilon_ns: int = 0
    budget_steps: int = DEFAULT_BUDGET_STEPS


def check_linearizability(
    ops: Operations,
    model: str,
    *,
    assume: Assumptions | None = None,
    zero_ns: int | None = None,
) -> list[Result]:
    """Whether the operations on each key can be put in one order that `model` allows; one result per key.

    Only the operations that the model knows are looked at (acquire and release, or read, write and cas); keys
    without any have no result. `zero_ns` is the time that sentences count from (default: the first call).
    Witnesses are rows of `ops`.

    Raises:
        ValueError: no such model.
    """
    if model not in MODELS:
        raise ValueError(f"saw model {model!r}, expected one of {', '.join(MODELS)}")
    assume = assume or Assumptions()
    first = int(ops.call_ns.min()) if len(ops) else 0
    words = Narrator(ops, first if zero_ns is None else zero_ns)
    if model == "cas-register":
        return _registers(words, assume)
    return _locks(words, model, assume)


def _registers(words: Narrator, assume: Assumptions) -> list[Result]:
    ops = words.ops
    rows = np.flatnonzero((ops.f == F.READ) | (ops.f == F.WRITE) | (ops.f == F.CAS))
    model = cas_register(assume.initial)
    doubted = {SUPPOSED_MISMATCH} if assume.initial is None else {ABSENT, SUPPOSED_MISMATCH}

    def decided(without: Collection[str]) -> dict[int, Result]:
        by_key: dict[int, list[Op]] = {int(key): [] for key in np.unique(ops.key[rows])}
        for op in register_ops(ops, rows, without):
            by_key[int(ops.key[op.row])].append(op)
        return {key: _searched(words, some, model, model.name, key, assume) for key, some in by_key.items()}

    results = decided(())
    if all(result.outcome == "ok" for result in results.values()) or not _any_doubted(ops, rows, doubted):
        return list(results.values())
    certain = decided(doubted)
    return [_unless_doubted(result, certain[key]) for key, result in results.items()]


def _any_doubted(ops: Operations, rows: NDArray[np.intp], doubted: Collection[str]) -> bool:
    """Whether any operation answered what may mean nothing."""
    values = [code for code, value in enumerate(ops.names.value) if value in doubted]
    errors = [code for code, error in enumerate(ops.names.error) if error in doubted]
    return bool(np.isin(ops.value[rows], values).any() or np.isin(ops.error[rows], errors).any())


def _unless_doubted(result: Result, certain: Result) -> Result:
    """The result of a register, given that without answers that may mean nothing."""
    if result.outcome == "ok" or certain.outcome == "violated":
        return result if result.outcome == "ok" else certain
    if result.outcome == "unknown":
        return result
    why = (
        "an order exists only if reads of nil, and compare-and-sets that failed without an error, say "
        "nothing of the register. If nil means that it is absent, as at the start: --initial nil"
    )
    return replace(result, outcome="unknown", why=why, witness=())


def _locks(words: Narrator, model: str, assume: Assumptions) -> list[Result]:
    columns = lock_columns(words.ops, assume.refusals, assume.epsilon_ns)
    if not len(columns):
        return []
    owned = model != "mutex"
    if owned:
        columns = by_owner(columns, words.ops)
    if owned and assume.epsilon_ns:
        columns = without_empty_cores(columns, words.ops, assume.epsilon_ns)
    present = np.bincount(columns.key, minlength=columns.keys) > 0
    results: dict[int, Result] = {}
    aside = np.zeros(columns.keys, np.bool_)
    if model == "lease":
        aside |= may_end_by_itself(by_client(words.ops), columns.keys, assume.rho, assume.delta_ns)
        results |= {int(key): _left_to_windows(words, int(key)) for key in np.flatnonzero(aside & present)}
    if bool(aside.any()):
        columns = columns.select(~aside[columns.key])
    results |= _decided(words, columns, model, assume)
    if owned and len(columns):
        results |= _reconsidered(words, columns, results, model, assume)
    return [results[key] for key in sorted(results)]


def _decided(words: Narrator, columns: OpColumns, model: str, assume: Assumptions) -> dict[int, Result]:
    """One result per key, taking `columns.process` for the owners."""
    if not len(columns):
        return {}
    present = np.bincount(columns.key, minlength=columns.keys) > 0
    searched = np.zeros(columns.keys, np.bool_)
    if model != "mutex":
        # What takes turns has an order, whoever its owners are; few keys are left, as a rule.
        columns = columns.select(~in_turns(columns, fenced="fenced" in model)[columns.key])
        searched[: columns.keys] = to_be_searched(columns, _depth(model, assume), fenced="fenced" in model)
    results = _fallback(words, columns, searched, model, assume)
    if bool(searched.any()):
        columns = columns.select(~searched[columns.key])
    return results | _scanned(words, columns, present & ~searched, model, assume)


def _reconsidered(
    words: Narrator, columns: OpColumns, results: dict[int, Result], model: str, assume: Assumptions
) -> dict[int, Result]:
    """Results of keys on which a process may have gone on for the client of another, where that matters.

    A violation stands if it was there before the first such operation, or if a plain mutex is violated
    whoever releases it. Else it is unknown, as is that a reentrant lock refused nobody who held it.
    """
    depth, renamed = _depth(model, assume), renaming(words.ops)
    if renamed is None:
        return {}
    columns = columns.ranked()
    since, first, refused = doubts(columns, words.ops, renamed, depth)
    found: dict[int, Result] = {}
    for key in np.flatnonzero(since < NEVER).tolist():
        mine = columns.select(columns.key == key)
        open_ok = depth > 1 and bool(refused[key])
        if results[key].outcome == "unknown" or (results[key].outcome == "ok" and not open_ok):
            continue
        definite = _decided(words, before(mine, int(since[key])), model, assume)
        if depth == 1 and all(result.outcome != "violated" for result in definite.values()):
            definite = _decided(words, mine, "mutex", assume)
        violated = [result for result in definite.values() if result.outcome == "violated"]
        why = in_doubt(words.ops, renamed, int(first[key]), words.at)
        unknown = Result("unknown", model, results[key].algorithm, why, key=results[key].key)
        found[key] = replace(violated[0], model=model) if violated else unknown
    return found


def _scanned(
    words: Narrator, columns: OpColumns, keys: NDArray[np.bool_], model: str, assume: Assumptions
) -> dict[int, Result]:
    depth = _depth(model, assume)
    if model == "mutex":
        algorithm, violations = "earliest-deadline-first", check_unowned(columns)
        why = "every acquire and release can be put in order."
    else:
        algorithm, violations = "cores", check_owned(columns, depth=depth, fenced="fenced" in model)
        why = "no two sessions held the lock at one time, and every process took its turns properly."
    found = {
        int(key): Result("ok", model, algorithm, why, key=_key_name(words.ops, int(key)))
        for key in np.flatnonzero(keys)
    }
    for violation in violations:
        earlier, later = _rows(columns, violation)
        sentence = (
            unowned_sentence(words, violation.reason, earlier, later)
            if model == "mutex"
            else owned_sentence(words, violation.reason, earlier, later, depth)
        )
        witness = tuple(row for row in (earlier, later) if row >= 0)
        name = _key_name(words.ops, violation.key)
        found[violation.key] = Result("violated", model, algorithm, sentence, witness, name)
    return found


def _fallback(
    words: Narrator, columns: OpColumns, keys: NDArray[np.bool_], model: str, assume: Assumptions
) -> dict[int, Result]:
    if not bool(keys.any()):
        return {}
    sequential = owner_mutex(_depth(model, assume), fenced="fenced" in model)
    chosen = columns.select(keys[columns.key])
    by_key: dict[int, list[Op]] = {}
    for key, op in zip(chosen.key.tolist(), lock_ops(chosen), strict=True):
        by_key.setdefault(key, []).append(op)
    return {key: _searched(words, some, sequential, model, key, assume) for key, some in by_key.items()}


def _searched(
    words: Narrator, found: list[Op], sequential: Model, model: str, key: int, assume: Assumptions
) -> Result:
    answer = search(found, sequential, assume.budget_steps)
    name = _key_name(words.ops, key)
    if answer.outcome == "ok":
        return Result("ok", model, "search", "the search found an order.", key=name)
    if answer.outcome == "unknown":
        why = f"the search ended after {answer.steps:,} steps without an answer."
        return Result("unknown", model, "search", why, key=name)
    blocked = found[answer.blocked].row
    witness = (*(found[at].row for at in answer.order[-1:]), blocked)
    return Result("violated", model, "search", blocked_sentence(words, model, blocked), witness, name)


def _left_to_windows(words: Narrator, key: int) -> Result:
    why = "a lease on this key may have ended by itself: only its guaranteed windows can tell."
    return Result("ok", "lease", "cores", why, key=_key_name(words.ops, key), exact=False)


def _depth(model: str, assume: Assumptions) -> int:
    if not model.startswith("reentrant"):
        return 1
    return UNLIMITED_DEPTH if assume.depth is None else assume.depth


def _rows(columns: OpColumns, violation: Violation) -> tuple[int, int]:
    earlier = int(columns.row[violation.earlier]) if violation.earlier >= 0 else NONE
    return earlier, int(columns.row[violation.later])


def _key_name(ops: Operations, key: int) -> str | None:
    return ops.names.key[key] if 0 <= key < len(ops.names.key) else None
