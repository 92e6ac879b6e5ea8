"""The orchestrator: every check on one history, each guarded, composed into one verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

import numpy as np

from checker import fencing, honesty, linearizable, liveness, mutual_exclusion, resource
from checker.errors import HistoryError
from checker.events import Model
from checker.evidence import Evidence, ms
from checker.history import History
from checker.operations import NONE, F
from checker.verdict import Outcome, Property, PropertyVerdict, Verdict, compose, worst

Check = Callable[[Evidence], PropertyVerdict]


def check(history: History, *, model: str | None = None) -> Verdict:
    """Decide whether the lock kept its promises.

    `model` overrides the one of the header. A check that raises makes its property unknown; a definite
    violation stands whatever else is unknown.

    Raises:
        HistoryError: no such model.
    """
    if model is not None and model not in get_args(Model):
        raise HistoryError(f"saw {model!r}, expected one of {', '.join(get_args(Model))}", field="model")
    evidence = Evidence(history, model)
    verdicts = [_guarded(evidence, name, checks) for name, checks in _plan(evidence.model).items()]
    return compose(verdicts, tuple(unknown_reasons(evidence)), tuple(remarks(evidence)))


def _plan(model: str) -> dict[Property, tuple[Check, ...]]:
    """Which checks decide which property of a history of this model."""
    if model == linearizable.REGISTER:
        return {Property.RESOURCE: (linearizable.check_register,)}  # a register has no lock to judge
    exclusion: tuple[Check, ...] = ()
    if model in linearizable.WINDOWED:
        exclusion += (mutual_exclusion.check,)
    if model != "lease":
        exclusion += (linearizable.check_lock,)
    return {
        Property.MUTUAL_EXCLUSION: exclusion,
        Property.LEASE_HONESTY: (honesty.check,),
        Property.FENCING: (fencing.check,),
        Property.RESOURCE: (resource.check,),
        Property.DEADLOCK_FREEDOM: (liveness.check_deadlock_freedom,),
        Property.FAULT_TOLERANCE: (liveness.check_fault_tolerance,),
    }


def _guarded(evidence: Evidence, name: Property, checks: tuple[Check, ...]) -> PropertyVerdict:
    """The worst of several checks of one property; one that crashes is unknown."""
    verdicts = []
    for one in checks:
        try:
            verdicts.append(one(evidence))
        except Exception as error:  # noqa: BLE001  a bug in one check must not hide what the others found
            why = f"the check crashed: {type(error).__name__}: {error}"
            verdicts.append(PropertyVerdict(name, Outcome.UNKNOWN, why))
    outcome = worst(v.outcome for v in verdicts)
    deciding = next(v for v in verdicts if v.outcome == outcome)
    overlapped = {f.key for v in verdicts for f in v.findings if f.name == "overlap"}
    findings = tuple(
        f for v in verdicts for f in v.findings if not (f.name == "not-linearizable" and f.key in overlapped)
    )
    return PropertyVerdict(name, outcome, deciding.why, findings)


def unknown_reasons(evidence: Evidence) -> Iterator[str]:
    """Why this run proves less than it should: damage, faults without receipt, missed anchors, no grant."""
    history = evidence.history
    yield from history.problems
    for record in history.lab:
        if record.f == "abort":
            yield f"the harness failed: {record.error or 'no reason given'} (event {record.index})"
        elif record.f == "anchor" and record.type == "fail":
            yield f"an anchor never came: {record.error or record.value or '?'} (event {record.index})"
    for fault in history.faults:
        if not fault.confirmed:
            target = f" on {fault.target}" if fault.target else ""
            yield f"no receipt for {fault.f}{target} (event {fault.index})"
    if evidence.model == linearizable.REGISTER:
        return
    if not evidence.grants.held.any():
        yield "nothing was ever granted, so nothing was proved"
    strangers = _strangers(evidence)
    if strangers:
        yield f"{strangers} operations name a grant that no acquire of this history made"


def remarks(evidence: Evidence) -> Iterator[str]:
    """What a reader should know that is nobody's fault: processes that stood still unasked."""
    pauses = evidence.pauses()
    unasked = [
        stall
        for stall in evidence.history.stalls
        if not any(
            p.start_ns <= stall.end_ns and stall.start_ns <= p.end_ns for p in pauses.get(stall.client, ())
        )
    ]
    if unasked:
        longest = max(unasked, key=lambda stall: stall.end_ns - stall.start_ns)
        times = "once" if len(unasked) == 1 else f"{len(unasked)} times"
        yield (
            f"a process stood still {times} though nobody paused it, the longest for "
            f"{ms(longest.end_ns - longest.start_ns)} ({longest.client} at {evidence.at(longest.start_ns)}): "
            "the machine was busy, which is never the lock's fault"
        )


def _strangers(evidence: Evidence) -> int:
    ops = evidence.ops
    acquired = np.zeros(len(ops.names.grant) + 1, bool)
    acquired[ops.grant[ops.rows(F.ACQUIRE)]] = True
    return int(((ops.grant != NONE) & ~acquired[ops.grant]).sum())
