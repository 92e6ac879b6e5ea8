"""The orchestrator: every check on one history, each guarded, composed into one verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from typing import Final, get_args

import numpy as np
from msgspec import structs

from checker.errors import HistoryError
from checker.history.completeness import Completeness
from checker.history.events import Model
from checker.history.evidence import Evidence
from checker.history.history import LONGEST_NS, Gap, History
from checker.history.masks import count, positions, some
from checker.history.operations import NEVER, NONE, F, Status
from checker.linearizability.custom import CustomModel, check_model, operations_of
from checker.properties import (
    counting,
    elections,
    fairness,
    fencing,
    linearizable,
    mutual_exclusion,
    resource,
    timeliness,
)
from checker.properties import deadlock_freedom as liveness
from checker.properties import lease_honesty as honesty
from checker.verdict import Outcome, Property, PropertyVerdict, Verdict, compose, judge, worst
from checker.words import in_words

Check = Callable[[Evidence], PropertyVerdict]
LONG: Final = 200_000
"""From how many operations on two properties are judged at the same time."""


def check(
    history: History,
    *,
    model: str | CustomModel | None = None,
    only: Collection[Property | str] | None = None,
) -> Verdict:
    """Decide whether the lock kept its promises.

    `model` overrides the one of the header; by a model of one's own nothing else is judged. With `only`, the
    other properties are not judged and not in the verdict; one of `only` that the model does not have, or the
    record does not promise, is unknown. A check that raises makes its property unknown; a
    definite violation stands whatever else is unknown.

    Raises:
        HistoryError: no such model, or no such property.
    """
    asked = None if only is None else properties(only)
    if isinstance(model, CustomModel):
        evidence = Evidence(history)
        return compose([_by_model(evidence, model)], tuple(history.problems), tuple(remarks(evidence)))
    if model is not None and model not in get_args(Model):
        raise HistoryError(
            f"saw {model!r}, expected one of {', '.join(get_args(Model))}, or package.module:Class",
            field="model",
        )
    evidence = Evidence(history, model)
    plan = plan_of(evidence.model) | _promised(evidence)
    if asked is not None:
        plan = {name: checks for name, checks in plan.items() if name in asked}
    verdicts = _judged(evidence, plan)
    if history.gaps and evidence.model != "lease":
        why = f"a recording is judged as a lease only: its gaps may matter to a {evidence.model}"
        verdicts = [PropertyVerdict(verdict.property, Outcome.UNKNOWN, why) for verdict in verdicts]
    if history.several_clocks:
        verdicts = _by_clocks(evidence, plan, verdicts)
    if asked is not None:
        why = f"a {evidence.model} of this record promises nothing of the kind, so nothing was judged"
        verdicts += [PropertyVerdict(name, Outcome.UNKNOWN, why) for name in asked if name not in plan]
    if history.complete is Completeness.NOT_KNOWN:
        verdicts = [_if_complete(verdict) for verdict in verdicts]
    return compose(verdicts, tuple(unknown_reasons(evidence)), tuple(remarks(evidence)))


def properties(names: Collection[Property | str]) -> tuple[Property, ...]:
    """The properties of these names, each once, in order.

    Raises:
        HistoryError: no such property, or none.
    """
    found = []
    for name in (names,) if isinstance(names, str) else names:
        if name not in list(Property):
            near = get_close_matches(str(name), list(Property), n=1)
            raise HistoryError(
                f"saw {str(name)!r}, expected some of {', '.join(Property)}",
                field="only",
                hint=f"did you mean {str(near[0])!r}?" if near else None,
            )
        found.append(Property(name))
    if not found:
        raise HistoryError(f"saw no property, expected some of {', '.join(Property)}", field="only")
    return tuple(dict.fromkeys(found))


def _judged(evidence: Evidence, plan: dict[Property, tuple[Check, ...]]) -> list[PropertyVerdict]:
    """A verdict for each property; two at a time for a long history, as numpy lets other threads run."""
    if len(evidence.ops) < LONG:
        return [_guarded(evidence, name, checks) for name, checks in plan.items()]
    evidence.prepare()
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(partial(_guarded, evidence), plan, plan.values()))


def _by_clocks(
    evidence: Evidence, plan: dict[Property, tuple[Check, ...]], verdicts: list[PropertyVerdict]
) -> list[PropertyVerdict]:
    """The same verdicts, unknown where that something is violated depends on how much clocks err.

    A violation holds for all errors within the bound. One that there is if all stamps are right, and is not
    for all errors, is neither shown nor ruled out.
    """
    params = structs.replace(evidence.params, epsilon_ns=0)
    exact = _judged(Evidence(evidence.history.with_params(params), evidence.model), plan)
    seen = {verdict.property: verdict for verdict in exact if verdict.outcome is Outcome.VIOLATED}
    return [
        replace(verdict, outcome=Outcome.UNKNOWN, why=_depends(evidence, seen[verdict.property]))
        if verdict.property in seen and verdict.outcome is not Outcome.VIOLATED
        else verdict
        for verdict in verdicts
    ]


def _depends(evidence: Evidence, exact: PropertyVerdict) -> str:
    """What would be violated if all clocks were right."""
    bound = "no bound on their errors is known"
    if evidence.params.epsilon_ns < LONGEST_NS:
        bound = f"they may err by {in_words(evidence.params.epsilon_ns)} each"
    finding = exact.violations[0]
    return f"violated if the clocks of all hosts are right, but {bound}: {finding.headline}"


def _if_complete(verdict: PropertyVerdict) -> PropertyVerdict:
    """The same verdict, with the condition under which an `ok` or `absent` of it holds."""
    if verdict.outcome not in (Outcome.OK, Outcome.ABSENT):
        return verdict
    return replace(verdict, why=f"if the record is complete: {verdict.why}")


def plan_of(model: str) -> dict[Property, tuple[Check, ...]]:
    """Which checks decide which property of a history of this model."""
    if model == linearizable.REGISTER:
        return {Property.RESOURCE: (linearizable.check_register,)}  # a register has no lock to judge
    if model in counting.MODELS:  # several may hold such a lock, so nothing else follows from two that do
        return _liveness() | {
            Property.MUTUAL_EXCLUSION: (counting.check,),
            Property.LEASE_HONESTY: (honesty.check,),
        }
    if model == elections.MODEL:
        return {Property.MUTUAL_EXCLUSION: (elections.check,)}
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
    } | _liveness()


def _by_model(evidence: Evidence, model: CustomModel) -> PropertyVerdict:
    """The verdict by a model of one's own: on mutual exclusion if there are locks, else on the resource."""
    operations = operations_of(evidence.history, failed=model.looks_at_failures)
    rows = positions((evidence.ops.status != Status.FAIL) | model.looks_at_failures).tolist()
    results = check_model(operations, model)
    name = Property.MUTUAL_EXCLUSION if some(evidence.ops.f == F.ACQUIRE) else Property.RESOURCE
    findings = [
        linearizable.by_model(evidence, name, model, r, rows) for r in results if r.outcome == "violated"
    ]
    unsure = [r for r in results if r.outcome == "unknown"]
    kind = type(model).__name__
    why = f"the operations on each of {len(results)} objects can be put in one order ({kind})"
    if unsure:
        why = (
            f"the search ended after {unsure[0].steps:,} steps without an answer for {unsure[0].partition!r}"
        )
    outcome = worst(Outcome(r.outcome) for r in results) if not findings else Outcome.VIOLATED
    return judge(name, findings, otherwise=outcome, why=why)


def _liveness() -> dict[Property, tuple[Check, ...]]:
    return {
        Property.DEADLOCK_FREEDOM: (liveness.check_deadlock_freedom,),
        Property.FAULT_TOLERANCE: (liveness.check_fault_tolerance,),
    }


def _promised(evidence: Evidence) -> dict[Property, tuple[Check, ...]]:
    """What this record says that the lock promises beyond what every lock does."""
    plan: dict[Property, tuple[Check, ...]] = {}
    if evidence.params.fifo_ns is not None:
        plan[Property.FAIRNESS] = (fairness.check,)
    if timeliness.applies(evidence):
        plan[Property.TIMELINESS] = (timeliness.check,)
    return plan


def _guarded(evidence: Evidence, name: Property, checks: tuple[Check, ...]) -> PropertyVerdict:
    """The worst of several checks of one property; one that crashes is unknown."""
    verdicts = []
    for one in checks:
        try:
            verdicts.append(one(evidence))
        except HistoryError:
            raise  # the record contradicts the model: bad input, and no matter of a check
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
    if history.several_clocks and evidence.params.epsilon_ns >= LONGEST_NS:
        yield (
            "no bound is known on how much the clocks of the hosts err, so nothing follows from what one did "
            "before another: --clock-error-ms states one"
        )
    yield from _missing(evidence)
    for record in history.lab:
        if record.f == "abort" and record.value == "not simulated":
            yield record.error or "the lock used what simulated nodes lack"
        elif record.f == "abort":
            failed = record.value or "the harness"
            yield f"{failed} failed: {record.error or 'no reason given'} (event {record.index})"
        elif record.f == "anchor" and record.type == "fail":
            yield f"an anchor never came: {record.error or record.value or '?'} (event {record.index})"
    for fault in history.faults:
        if not fault.confirmed:
            target = f" on {fault.target}" if fault.target else ""
            yield f"no receipt for {fault.f}{target} (event {fault.index})"
    if evidence.model == linearizable.REGISTER:
        return
    if not some(evidence.grants.held):
        yield "nothing was ever granted, so nothing was proved"
    strangers = _strangers(evidence)
    if strangers:
        yield f"{strangers} operations name a grant that no acquire of this history made"


def remarks(evidence: Evidence) -> Iterator[str]:
    """What a reader should know that is nobody's fault: a record that may not be all, processes that stood
    still unasked.
    """
    yield from _of_clocks(evidence)
    if evidence.history.complete is Completeness.NOT_KNOWN:
        yield (
            "whether the record is complete is not known, since the file holds no count and digest of its "
            "events: every `ok` holds if the record is complete"
        )
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
            f"{in_words(longest.end_ns - longest.start_ns)} ({longest.client} at "
            f"{evidence.at(longest.start_ns)}): "
            "the machine was busy, which is never the lock's fault"
        )


def _missing(evidence: Evidence) -> Iterator[str]:
    """Which events recordings lack, by who recorded."""
    gaps: dict[str, list[Gap]] = {}
    for gap in evidence.history.gaps:
        if gap.lost != 0:
            gaps.setdefault("the recorder" if gap.clients is None else gap.clients[0], []).append(gap)
    for who, found in gaps.items():
        lost, last = [gap for gap in found if gap.end_ns < NEVER], found[-1]
        if lost:
            times = "once" if len(lost) == 1 else f"{len(lost)} times"
            yield (
                f"{who} lost events {times}, for the first time at {evidence.at(lost[0].start_ns)} "
                f"({sum(gap.lost or 1 for gap in lost)} in all)"
            )
        if last.end_ns >= NEVER:
            yield (
                f"what {who} did after {evidence.at(last.start_ns)} is not recorded: it was killed, or its "
                "file is still being written"
            )


def _of_clocks(evidence: Evidence) -> Iterator[str]:
    """When time zero was, and by how much stamps may be wrong."""
    clocks, history = evidence.history.clocks, evidence.history
    if not clocks or type(clocks[0].value) is not int:
        return
    zero_s = (history.zero_ns + clocks[0].value) / 1e9
    if not 0 <= zero_s < 2**33:
        return
    zero = datetime.fromtimestamp(zero_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    yield f"times count from {zero}"
    if history.several_clocks and evidence.params.epsilon_ns < LONGEST_NS:
        number = len({clock.target for clock in clocks})
        yield (
            f"stamps are of {number} clocks, each within {in_words(evidence.params.epsilon_ns)} of true time:"
            " what depends on less than twice that is not seen"
        )


def _strangers(evidence: Evidence) -> int:
    ops = evidence.ops
    acquired = np.zeros(len(ops.names.grant) + 1, bool)
    acquired[ops.grant[ops.rows(F.ACQUIRE)]] = True
    return count((ops.grant != NONE) & ~acquired[ops.grant])
