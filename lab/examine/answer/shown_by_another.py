"""A defect that a history alone does not show, made to do harm: another client asks meanwhile.

A client is told of success when its key is gone already. The nodes show that, a history does not; what shows
in a history is what comes of it: another client takes the lock in between, and one of the two overwrites what
the other has written. The scenarios about late successes below ``scenarios/libraries`` are made like this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine.ledger.keeping import keep
from lab.examine.violations.evidence import MS_NS, Evidence, Operation
from lab.search.runner import run_trial
from lab.search.suspicion import named
from lab.search.trial import CLIENTS, START_NS, Round, Trial
from lab.substrates.sim.clock import MONOTONIC_START_NS

SHOWN_BY: Final = ("lost-update", "continuity-loss")
"""What comes of a late success, as the checker calls it."""
EARLIER_NS: Final = tuple(ms * MS_NS for ms in (1000, 500, 200, 100, 50, 20))
"""How long before the success the other client may ask: the longest for which the key was gone."""
LATER_NS: Final = tuple(ms * MS_NS for ms in (500, 100, 20))
"""How long after the success its client writes where the other one asks only after it."""
AFTERWARDS_NS: Final = 30_000 * MS_NS
"""So long a trial may go on after the success."""


def shown_by_another(trial: Trial) -> tuple[Trial, str] | None:
    """A trial with one client more, and what its history shows; None if there is no such trial.

    Only inside ``trials``.
    """
    for changed in _with_another(trial):
        try:
            if _late_success(changed) is None:
                continue
        except UnknownOutcome:
            continue
        found = {each.name for each in named(run_trial(changed)) if each.severity == "violation"}
        for finding in SHOWN_BY:
            if finding in found:
                return changed, finding
    return None


def _late_success(trial: Trial) -> tuple[Evidence, Operation] | None:
    """The first call of a trial that was told of success when no majority of the nodes had its key."""
    kept = keep(trial)
    evidence = Evidence(kept.outcome)
    late = {claim.call.called_ns: claim for claim in kept.ledger.claims if not claim.kept_ns}
    calls = (each for each in evidence.operations if each.f in ("acquire", "extend") and each.how == "ok")
    found = next((each for each in calls if each.called_ns in late), None)
    return None if found is None else (evidence, found)


def _with_another(trial: Trial) -> Iterator[Trial]:
    """Trials in which one more client asks before a late success, and writes before who was told of it."""
    name = next((each for each in CLIENTS if each not in trial.clients), None)
    try:
        found = _late_success(trial)
    except UnknownOutcome:
        return
    if name is None or found is None:
        return
    evidence, late = found
    ends_ns = late.ended_ns - MONOTONIC_START_NS + AFTERWARDS_NS
    for asks_ns, hold_ns, until_write_ns in _times(trial, evidence, late):
        own = _goes_on(trial, evidence, late, until_write_ns)
        another = Round(asks_ns - MONOTONIC_START_NS - START_NS, hold_ns, checks=False)
        clients = {**trial.clients, late.client: own, name: (another,)}
        yield replace(trial, clients=clients, demand_ns=0, horizon_ns=max(trial.horizon_ns, ends_ns))


def _times(trial: Trial, evidence: Evidence, late: Operation) -> Iterator[tuple[int, int, int]]:
    """When the other client asks, how long it holds the lock, and when the first writes after its success.

    Before the success, if the key was gone long enough before that; else after it.
    """
    earlier_ns = next((ns for ns in EARLIER_NS if _is_gone(evidence, late, late.ended_ns - ns)), None)
    if earlier_ns is not None:
        for until_write_ns in (earlier_ns, earlier_ns // 4):
            yield late.ended_ns - earlier_ns, earlier_ns + until_write_ns // 2, until_write_ns
    for later_ns in LATER_NS:
        if later_ns < trial.ttl_ns // 2:
            yield late.ended_ns + later_ns // 10, later_ns, later_ns


def _is_gone(evidence: Evidence, late: Operation, at_ns: int) -> bool:
    """Whether a majority was free of the client's key at this time, while its call was under way."""
    holding = evidence.holding(late.client, at_ns)
    return at_ns > late.called_ns and len(holding) < evidence.outcome.trial.majority


def _goes_on(trial: Trial, evidence: Evidence, late: Operation, until_write_ns: int) -> tuple[Round, ...]:
    """The rounds of the client that was told of success, which writes so long after that, unasked."""
    own = [each for each in evidence.operations if each.client == late.client]
    acquires = [each for each in own if each.f == "acquire" and each.called_ns <= late.called_ns]
    rounds = trial.clients[late.client][: len(acquires)]
    for asked in acquires[len(rounds) :]:  # those of a client that asks again and again at its end
        before_ns = max((each.ended_ns for each in own if each.called_ns < asked.called_ns), default=0)
        rounds = (*rounds, Round(max(asked.called_ns - before_ns, 0) if before_ns else 0, until_write_ns))
    last = rounds[-1]
    if late.f == "acquire":
        changed = replace(last, hold_ns=until_write_ns, extends=0, checks=False)
    else:
        which = sum(
            each.f == "extend" and each.grant_id == late.grant_id and each.called_ns <= late.called_ns
            for each in own
        )
        hold_ns = last.hold_ns // (last.extends + 1) * (which + 1)
        changed = replace(last, hold_ns=hold_ns, extends=which, checks=False)
    return (*rounds[:-1], changed)
