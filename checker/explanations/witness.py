"""The shortest part of a history that is still violated.

Operations are left out as wholes: an acquire goes with its extensions and releases, a process of a lock
without leases with all its turns, a value of a register with all that mention it; a use of the resource goes
alone. Leaving a whole out never makes a correct history wrong: an order of all operations is an order of the
rest. So a part that is violated proves that the history is. What others may explain stays in: a refused try
is explained by whoever may have held the lock, and a release by anybody may free a lock without an owner, so
there every grant and release of the key stays, up to the last event of the finding.

A part is shown only after it was checked again and gave the same finding; if none smaller does, the whole
history is its own witness. What nemesis, lab and nodes reported stays as it is, and so do all stamps.

Cost: one check of a few operations for each operation of the part (Zeller's ddmin is not needed: the events
that a finding names nearly always suffice, and then each of their wholes is tried once).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import NONE, Bools, F, Index, Status
from checker.verdict import Finding

ABOUT_REFUSALS: Final = frozenset(("leak", "unavailable", "refused-with-room"))
"""Findings about tries that were refused: whoever may have held the lock would explain them."""
USES: Final = (F.HELD, F.READ, F.WRITE, F.CAS)


def shortest_witness(history: History, finding: Finding, model: str | None = None) -> History:
    """The part of the history that shows a finding of it, as small as leaving out wholes can make it."""
    evidence = Evidence(history, model)
    whole = _wholes(evidence, finding)
    for rows in _starts(evidence, finding, whole):
        part = _part(history, rows)
        if shows(part, finding, evidence.model):
            return _reduced(history, evidence, finding, whole, rows)
    return history


def shows(part: History, finding: Finding, model: str) -> bool:
    """Whether checking this part gives the same finding: its name, key, clients and events."""
    from checker.decide import check

    return any(
        (f.key, f.clients, f.witnesses, f.severity)
        == (finding.key, finding.clients, finding.witnesses, finding.severity)
        for f in check(part, model=model).named(finding.name)
    )


def witness_rows(evidence: Evidence, finding: Finding) -> Index:
    """The operations (rows) whose invocation or completion is among the events of a finding."""
    ops = evidence.ops
    named = np.isin(ops.call_index, finding.witnesses) | np.isin(ops.return_index, finding.witnesses)
    return np.flatnonzero(named)


def _part(history: History, rows: Index) -> History:
    return replace(history, ops=history.ops.take(rows), source=None)


def _wholes(evidence: Evidence, finding: Finding) -> Index:
    """Which whole each operation belongs to; shape (n,)."""
    ops = evidence.ops
    if evidence.model == "cas-register":
        return _values(evidence)
    alone = len(ops.names.grant) + np.arange(len(ops))
    whole: Index = np.where((ops.grant == NONE) | np.isin(ops.f, USES), alone, ops.grant)
    if finding.name == "not-linearizable":  # turns of a process are told apart by their order alone
        turns = ops.process.astype(np.int64) + len(ops.names.grant) + len(ops)
        failed = (ops.f == F.ACQUIRE) & (ops.status == Status.FAIL)
        whole = np.where(failed | np.isin(ops.f, USES), alone, turns)
    return whole


def _values(evidence: Evidence) -> Index:
    """Operations on a register that mention one value, or values that a compare-and-set joins."""
    ops = evidence.ops
    joined: dict[object, object] = {}

    def root(value: object) -> object:
        while value in joined:
            value = joined[value]
        return value

    for row in np.flatnonzero(ops.f == F.CAS).tolist():
        pair = ops.name("value", row)
        if isinstance(pair, tuple) and len(pair) == 2 and root(pair[0]) != root(pair[1]):
            joined[root(pair[0])] = root(pair[1])
    codes: dict[object, int] = {}
    whole = np.empty(len(ops), np.int64)
    for row in range(len(ops)):
        value = ops.name("value", row)
        first = value[0] if isinstance(value, tuple) else value
        whole[row] = codes.setdefault((int(ops.key[row]), root(first)), len(codes))
    return whole


def _starts(evidence: Evidence, finding: Finding, whole: Index) -> Iterator[Index]:
    """Ever larger parts to begin with: what the finding names, its clients, its key."""
    ops = evidence.ops
    named = np.isin(whole, whole[witness_rows(evidence, finding)]) | _needed(evidence, finding)
    yield np.flatnonzero(named)
    codes = [code for code, name in enumerate(ops.names.key) if name == finding.key]
    key = np.isin(ops.key, codes or [NONE])
    theirs = np.isin(ops.client, [i for i, name in enumerate(ops.names.client) if name in finding.clients])
    yield np.flatnonzero(named | (key & theirs))
    yield np.flatnonzero(named | key)
    yield np.arange(len(ops))


def _needed(evidence: Evidence, finding: Finding) -> Bools:
    """What must stay since it may explain the finding away; shape (n,)."""
    ops = evidence.ops
    refused = bool((ops.status[witness_rows(evidence, finding)] == Status.FAIL).any())
    ordered = finding.name == "not-linearizable" and (refused or evidence.model == "mutex")
    if evidence.model == "cas-register" or not (ordered or finding.name in ABOUT_REFUSALS):
        return np.zeros(len(ops), bool)
    same = np.array([name == finding.key for name in ops.names.key] + [finding.key is None])[ops.key]
    held = (ops.f <= F.RELEASE) & ~((ops.f == F.ACQUIRE) & (ops.status == Status.FAIL))
    needed: Bools = same & held & (ops.call_index <= max(finding.witnesses))
    return needed


def _reduced(history: History, evidence: Evidence, finding: Finding, whole: Index, rows: Index) -> History:
    """Leave out one whole after the other, as long as the finding stays."""
    needed = set(whole[_needed(evidence, finding)].tolist())
    part = _part(history, rows)
    for one in np.unique(whole[rows]).tolist():
        if one in needed:
            continue
        fewer = rows[whole[rows] != one]
        smaller = _part(history, fewer)
        if fewer.size and shows(smaller, finding, evidence.model):
            rows, part = fewer, smaller
    return part
